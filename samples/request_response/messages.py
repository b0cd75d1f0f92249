"""The messages: each dataclass is an XML element of the same name."""

from dataclasses import dataclass


@dataclass(frozen=True)
class PlaceOrder:
    item: str
    count: int


@dataclass(frozen=True)
class OrderPlaced:
    item: str
    count: int
    left: int


@dataclass(frozen=True)
class Ship:
    item: str
    count: int
