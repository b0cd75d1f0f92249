"""The messages: each dataclass is an XML element of the same name."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Order:
    number: int
