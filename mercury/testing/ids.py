"""Identifiers that are the same in each run of a test."""

from __future__ import annotations


class CountedIds:
    """`Ids` that count: ``urn:client:1``, ``urn:client:2`` and so on.

    :param name: a part of each identifier; each process needs another one.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._count = 0
        #: The result of `chance`; 0 = retry times have no jitter.
        self.luck = 0.0

    def new(self) -> str:
        self._count += 1
        return f"urn:{self._name}:{self._count}"

    def chance(self) -> float:
        return self.luck
