"""A coordinator is stopped, recovery finishes its transaction, then the coordinator resumes: there is one outcome."""

from __future__ import annotations

import pytest

from mercury.errors import TransientStorageError
from mercury.storage.application import Ending
from mercury.storage.xa.coordinator import Coordinator
from mercury.storage.xa.timing import Timing

from .pausing import paused
from .places import Places


def recover(other: Coordinator) -> int:
    """Recovery in another process, which takes all other processes for dead. Returns what is left in doubt."""
    return len(other.recovery.run_once(other.clock()))


def test_stopped_before_its_decision_it_is_rolled_back_and_cannot_commit_any_more(places: Places) -> None:
    with places.process() as coordinator, places.process() as other:
        with paused(coordinator, "prepare") as stopped:
            assert recover(other) == 0
            assert places.state == ([], [], [])
            assert [outcome for _, outcome in places.decisions()] == ["abort"]
            stopped.go_on()
            assert type(stopped.error) is TransientStorageError, "no name of the inside reaches an application"
            assert stopped.transaction is not None
            assert stopped.transaction.outcome.ending is Ending.ROLLED_BACK
        assert places.state == ([], [], [])
        # The row stays: the stopped one is not known to be dead.
        assert [outcome for _, outcome in places.decisions()] == ["abort"]
        assert other.decisions.heuristics() == []


def test_stopped_over_its_decision_it_is_waited_for_and_left_alone(places: Places) -> None:
    with places.process() as coordinator, places.process() as other:
        with paused(coordinator, "decide") as stopped:
            before = len(places.prepared())
            if places.store.startswith("postgresql"):
                assert recover(other) == before
                assert "about to be decided" in other.recovery.in_doubt().branches[0].why
            else:
                other.recovery.run_once(0.0)
            assert len(places.prepared()) == before
            stopped.go_on()
            assert stopped.error is None
        assert places.state == ([1], [1], [])


def test_stopped_after_its_decision_recovery_commits_for_it(places: Places) -> None:
    with places.process() as coordinator, places.process() as other:
        with paused(coordinator, "commit_decision") as stopped:
            assert recover(other) == 0
            assert places.state == ([1], [1], [])
            assert places.decisions() == []
            stopped.go_on()
            assert stopped.error is None
            assert stopped.transaction is not None
            assert stopped.transaction.outcome.ending is Ending.COMMITTED
            assert stopped.transaction.outcome.away == ()
        assert places.state == ([1], [1], [])
        assert coordinator.decisions.heuristics() == []


def test_stopped_between_the_databases_recovery_commits_the_rest(places: Places) -> None:
    with places.process() as coordinator, places.process() as other:
        with paused(coordinator, "commit_branch") as stopped:
            assert recover(other) == 0
            assert places.state == ([1], [1], [])
            stopped.go_on()
            assert stopped.error is None
        assert places.state == ([1], [1], [])


def test_declared_dead_it_cannot_decide_any_more_even_when_the_abort_row_is_forgotten(places: Places) -> None:
    with places.process() as coordinator, places.process() as other:
        with paused(coordinator, "prepare") as stopped:
            assert recover(other) == 0
            clock = other.decisions.now() + 1
            assert coordinator.process.incarnation is not None
            assert other.decisions.declare_dead(coordinator.process.incarnation, clock)
            other.decisions.purge(clock)
            assert places.decisions() == []
            stopped.go_on()
            assert type(stopped.error) is TransientStorageError, "no name of the inside reaches an application"
        assert places.state == ([], [], [])
        # Its next transaction goes by a new name.
        with coordinator.transaction() as tx:
            tx.connection("app").exec_driver_sql("insert into placed values (2)")
        assert places.state == ([2], [], [])


def test_one_that_is_about_to_decide_is_not_declared_dead(places: Places) -> None:
    with places.process() as coordinator, places.process() as other:
        with paused(coordinator, "decide") as stopped:
            assert coordinator.process.incarnation is not None
            with pytest.raises(TransientStorageError):
                other.decisions.declare_dead(coordinator.process.incarnation, other.decisions.now() + 1)
            stopped.go_on()
            assert stopped.error is None
        assert places.state == ([1], [1], [])


def test_a_running_process_is_not_touched(places: Places) -> None:
    with places.process() as coordinator, places.process(timing=Timing(lease=3600.0, grace=0.0)) as other:
        with paused(coordinator, "prepare") as stopped:
            assert recover(other) == len(places.prepared()) > 0
            assert "has not decided yet" in other.recovery.in_doubt().branches[0].why
            stopped.go_on()
            assert stopped.error is None
        assert places.state == ([1], [1], [])


def test_its_own_recovery_leaves_it_alone(places: Places) -> None:
    with places.process() as coordinator:
        with paused(coordinator, "prepare") as stopped:
            assert recover(coordinator) == 0
            assert places.prepared() != []
            stopped.go_on()
            assert stopped.error is None
        assert places.state == ([1], [1], [])
