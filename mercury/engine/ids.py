"""Identifiers and chance: arguments of the engine, so that a simulation can replay them."""

from __future__ import annotations

import random
import uuid
from typing import Protocol


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
        return f"urn:uuid:{uuid.uuid4()}"

    def chance(self) -> float:
        return self._random.random()
