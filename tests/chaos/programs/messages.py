"""The messages of the two applications."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Order:
    id: int
    item: str
    quantity: int


@dataclass(frozen=True)
class Confirmation:
    id: int
    item: str
    quantity: int
