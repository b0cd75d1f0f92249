"""Reception waits for workers of its own process that have locked the sequences of what arrives."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from mercury.engine.own_locks import PATIENCE, OwnLocks
from tests.patience import patience

LONG = patience(60.0)


class Clock:
    """A clock that each look moves on.

    :param step: by so many seconds.
    """

    def __init__(self, step: float = 0.0) -> None:
        self.now = 0.0
        self._step = step

    def __call__(self) -> float:
        self.now += self._step
        return self.now


class Asleep(threading.Condition):
    """Nothing may wait for it."""

    def wait(self, timeout: float | None = None) -> bool:
        raise AssertionError(f"waits for {timeout} s")


def never_waiting(clock: Clock) -> OwnLocks:
    locks = OwnLocks(clock)
    locks._changed = Asleep()
    return locks


def test_nothing_is_waited_for_that_no_worker_locks() -> None:
    locks = never_waiting(Clock())
    with locks.note(["urn:a"]):
        locks.wait_for(["urn:b"])
        locks.wait_for([])


def test_sequence_is_waited_for_until_the_last_transaction_that_locks_it_has_ended() -> None:
    locks, looks = OwnLocks(Clock()), 0

    class Looking(threading.Condition):
        def wait(self, timeout: float | None = None) -> bool:
            nonlocal looks
            looks += 1
            asleep.set()
            return super().wait(LONG)

    asleep = threading.Event()
    locks._changed = Looking()
    with ThreadPoolExecutor(1) as thread:
        with locks.note(["urn:a"]):
            with locks.note(["urn:a", "urn:b"]):
                waits = thread.submit(locks.wait_for, ["urn:a", "urn:c"])
                assert asleep.wait(LONG)
                asleep.clear()
            assert asleep.wait(LONG), "one of the two has ended"
            assert not waits.done()
        waits.result(LONG)
    assert looks == 2


def test_transaction_that_fails_is_not_waited_for() -> None:
    locks = never_waiting(Clock())
    with pytest.raises(ZeroDivisionError), locks.note(["urn:a"]):
        1 / 0  # noqa: B018
    locks.wait_for(["urn:a"])


def test_worker_that_waits_itself_is_not_waited_for() -> None:
    """Another process may hold the sequence for ten seconds, in a handler that hangs: nothing else would arrive."""
    clock = Clock()
    locks = never_waiting(clock)
    with locks.note(["urn:a"]):
        clock.now += PATIENCE
        locks.wait_for(["urn:a"])


def test_wait_ends_when_the_worker_takes_too_long() -> None:
    locks = OwnLocks(Clock(step=PATIENCE / 3))
    with locks.note(["urn:a"]):
        locks.wait_for(["urn:a"])


def test_workers_that_begin_one_after_the_other_are_not_waited_for_again_and_again() -> None:
    clock = Clock()
    locks, waits = OwnLocks(clock), 0

    class Beginning(threading.Condition):
        """Whenever something waits, another worker begins."""

        def wait(self, timeout: float | None = None) -> bool:
            nonlocal waits
            waits += 1
            assert waits <= 2, "it waits for those that have begun later"
            clock.now += PATIENCE / 2
            locks._all.append(replace(locks._all[0], began=clock.now))
            return True

    with locks.note(["urn:a"]):
        locks._changed = Beginning()
        locks.wait_for(["urn:a"])
    assert waits == 2
