"""Who has seen a transaction sends after what that one sent: the store's part is committed first."""

from __future__ import annotations

from mercury.errors import TransientStorageError

from .pausing import paused
from .places import Places
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


def test_recovery_commits_the_stores_part_first_whichever_database_it_looks_at_first(places: Places) -> None:
    leave(places, "commit_decision")
    with places.process() as other:
        for resource in reversed(other.recovery.resources):
            other.recovery.recover(resource, other.clock())
            assert not seen_before_it_is_sent(places)
        assert recover(other) == 0
    assert places.state == ([1], [1], [])


def test_a_store_that_is_away_keeps_nobody_waiting(places: Places) -> None:
    """Nobody can send anything then."""

    def away(gid: str) -> bool:
        raise TransientStorageError("it is away")

    leave(places, "commit_decision")
    with places.process() as other:
        other.store_resource.is_prepared = away  # type: ignore[method-assign]
        other.recovery.recover(other.resources["app"], other.clock())
        assert places.placed() == [1]
        assert recover(other) == 0
    assert places.state == ([1], [1], [])
