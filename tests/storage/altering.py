"""Alters values in a store, as a disk does."""

from __future__ import annotations


def flipped(value: str | bytes | int | None) -> str | bytes | int:
    """The value with one other bit, or another value."""
    match value:
        case None:
            return "urn:something"
        case int():
            return value ^ 1
    raw = bytearray(value.encode() if isinstance(value, str) else value)
    raw[len(raw) // 2] ^= 1
    return raw.decode() if isinstance(value, str) else bytes(raw)
