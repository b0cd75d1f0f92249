"""A decision is deleted while a query for it is on its way: a missing decision does not mean that none was made."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mercury.errors import TransientStorageError
from mercury.storage.application import Ending
from mercury.storage.xa.recovery import _ProcessView
from mercury.storage.xa.resources import PreparedBranch

from .pausing import paused
from .places import Places, work


def test_the_answer_is_lost_and_another_process_has_finished_it_before_the_log_is_queried(places: Places) -> None:
    """Said to be rolled back, it would be done once more."""
    with places.process() as coordinator, places.process() as other:
        real = coordinator.commit_decision

        def commit(commit: Callable[[], None]) -> None:
            real(commit)
            other.recovery.run_once(other.clock())
            assert places.state == ([1], [1], [])
            raise TransientStorageError("server closed the connection unexpectedly")

        coordinator.commit_decision = commit  # type: ignore[method-assign]
        with coordinator.transaction() as tx:
            work(tx, 1)
        assert tx.outcome.ending is Ending.COMMITTED
        assert places.state == ([1], [1], [])
        other.recovery.run_once(other.clock())
        assert other.decisions.heuristics() == []


@pytest.mark.parametrize("away", [False, True])
def test_it_is_committed_and_forgotten_while_recovery_reads(places: Places, away: bool) -> None:
    """A database that fails in that moment must not be reported as finished by hand: no operator did it."""
    with places.process() as coordinator, paused(coordinator, "prepare") as stopped:
        resource = coordinator.resources["app"]
        prepared, finish = resource.prepared, resource.finish

        def seen(store: str) -> list[PreparedBranch]:
            found = prepared(store)
            stopped.go_on()
            coordinator.forget_finished()
            return found

        def lost(gid: str, *, commit: bool) -> None:
            raise TransientStorageError("the connection is lost")

        resource.prepared = seen  # type: ignore[method-assign]
        resource.finish = lost if away else finish  # type: ignore[method-assign]
        coordinator.recovery.recover(resource, coordinator.clock())
        resource.prepared, resource.finish = prepared, finish  # type: ignore[method-assign]
        coordinator.recovery.run_once(coordinator.clock())
        assert stopped.error is None
        assert places.state == ([1], [1], [])
        assert coordinator.decisions.heuristics() == []


def test_two_recoveries_read_the_branch_before_it_is_committed_and_forgotten(places: Places) -> None:
    """The first one inserts an `abort` that has no meaning; to the second one it must not look like the decision."""
    with places.process() as coordinator, paused(coordinator, "prepare") as stopped:
        resource, recovery = coordinator.resources["app"], coordinator.recovery
        (read,) = [branch for branch in resource.prepared(coordinator.store_id) if branch.resource == "app"]
        stopped.go_on()
        coordinator.forget_finished()
        for _ in range(2):
            assert recovery.recover_branch(resource, read, _ProcessView(coordinator, coordinator.clock())) is None
        assert places.state == ([1], [1], [])
        assert coordinator.decisions.heuristics() == []
        recovery.run_once(coordinator.clock())
        assert coordinator.decisions.heuristics() == []
