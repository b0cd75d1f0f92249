"""A process that has seen a transaction sends after its messages: the store's branch is committed first."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from mercury.errors import OutcomeUnknown, TransientStorageError
from mercury.storage.application import Ending
from mercury.storage.xa.branch import Branch
from mercury.storage.xa.coordinator import Coordinator
from mercury.storage.xa.decisions import Decision, Verdict
from mercury.storage.xa.names import Gtrid, read_gtrid
from mercury.storage.xa.operator import Operator, ResolutionRefused
from mercury.storage.xa.resources import PreparedBranch

from .pausing import paused
from .places import Places, send, work
from .test_ended_sessions import end_sessions
from .test_recovery import leave, recover


def seen_before_it_is_sent(places: Places) -> bool:
    """Whether the application's part is visible, and the message is not."""
    placed, sent, _ = places.state
    return placed != [] and sent == []


def test_the_coordinator_commits_the_stores_part_first(places: Places) -> None:
    with places.process() as coordinator:
        with paused(coordinator, "commit_branch") as stopped:
            assert not seen_before_it_is_sent(places)
            stopped.go_on()
        assert places.state == ([1], [1], [])


def test_recovery_commits_the_stores_part_first_whichever_database_it_reads_first(places: Places) -> None:
    leave(places, "commit_decision")
    with places.process() as other:
        for resource in reversed(other.recovery.resources):
            other.recovery.recover(resource, other.clock())
            assert not seen_before_it_is_sent(places)
        assert recover(other) == 0
    assert places.state == ([1], [1], [])


@pytest.mark.parametrize("places", ["two-phase"], indirect=True)
def test_the_applications_part_waits_in_recovery_while_the_store_does_not_answer(places: Places) -> None:
    """It may answer others, who would see the row and send before its message."""

    def away(gid: str) -> bool:
        raise TransientStorageError("it is away")

    leave(places, "commit_decision")
    with places.process() as other:
        real, other.store_resource.is_prepared = other.store_resource.is_prepared, away  # type: ignore[method-assign]
        other.recovery.recover(other.resources["app"], other.clock())
        assert places.placed() == []
        (left,) = other.recovery.in_doubt().branches
        assert left.why == "the store's branch must be committed first: it is away"
        with pytest.raises(ResolutionRefused, match="so that messages stay in order"):
            Operator(other).resolve(read_gtrid(left.gid), Verdict.COMMIT)
        assert places.placed() == []
        other.store_resource.is_prepared = real  # type: ignore[method-assign]
        assert recover(other) == 0
    assert places.state == ([1], [1], [])


@pytest.mark.parametrize("places", ["two-phase"], indirect=True)
@pytest.mark.parametrize("database", ["store", "all"])
def test_another_process_sends_after_what_it_has_seen_although_the_stores_session_ended(
    places: Places, database: str
) -> None:
    """The coordinator does not commit the application's part before the store's, and recovery does neither."""
    with places.process() as coordinator, places.process() as other:
        with paused(coordinator, "commit_decision") as stopped:
            end_sessions(places, database)
            stopped.go_on()
            assert stopped.error is None
            assert stopped.transaction is not None
            assert stopped.transaction.outcome.away == ("store", "app")
        send_what_is_new(places, other)
        app, store = coordinator.resources["app"], coordinator.store_resource
        for resource in (app, store, app, store, app):  # the first look finds sessions that have ended
            coordinator.recovery.recover(resource, coordinator.clock())
            send_what_is_new(places, other)
        assert places.placed() == [1]
        assert places.sent() == [1, 2]


def send_what_is_new(places: Places, other: Coordinator) -> None:
    """The other process sends a message about the row, as soon as it sees it."""
    while places.placed() == [1] and 2 not in places.sent():
        with contextlib.suppress(TransientStorageError), other.transaction() as tx:
            send(tx, 2)


def test_a_store_that_has_come_back_is_not_taken_for_away(places: Places) -> None:
    """Both were away at the last look; the application's database is looked at first."""
    leave(places, "commit_decision")
    with places.process() as other:
        real = other.store_resource.prepared
        other.store_resource.prepared = unreachable  # type: ignore[method-assign]
        recover(other)
        other.store_resource.prepared = real  # type: ignore[method-assign]
        assert not seen_before_it_is_sent(places)
        other.recovery.recover(other.resources["app"], other.clock())
        assert not seen_before_it_is_sent(places)
        assert recover(other) == 0
    assert places.state == ([1], [1], [])


def unreachable(store_id: str) -> list[PreparedBranch]:
    raise TransientStorageError("it is away")


def test_nothing_is_sent_before_what_this_process_has_left_prepared(places: Places) -> None:
    """The store goes away between the decision and its part: the application goes on, and the store comes back."""
    with places.process() as coordinator:
        broken_at(coordinator, "commit_branch")
        with coordinator.transaction() as tx:
            work(tx, 1)
        assert tx.outcome.ending is Ending.COMMITTED
        with coordinator.transaction() as tx:
            send(tx, 2)
        assert places.sent() == [1, 2]


@pytest.mark.parametrize("places", ["two-phase"], indirect=True)
def test_unfinished_sequence_keeps_its_successor_from_being_sent(places: Places) -> None:
    with places.process() as coordinator:
        broken_at(coordinator, "commit_branch")
        with coordinator.transaction() as tx:
            work(tx, 1)
        coordinator.recovery.recover = lambda resource, now: None  # type: ignore[method-assign]
        with pytest.raises(TransientStorageError, match="left prepared"), coordinator.transaction() as tx:
            send(tx, 2)
        assert places.sent() == []


@pytest.mark.parametrize("places", ["two-phase"], indirect=True)
def test_nothing_is_sent_before_it_is_known_what_became_of_the_last(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mercury.storage.xa.coordinator.TRIES", 1)
    with places.process() as coordinator:
        with log_away(coordinator), pytest.raises(OutcomeUnknown), coordinator.transaction() as tx:
            work(tx, 1)
        with coordinator.transaction() as tx:
            send(tx, 2)
        assert places.sent() == [1, 2]


def broken_at(coordinator: Coordinator, step: str) -> None:
    """The databases do not do this step."""

    def breaks(branch: Branch, gtrid: Gtrid) -> bool:
        return False

    setattr(coordinator, step, breaks)


@contextmanager
def log_away(coordinator: Coordinator) -> Iterator[None]:
    """The decision's commit is not answered, and neither is the query for its outcome."""
    real, decisions = coordinator.commit_decision, coordinator.decisions.arbitrate

    def lost(commit: Callable[[], None]) -> None:
        commit()
        raise TransientStorageError("the answer is lost")

    def away(decision: Decision) -> tuple[Decision, bool]:
        raise TransientStorageError("it is away")

    coordinator.commit_decision = lost  # type: ignore[method-assign]
    coordinator.decisions.arbitrate = away  # type: ignore[method-assign]
    yield
    coordinator.commit_decision, coordinator.decisions.arbitrate = real, decisions  # type: ignore[method-assign]
