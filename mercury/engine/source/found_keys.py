"""The keys that one query found, for as many turns as the query is worth."""

from __future__ import annotations

import math
from collections.abc import Callable

from mercury.storage.records import SequenceKey

#: The most keys that are looked for at once.
FOUND = 1024
#: What was found is used for so many times as long as the query took, and for so many seconds at most: what has become
#: due since then waits so much longer.
TIMES, LONGEST = 10.0, 1.0


class FoundKeys:
    """Portions of what is due.

    A query takes time for each key that waits, however few it returns. Where each turn asked, a thousand keys would be
    gone through for each few dozen that are worked on.

    :param find: the due keys at a time, a number of them at most, in the order in which they are served.
    :param monotonic: returns the time of a monotonic clock, in seconds.
    """

    def __init__(self, find: Callable[[float, int], list[SequenceKey]], monotonic: Callable[[], float]) -> None:
        self._find = find
        self._monotonic = monotonic
        self._left: list[SequenceKey] = []
        self._until = -math.inf
        #: Keys that have been worked on elsewhere since the query began.
        self._worked: set[SequenceKey] = set()

    def next(self, now: float, most: int) -> tuple[list[SequenceKey], bool]:
        """The next keys, and whether more may be due; from a new query if none are left or the last is too long ago.

        :param now: the time of the engine's clock, for the query.
        :param most: the most keys.
        """
        begun = self._monotonic()
        asks = not self._left or begun >= self._until
        if asks:
            self._worked.clear()
            self._left = self._find(now, max(most, FOUND))
            ended = self._monotonic()
            self._until = ended + min(TIMES * (ended - begun), LONGEST)
        keys, self._left = self._left[:most], self._left[most:]
        # The event of a key that has become due since the query may be over: only a new query finds it.
        more = not asks or len(keys) >= most
        worked = self._worked
        if not worked:
            return keys, more
        left = [key for key in keys if key not in worked]
        return left, more or len(left) < len(keys)  # such a key may have become due again since

    def worked(self, key: SequenceKey) -> None:
        """Note that the work on a key is committed, which was found before, perhaps. Any thread may call."""
        self._worked.add(key)
