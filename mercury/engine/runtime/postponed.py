"""Handles arrivals again whose sequences another transaction had locked (decision 109).

Another process calls a handler in the transaction that has received messages of the same sequence, and perhaps the
handler hangs. The committer does not wait for it: everything else arrives there, too. A thread tries the postponed ones
again after short pauses, and refuses them as busy after some time. It only stores what they bring.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mercury.engine.exchange import Waiting

#: Seconds until the first attempt; each pause is twice the one before, up to the longest.
FIRST_PAUSE, LONGEST_PAUSE = 0.002, 0.05
#: Seconds after which an arrival is refused.
PATIENCE = 10.0


@dataclass(slots=True)
class _Postponed:
    waiting: Waiting
    #: Seconds of the monotonic clock.
    until: float


class PostponedArrivals:
    """The thread, and what waits for it.

    :param most: the most arrivals that wait; what comes then is refused at the next attempt.
    :param together: how many of them share a transaction.
    :param answer: handles arrivals in one transaction and passes their answers on, and returns those that have to wait
        longer; with ``True`` it refuses them instead. It never raises.
    :param monotonic: returns the time of a monotonic clock, in seconds.
    """

    def __init__(
        self,
        most: int,
        together: int,
        answer: Callable[[list[Waiting], bool], list[Waiting]],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.thread = threading.Thread(target=self._run, name="mercury-committer-3", daemon=True)
        self._most = most
        self._together = together
        self._answer = answer
        self._monotonic = monotonic
        self._postponed: list[_Postponed] = []
        self._mutex = threading.Lock()
        self._woken = threading.Event()
        self._ended = threading.Event()

    def put(self, waiting: Sequence[Waiting]) -> None:
        """Postpone arrivals."""
        if not waiting:
            return
        now = self._monotonic()
        with self._mutex:
            for each in waiting:
                room = len(self._postponed) < self._most
                self._postponed.append(_Postponed(each, now + PATIENCE if room else now))
        self._woken.set()

    def end(self) -> None:
        """Let the thread end: it tries once more, and refuses what has to wait longer."""
        self._ended.set()
        self._woken.set()

    @property
    def length(self) -> int:
        """How many arrivals wait."""
        return len(self._postponed)

    def try_again(self) -> bool:
        """Handle what waits, as far as it can be. Returns whether something was handled or refused."""
        with self._mutex:
            tried, self._postponed = self._postponed, []
        now, refuses = self._monotonic(), self._ended.is_set()
        left: list[_Postponed] = []
        for refused in (True, False):
            some = [each for each in tried if (refuses or each.until <= now) is refused]
            for begin in range(0, len(some), self._together):
                part = some[begin : begin + self._together]
                again = self._answer([each.waiting for each in part], refused)
                left += (each for each in part if any(each.waiting is waiting for waiting in again))
        with self._mutex:
            self._postponed = [*left, *self._postponed]
        return len(left) < len(tried)

    def _run(self) -> None:
        pause = FIRST_PAUSE
        while True:
            if not self._postponed:
                self._woken.clear()
                if not self._postponed and not self._ended.is_set():
                    self._woken.wait()
                pause = FIRST_PAUSE
            if self._ended.wait(pause):
                self.try_again()
                return
            pause = FIRST_PAUSE if self.try_again() else min(2 * pause, LONGEST_PAUSE)
