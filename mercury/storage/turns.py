"""Fair scheduling: one item of each owner comes before a second item of any owner."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import chain, zip_longest
from typing import TypeVar

T = TypeVar("T")

#: Seconds that each step of priority puts a key before others that are due, so that none waits for ever: a key that has
#: waited so much longer comes first.
HEAD_START = 10.0


def by_turns(found: Iterable[tuple[T, str]], after: str) -> list[T]:
    """Interleave items of several owners; the items of one owner stay in their order.

    :param found: items with their owners.
    :param after: the owner that was served last: the owners after it, in the order of names, come first.
    """
    items = list(found)
    if len(items) < 2:
        return [each for each, _ in items]
    had: Counter[str] = Counter()
    placed: list[tuple[int, bool, str, T]] = []
    for each, owner in items:
        placed.append((had[owner], owner <= after, owner, each))
        had[owner] += 1
    return [each for *_, each in sorted(placed, key=lambda place: place[:3])]


def alternating(first: Iterable[T], second: Iterable[T]) -> list[T]:
    """Take items from two lists alternately, each item once: neither list starves."""
    both = chain.from_iterable(zip_longest(map(_present, first), map(_present, second)))
    return list(dict.fromkeys(each[0] for each in both if each is not None))


def _present(each: T) -> tuple[T]:
    return (each,)
