"""The number of arrivals that share a transaction, and how often the committer is woken."""

from __future__ import annotations

import threading
from collections.abc import Callable, Container
from types import TracebackType

import pytest

from mercury.engine.runtime.group_commit import (
    GROUP_COMMIT_BYTES,
    GROUP_COMMIT_CALLS,
    GROUP_COMMIT_LIMIT,
    GROUP_COMMIT_WINDOW,
    MOST_DIVIDED,
    MOST_GATHERED,
    ArrivalQueue,
)
from tests.acceptance.processes import eventually
from tests.patience import patience

MOST = 256
PATIENCE = patience(30.0)


class Arrivals:
    """A queue into which something comes at certain seconds, while its taking thread waits.

    :param can_wait: those that can wait for others.
    """

    def __init__(
        self, *times: float, most: int = MOST, most_waiting: int = 1000, can_wait: Container[float] = ()
    ) -> None:
        self.now = 0.0
        self.wakes = 0
        #: Whether those that can wait gather.
        self.gathers = True
        #: Seconds from one transaction of them to the next.
        self.pause = 0.0
        self._times = list(times)
        self.queue = ArrivalQueue[float](
            most_waiting,
            most,
            lambda: self.now,
            lambda _: Condition(self),
            can_wait=lambda each: each in can_wait,
            gathers=lambda: self.gathers,
            pause=lambda: self.pause,
        )

    def advance(self, until: float | None, woken: Condition) -> None:
        """Let arrivals come until the taking thread is woken, or until this time."""
        woken.notified = False
        while self._times and not woken.notified and (until is None or self._times[0] <= until):
            self.now = max(self.now, self._times[0])
            self.queue.put([self._times.pop(0)])
        if woken.notified:
            self.wakes += 1
        elif until is None:
            self.queue.close()
        else:
            self.now = until

    def taken(self, transactions: int) -> list[int]:
        """How many arrivals each transaction takes."""
        return [len(self.queue.take()) for _ in range(transactions)]


class Condition:
    """Lets the arrivals come while it is waited for."""

    def __init__(self, arrivals: Arrivals) -> None:
        self._arrivals = arrivals
        self.notified = False

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        pass

    def wait(self, timeout: float | None = None) -> bool:
        self._arrivals.advance(None if timeout is None else self._arrivals.now + timeout, self)
        return self.notified

    def notify(self) -> None:
        self.notified = True


def burst(begin: float, count: int) -> list[float]:
    return [begin + 0.001 * number for number in range(count)]


def test_single_arrival_is_not_delayed() -> None:
    arrivals = Arrivals(1.0, 2.0, 3.0)
    assert arrivals.taken(3) == [1, 1, 1]
    assert arrivals.now == 3.0


def filled(arrivals: Arrivals, count: int) -> Arrivals:
    """Arrivals that came before the first transaction began."""
    assert arrivals.queue.put([0.0] * count) == count
    return arrivals


def test_arrivals_that_came_together_are_awaited_together() -> None:
    assert filled(Arrivals(*burst(1.0, 20)), 20).taken(2) == [20, 20]


def test_committer_is_woken_for_the_first_and_when_all_have_come() -> None:
    arrivals = filled(Arrivals(*[1.0 + 0.00001 * number for number in range(64)]), 64)
    assert arrivals.taken(2) == [64, 64]
    assert arrivals.wakes == 2


def test_arrival_after_a_pause_is_not_awaited() -> None:
    arrivals = filled(Arrivals(1.0, 1.001, 1.001 + 3 * GROUP_COMMIT_WINDOW), 20)
    assert arrivals.taken(2) == [20, 2]
    assert arrivals.now <= 1.0 + 2 * GROUP_COMMIT_WINDOW


def test_nobody_waits_for_long_however_many_come() -> None:
    arrivals = filled(Arrivals(*[1.0 + 0.003 * number for number in range(100)]), 200)
    assert arrivals.taken(2)[1] < 10
    assert arrivals.now <= 1.0 + GROUP_COMMIT_LIMIT + 0.001


def test_one_that_comes_first_does_not_make_the_rest_come_alone() -> None:
    assert filled(Arrivals(1.0, *burst(2.0, 8)), 8).taken(3)[2] >= 4


def test_a_transaction_takes_no_more_than_it_may() -> None:
    assert filled(Arrivals(most=8), 20).taken(3) == [8, 8, 4]


def test_a_transaction_takes_no_more_bytes_than_it_may() -> None:
    half = GROUP_COMMIT_BYTES // 2
    queue = ArrivalQueue[int](100, MOST, size=lambda size: size)
    queue.put([half, half, 1, half, 1, half])
    queue.close()
    assert [queue.take(), queue.take(), queue.take()] == [[half, half], [1, half, 1], [half]]


def test_an_arrival_larger_than_a_transaction_is_alone_in_one() -> None:
    queue = ArrivalQueue[int](100, MOST, size=lambda size: size)
    queue.put([1, GROUP_COMMIT_BYTES + 1, 1])
    queue.close()
    assert [queue.take(), queue.take(), queue.take()] == [[1], [GROUP_COMMIT_BYTES + 1], [1]]


def called(*seconds: float, size: float = 0.0) -> list[list[float]]:
    """The transactions of arrivals that wait, each with the seconds of its calls.

    :param size: the part of `GROUP_COMMIT_BYTES` that each has.
    """
    queue = ArrivalQueue[float](100, MOST, size=lambda _: int(size * GROUP_COMMIT_BYTES), calls=lambda each: each)
    queue.put(seconds)
    queue.close()
    return list(iter(queue.take, []))


def test_a_transaction_takes_no_more_calls_than_it_has_time_for() -> None:
    third = GROUP_COMMIT_CALLS * 0.3
    assert called(third, third, third, third, 0.0) == [[third, third, third], [third, 0.0]]


def test_an_arrival_with_more_calls_than_there_is_time_for_is_alone_in_a_transaction() -> None:
    long = 2 * GROUP_COMMIT_CALLS
    assert called(long, 0.0, long) == [[long], [0.0], [long]]


def test_arrivals_are_not_divided_if_the_last_one_would_wait_for_too_many_calls() -> None:
    many = [MOST_DIVIDED / 4] * 5
    assert called(*many) == [many]


def test_arrivals_with_many_bytes_are_divided_however_many_calls_they_have() -> None:
    long = MOST_DIVIDED / 2
    assert called(long, long, long, long, size=0.3) == [[long, long, long], [long]]
    assert called(long, long, long, size=0.4) == [[long], [long], [long]], "what does not fit is not waited for"


ACKNOWLEDGEMENTS = (1.0, 1.007, 1.009, 1.011)


def test_acknowledgements_gather_for_as_long_as_the_last_transaction_took() -> None:
    arrivals = Arrivals(*ACKNOWLEDGEMENTS, 1.02, can_wait=(*ACKNOWLEDGEMENTS, 1.02))
    assert arrivals.taken(1) == [1]
    arrivals.now += 0.006  # the transaction
    assert arrivals.taken(1) == [3]
    assert arrivals.now == pytest.approx(1.012)


def test_an_acknowledgement_after_a_pause_is_not_delayed() -> None:
    arrivals = Arrivals(1.0, 2.0, can_wait=(1.0, 2.0))
    assert arrivals.taken(1) == [1]
    arrivals.now += 0.006
    assert arrivals.taken(1) == [1]
    assert arrivals.now == 2.0


def test_a_message_among_acknowledgements_ends_their_wait() -> None:
    arrivals = Arrivals(*ACKNOWLEDGEMENTS, can_wait=(1.0, 1.007, 1.011))
    assert arrivals.taken(1) == [1]
    arrivals.now += 0.006
    assert arrivals.taken(1) == [2]
    assert arrivals.now == 1.009
    arrivals.now += 0.001
    assert arrivals.taken(1) == [1]
    assert arrivals.now < 1.016


def test_acknowledgements_do_not_gather_while_they_could_let_messages_leave() -> None:
    arrivals = Arrivals(*ACKNOWLEDGEMENTS, can_wait=ACKNOWLEDGEMENTS)
    assert arrivals.taken(1) == [1]
    arrivals.now += 0.006
    arrivals.gathers = False
    assert arrivals.taken(1) == [1]
    assert arrivals.now == 1.007


def test_acknowledgements_never_gather_for_long() -> None:
    arrivals = Arrivals(1.0, 9.0, can_wait=(1.0, 9.0))
    assert arrivals.taken(1) == [1]
    arrivals.now = 8.995  # a long transaction
    assert arrivals.taken(1) == [1]
    assert arrivals.now <= 8.995 + MOST_GATHERED


def streaming(*times: float, can_wait: tuple[float, ...]) -> Arrivals:
    """Acknowledgements of a stream: nothing waits for an exchange."""
    arrivals = Arrivals(*times, can_wait=can_wait)
    arrivals.gathers, arrivals.pause = False, 0.02
    return arrivals


def test_acknowledgements_of_a_stream_gather_from_the_begin_of_one_transaction_to_that_of_the_next() -> None:
    times = (1.0, 1.007, 1.015, 1.019, 1.03)
    arrivals = streaming(*times, can_wait=times)
    assert arrivals.taken(1) == [1]
    arrivals.now += 0.003
    assert arrivals.taken(1) == [3]
    assert arrivals.now == pytest.approx(1.02)


def test_a_message_ends_the_wait_of_a_streams_acknowledgements() -> None:
    arrivals = streaming(1.0, 1.007, 1.011, can_wait=(1.0, 1.007))
    assert arrivals.taken(2) == [1, 2]
    assert arrivals.now == 1.011


def test_an_acknowledgement_that_comes_after_a_stream_is_not_delayed() -> None:
    arrivals = streaming(1.0, 2.0, can_wait=(1.0, 2.0))
    assert arrivals.taken(2) == [1, 1]
    assert arrivals.now == 2.0


def test_a_stream_that_stops_to_be_one_ends_the_wait() -> None:
    """A window has become full, for example: what opens it must not wait."""
    arrivals = streaming(1.0, 1.007, 1.011, can_wait=(1.0, 1.007, 1.011))
    assert arrivals.taken(1) == [1]
    arrivals.pause = 0.0
    assert arrivals.taken(1) == [1]
    assert arrivals.now == 1.007


def test_a_queue_that_is_closed_gathers_nothing() -> None:
    arrivals = filled(Arrivals(can_wait=(0.0,)), 1)
    arrivals.now += 0.006
    arrivals.queue.close()
    assert arrivals.taken(2) == [1, 0]
    assert arrivals.now == 0.006


def test_more_than_may_wait_are_refused() -> None:
    arrivals = filled(Arrivals(most_waiting=2), 2)
    assert arrivals.queue.full
    assert arrivals.queue.put([0.0]) == 0
    assert arrivals.taken(1) == [2]
    assert arrivals.queue.put([0.0] * 3) == 2


def test_closed_queue_gives_what_waits_and_then_nothing() -> None:
    arrivals = filled(Arrivals(), 3)
    arrivals.queue.close()
    assert arrivals.taken(3) == [3, 0, 0]


def test_thread_that_waits_for_room_goes_on_when_some_are_taken() -> None:
    queue = ArrivalQueue[int](1, MOST)
    queue.put([1])
    thread = threading.Thread(target=queue.put, args=([2], 60.0))
    thread.start()
    taken = queue.take()
    while len(taken) < 2:
        taken += queue.take()
    thread.join(60.0)
    assert taken == [1, 2]


def test_arrivals_that_are_put_back_come_before_those_that_came_meanwhile() -> None:
    arrivals = Arrivals(most=3)
    arrivals.queue.put([1.0, 2.0, 3.0, 4.0])
    taken = arrivals.queue.take_waiting()
    assert taken == [1.0, 2.0, 3.0]
    arrivals.queue.put([5.0])
    arrivals.queue.put_back([1.0, 3.0])
    assert arrivals.queue.take() == [1.0, 3.0, 4.0]
    assert arrivals.queue.take() == [5.0]


def test_queue_that_has_more_than_it_may_because_some_were_put_back_takes_no_other() -> None:
    arrivals = filled(Arrivals(most_waiting=2), 2)
    taken = arrivals.queue.take_waiting()
    assert arrivals.queue.put([0.0] * 2) == 2
    arrivals.queue.put_back(taken)
    assert arrivals.queue.put([0.0] * 3) == 0
    assert arrivals.taken(1) == [4], "none is lost, and none is there twice"


def test_message_that_is_put_back_still_ends_the_wait_of_acknowledgements() -> None:
    arrivals = Arrivals(1.0, can_wait=(0.0, 1.0))
    arrivals.queue.put([0.5])
    arrivals.queue.put_back(arrivals.queue.take_waiting())
    arrivals.now = 0.6
    assert arrivals.taken(1) == [1]
    assert arrivals.now == 0.6


def waiting_thread(queue: ArrivalQueue[int], work: Callable[[], object], *, for_room: bool) -> threading.Thread:
    """A thread that waits for the queue."""
    thread = threading.Thread(target=work)
    thread.start()
    eventually(lambda: bool(queue._held_up if for_room else queue._wake_at), "it waits")
    return thread


def test_thread_that_waits_for_room_goes_on_when_another_one_takes_in_place_of_the_taking_thread() -> None:
    queue = ArrivalQueue[int](1, MOST)
    queue.put([1])
    thread = waiting_thread(queue, lambda: queue.put([2], 3600.0), for_room=True)
    assert queue.take_waiting() == [1]
    thread.join(PATIENCE)
    assert queue.take_waiting() == [2]


def test_taking_thread_is_woken_by_what_is_put_back() -> None:
    queue, taken = ArrivalQueue[int](100, MOST), list[int]()
    thread = waiting_thread(queue, lambda: taken.extend(queue.take()), for_room=False)
    queue.put_back([1])
    thread.join(PATIENCE)
    assert taken == [1]
