"""Identifiers that count."""

from __future__ import annotations


class CountedIds:
    """`Ids` that count: ``urn:client:1``, ``urn:client:2`` and so on, so that a test is the same each time.

    :param name: tells the identifiers of one process from those of another.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._count = 0
        #: What `chance` returns: 0 = pauses have no jitter.
        self.luck = 0.0

    def new(self) -> str:
        self._count += 1
        return f"urn:{self._name}:{self._count}"

    def chance(self) -> float:
        return self.luck
