"""Readings of open pages, which all browsers with the same page share."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

V = TypeVar("V")

#: Pages of which the last reading is kept.
MOST = 64


@dataclass(slots=True)
class _Reading(Generic[V]):
    """The last reading of one page."""

    #: Held while an open page reads, so that the others wait for what it reads.
    turn: threading.Lock = field(default_factory=threading.Lock)
    #: When it was begun, in seconds; ``None`` = there is none.
    begun: float | None = None
    value: V | None = None


class Readings(Generic[V]):
    """Keeps the last reading of each page while it is shared, and what is older not longer than until a page is read.

    An open page that follows a request of its own never gets an older reading than that request's.

    :param age: seconds from its begin for which a reading is shared.
    :param monotonic: seconds that never go back.
    """

    def __init__(self, age: float, monotonic: Callable[[], float]) -> None:
        self._age = age
        self._monotonic = monotonic
        self._mutex = threading.Lock()
        self._kept: dict[tuple[str, ...], _Reading[V]] = {}

    def new(self, page: tuple[str, ...], read: Callable[[], V]) -> V:
        """Read a page now.

        :param page: whatever the reading depends on, but for the time.
        """
        begun = self._monotonic()
        value = read()
        kept = self._of(page)
        with self._mutex:
            if kept.begun is None or begun >= kept.begun:
                kept.begun, kept.value = begun, value
        return value

    def shared(self, page: tuple[str, ...], read: Callable[[], V]) -> V:
        """The last reading of a page, if it is recent, or else a new one, for which others that ask meanwhile wait."""
        kept = self._of(page)
        with kept.turn:
            with self._mutex:
                begun, value = kept.begun, kept.value
            if begun is not None and value is not None and self._monotonic() < begun + self._age:
                return value
            return self.new(page, read)

    def _of(self, page: tuple[str, ...]) -> _Reading[V]:
        with self._mutex:
            kept = self._kept.pop(page, None) or _Reading()
            self._kept[page] = kept  # the last one of them
            old = self._monotonic() - self._age
            for each in self._kept.values():
                if each.begun is not None and each.begun <= old:
                    each.value = None  # no page gets it any more; when it was begun still refuses an older one
            if len(self._kept) > MOST:
                del self._kept[next(iter(self._kept))]
            return kept
