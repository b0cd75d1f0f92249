"""Two members with a lease of five seconds, on one store and a clock that the test moves."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable

import pytest

from mercury.engine.membership import MemberState
from mercury.engine.runtime.lease import LONGEST_PAUSE, ActiveLease
from mercury.errors import NotActive, TransientStorageError
from mercury.storage.claims import Claim
from mercury.storage.memory import MemoryStore
from mercury.testing.clock import FakeClock

LEASE = 5.0
#: Seconds to wait for another thread.
PATIENCE = 10.0


class SharedStore(MemoryStore):
    """A store in memory as one process of several sees it: the claims are common, the guard is its own."""

    def __init__(self, other: SharedStore | None = None) -> None:
        super().__init__()
        self.away = False
        #: Set by each question for a claim that was answered.
        self.answered = threading.Event()
        #: Set by each question for a claim.
        self.asked = threading.Event()
        if other is not None:
            self.committed, self._claims = other.committed, other._claims

    def claim(self, resource: str, owner: str, now: float, lease: float) -> Claim | None:
        self.asked.set()
        if self.away:
            raise TransientStorageError("the database does not answer")
        self._epoch = max((held.claim.epoch for held in self._claims.values()), default=self._epoch)
        claim = super().claim(resource, owner, now, lease)
        self.answered.set()
        return claim


class Process:
    """A member, with what it has started and stopped."""

    def __init__(self, name: str, clock: FakeClock, other: Process | None = None, lease: float = LEASE) -> None:
        self.store = SharedStore(other.store if other is not None else None)
        self.does: list[str] = []
        self.fails = False
        #: What it does before it serves.
        self.begins: Callable[[], None] = lambda: None
        owners = (f"{name} {number}" for number in itertools.count())
        self.lease = ActiveLease(self.store, lambda: next(owners), lease, clock, self._serve, self._cease)

    def _serve(self) -> None:
        self.begins()
        if self.fails:
            raise ValueError("no thread can be started")
        self.does.append("serves")

    def _cease(self) -> None:
        self.does.append("ceases")

    @property
    def state(self) -> MemberState:
        return self.lease.status.state

    def writes(self) -> bool:
        try:
            self.store.claim("rms 1", "me", 0.0, 0.0)
        except NotActive:
            return False
        return True


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def pair(clock: FakeClock) -> tuple[Process, Process]:
    first = Process("first", clock)
    second = Process("second", clock, first)
    first.lease.turn()
    second.lease.turn()
    return first, second


def test_one_of_two_members_serves(pair: tuple[Process, Process]) -> None:
    first, second = pair
    assert (first.does, second.does) == (["serves"], [])
    assert (first.state, second.state) == (MemberState.ACTIVE, MemberState.STANDBY)
    assert (first.writes(), second.writes()) == (True, False)


def test_a_standby_takes_over_when_the_lease_is_over_and_not_before(
    pair: tuple[Process, Process], clock: FakeClock
) -> None:
    first, second = pair
    clock.advance(LEASE - 0.1)
    second.lease.turn()
    assert second.does == []
    clock.advance(0.2)
    second.lease.turn()
    assert second.does == ["serves"]
    assert second.lease.status.epoch is not None
    assert first.lease.status.epoch is not None
    assert second.lease.status.epoch > first.lease.status.epoch


def test_an_active_member_that_prolongs_its_lease_is_not_taken_over(
    pair: tuple[Process, Process], clock: FakeClock
) -> None:
    first, second = pair
    for _ in range(10):
        clock.advance(first.lease.pause)
        first.lease.turn()
        second.lease.turn()
    assert (first.does, second.does) == (["serves"], [])


def test_a_paused_member_writes_nothing_after_another_has_taken_over_and_becomes_a_standby(
    pair: tuple[Process, Process], clock: FakeClock
) -> None:
    first, second = pair
    clock.advance(LEASE + 1)
    second.lease.turn()
    assert first.state is MemberState.ACTIVE, "it has not noticed"
    assert not first.writes()
    first.lease.turn()
    assert first.does == ["serves", "ceases"]
    assert first.state is MemberState.STANDBY
    assert not first.writes()
    assert second.writes()


def test_a_member_that_was_taken_over_and_comes_back_has_another_owner(
    pair: tuple[Process, Process], clock: FakeClock
) -> None:
    first, second = pair
    before = first.store.guarded_by
    clock.advance(LEASE + 1)
    second.lease.turn()
    first.lease.turn()
    second.lease.stop()
    first.lease.turn()
    assert first.does == ["serves", "ceases", "serves"]
    after = first.store.guarded_by
    assert before is not None
    assert after is not None
    assert (before.owner, before.epoch) != (after.owner, after.epoch)
    assert before.owner != after.owner
    assert first.writes()


def test_an_orderly_stop_lets_a_standby_take_over_at_once(pair: tuple[Process, Process]) -> None:
    first, second = pair
    first.lease.stop()
    assert not first.writes()
    second.lease.turn()
    assert second.does == ["serves"]


def test_an_active_member_goes_on_while_the_store_does_not_answer(
    pair: tuple[Process, Process], clock: FakeClock
) -> None:
    first, _ = pair
    first.store.away = True
    clock.advance(2 * LEASE)
    first.lease.turn()
    first.store.away = False
    first.lease.turn()
    assert first.does == ["serves"], "nobody has taken its lease"


def test_a_member_that_cannot_serve_releases_the_lease(
    pair: tuple[Process, Process], clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = pair
    second.fails = True
    clock.advance(LEASE + 1)
    second.lease.turn()
    assert second.state is MemberState.STANDBY
    assert "this member cannot serve" in caplog.text
    first.lease.turn()
    first.lease.turn()
    assert first.does == ["serves", "ceases", "serves"], "without waiting for the end of the other's lease"


def test_lease_of_a_member_that_takes_longer_than_it_to_start_is_prolonged_meanwhile(clock: FakeClock) -> None:
    lease = 0.03
    first = Process("first", clock, lease=lease)
    second = Process("second", clock, first, lease=lease)

    def slow() -> None:
        for _ in range(5):
            clock.advance(0.9 * lease)
            first.store.answered.clear()
            assert first.store.answered.wait(PATIENCE), "it has asked for the lease again"
            second.lease.turn()

    first.begins = slow
    first.lease.turn()
    first.lease.turn()
    assert (first.does, second.does) == (["serves"], [])
    assert first.writes()


def test_member_whose_start_fails_after_more_than_a_lease_does_not_keep_it(clock: FakeClock) -> None:
    lease = 0.03
    first = Process("first", clock, lease=lease)
    second = Process("second", clock, first, lease=lease)

    def slow() -> None:
        first.store.answered.clear()
        assert first.store.answered.wait(PATIENCE), "it has asked for the lease again"
        raise ValueError("no thread can be started")

    first.begins = slow
    first.lease.turn()
    second.lease.turn()
    assert (first.does, second.does) == (["ceases"], ["serves"])


def test_member_that_was_taken_over_while_it_started_ceases_with_its_next_turn(clock: FakeClock) -> None:
    first = Process("first", clock)
    second = Process("second", clock, first)

    def paused() -> None:
        clock.advance(LEASE + 1)
        second.lease.turn()

    first.begins = paused
    first.lease.turn()
    assert not first.writes()
    first.lease.turn()
    assert (first.does, second.does) == (["serves", "ceases"], ["serves"])


def test_start_goes_on_while_the_store_does_not_answer_about_the_lease(clock: FakeClock) -> None:
    lease = 0.03
    first = Process("first", clock, lease=lease)

    def slow() -> None:
        first.store.away = True
        first.store.asked.clear()
        assert first.store.asked.wait(PATIENCE), "it has asked for the lease again"
        first.store.away = False
        first.store.answered.clear()
        assert first.store.answered.wait(PATIENCE), "and again after the error"

    first.begins = slow
    first.lease.turn()
    assert first.does == ["serves"]


def test_pauses_are_short_enough_to_keep_the_lease_and_to_take_it_over_within_a_second(clock: FakeClock) -> None:
    member = Process("only", clock)
    assert member.lease.pause == LONGEST_PAUSE
    member.lease.turn()
    assert member.lease.pause == LEASE / 3


def test_the_thread_takes_the_lease_at_the_start_and_gives_it_back_at_the_end(clock: FakeClock) -> None:
    member = Process("only", clock)
    member.lease.start()
    assert member.does == ["serves"]
    member.lease.stop()
    other = Process("other", clock, member)
    other.lease.turn()
    assert other.does == ["serves"]
