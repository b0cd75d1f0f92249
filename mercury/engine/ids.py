"""Identifiers and chance: arguments of the engine, so that a simulation can replay them."""

from __future__ import annotations

import os
import random
from types import MappingProxyType
from typing import Protocol

#: The variant of RFC 9562 with two bits of chance, by a digit of chance.
_VARIANT = MappingProxyType(dict(zip("0123456789abcdef", "89ab" * 4, strict=True)))


class Ids(Protocol):
    """Where identifiers and random numbers come from."""

    def new(self) -> str:
        """An absolute URI that was never used before and cannot be guessed (SEC-04)."""

    def chance(self) -> float:
        """A random number, 0 <= n < 1."""


class RandomIds:
    """UUIDs of version 4, and random numbers that no secret depends on."""

    def __init__(self) -> None:
        self._random = random.Random()  # noqa: S311 - it spreads retransmissions

    def new(self) -> str:
        # As `uuid.uuid4` makes it, in a third of the time: each message has one.
        given = os.urandom(16).hex()
        variant = _VARIANT[given[16]]
        return f"urn:uuid:{given[:8]}-{given[8:12]}-4{given[13:16]}-{variant}{given[17:20]}-{given[20:]}"

    def chance(self) -> float:
        return self._random.random()
