"""Copies of machines and records."""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")


def shallow(value: T) -> T:
    """A second object with the same attributes. Records are copied at every read, so a copy must be cheap."""
    own = object.__new__(type(value))
    own.__dict__ = value.__dict__.copy()
    return own
