"""The number of arrivals that share a transaction."""

from __future__ import annotations

import queue

from mercury.engine.runtime.group_commit import GROUP_COMMIT_LIMIT, GROUP_COMMIT_WINDOW, GroupCommit

MOST = 256


class Arrivals:
    """A queue into which something comes at certain seconds, with the clock that its readers see."""

    def __init__(self, *times: float) -> None:
        self.now = 0.0
        self._times = list(times)

    def clock(self) -> float:
        return self.now

    def get(self, block: bool = True, timeout: float | None = None) -> float:
        until = self.now + (timeout or 0.0)
        if not self._times or (self._times[0] > until and (timeout is not None or not block)):
            self.now = until
            raise queue.Empty
        self.now = max(self.now, self._times[0])
        return self._times.pop(0)


def taken(arrivals: Arrivals, transactions: int, most: int = MOST) -> list[int]:
    """How many each transaction takes."""
    together = GroupCommit(arrivals, most, arrivals.clock)
    return [len(together.take()[0]) for _ in range(transactions)]


def test_single_arrival_is_not_delayed() -> None:
    arrivals = Arrivals(1.0, 2.0, 3.0)
    assert taken(arrivals, 3) == [1, 1, 1]
    assert arrivals.now == 3.0


def test_arrivals_that_came_together_are_awaited_together() -> None:
    burst = [1.0 + 0.001 * number for number in range(20)]
    assert taken(Arrivals(*[0.0] * 20, *burst), 2) == [20, 20]


def test_arrival_after_a_pause_is_not_awaited() -> None:
    arrivals = Arrivals(*[0.0] * 20, 1.0, 1.001, 1.001 + 2 * GROUP_COMMIT_WINDOW)
    assert taken(arrivals, 2) == [20, 2]
    assert arrivals.now == 1.001 + GROUP_COMMIT_WINDOW


def test_nobody_waits_for_long_however_many_come() -> None:
    drops = [1.0 + 0.003 * number for number in range(100)]
    arrivals = Arrivals(*[0.0] * 200, *drops)
    assert taken(arrivals, 2)[1] < 10
    assert arrivals.now <= 1.0 + GROUP_COMMIT_LIMIT + 0.001


def test_one_that_comes_first_does_not_make_the_rest_come_alone() -> None:
    burst = [2.0 + 0.001 * number for number in range(8)]
    assert taken(Arrivals(*[0.0] * 8, 1.0, *burst), 3)[2] >= 4


def test_a_transaction_takes_no_more_than_it_may() -> None:
    assert taken(Arrivals(*[0.0] * 20), 3, most=8) == [8, 8, 4]
