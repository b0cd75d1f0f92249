"""The messages of the combinations."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Note:
    number: int


@dataclass(frozen=True)
class StoreQuery:
    number: int


@dataclass(frozen=True)
class Answer:
    number: int
    text: str
