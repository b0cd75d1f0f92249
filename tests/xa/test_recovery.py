"""Recovery finishes the branches of a dead process by the decision log, in any process and any number of times."""

from __future__ import annotations

import contextlib
import threading

import pytest
from sqlalchemy import text

from mercury.errors import OutcomeUnknown, TransientStorageError
from mercury.storage.application import Ending
from mercury.storage.xa.coordinator import Coordinator
from mercury.storage.xa.timing import Timing

from .pausing import paused
from .places import Places, work


class Killed(BaseException):
    """Raised in place of the end of a process: no code cleans up."""


def die_after(coordinator: Coordinator, step: str) -> None:
    """Leave everything as it is after a step of a commit, as a process that is killed does."""
    real = getattr(coordinator, step)

    def dying(*arguments: object) -> object:
        real(*arguments)
        raise Killed

    setattr(coordinator, step, dying)


def leave(places: Places, step: str) -> None:
    """A process dies after a step of its first commit."""
    with places.process() as coordinator:
        die_after(coordinator, step)
        tx = coordinator.transaction()
        tx._roll_back = lambda: None  # type: ignore[method-assign]
        with pytest.raises(Killed), tx:
            work(tx, 1)


def recover(other: Coordinator) -> int:
    """One look of another process. Returns what is left in doubt."""
    return len(other.recovery.run_once(other.clock()))


# --- after a death ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", ["prepare", "decide"])
def test_dead_before_the_decision_was_committed_everything_is_rolled_back(places: Places, step: str) -> None:
    leave(places, step)
    assert places.prepared() != []
    with places.process() as other:
        assert recover(other) == 0
        assert places.state == ([], [], [])
        work_again(other)
    assert places.state == ([1], [1], [])


@pytest.mark.parametrize("step", ["commit_decision", "commit_branch"])
def test_dead_after_the_decision_was_committed_everything_is_committed(places: Places, step: str) -> None:
    leave(places, step)
    with places.process() as other:
        assert recover(other) == 0
        assert places.state == ([1], [1], [])
        assert places.decisions() == []
        assert recover(other) == 0


def test_dead_before_it_could_forget_its_decision_is_forgotten(places: Places) -> None:
    with places.process() as coordinator:
        coordinator.forget = lambda gtrid: None  # type: ignore[method-assign]
        work_again(coordinator)
    assert places.state == ([1], [1], [])
    assert [outcome for _, outcome in places.decisions()] == ["commit"]
    with places.process() as other:
        recover(other)
        assert places.decisions() == []
        assert other.decisions.heuristics() == []


def work_again(other: Coordinator) -> None:
    with other.transaction() as tx:
        work(tx, 1)


@pytest.mark.parametrize("step", ["prepare", "commit_decision"])
def test_two_processes_recover_at_once(places: Places, step: str) -> None:
    leave(places, step)
    with places.process() as one, places.process() as two:
        both = threading.Barrier(2)
        for other in (one, two):
            look_together(other, both)
        threads = [threading.Thread(target=recover, args=(other,)) for other in (one, two)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert recover(one) == recover(two) == 0
        assert one.decisions.heuristics() == []
    assert places.state == (([], [], []) if step == "prepare" else ([1], [1], []))


def look_together(other: Coordinator, both: threading.Barrier) -> None:
    """Both have seen the branch before one of them finishes it."""
    resource = other.resources["app"]
    real = resource.prepared

    def prepared(store: str) -> object:
        found = real(store)
        if found:
            both.wait(10.0)
        return found

    resource.prepared = prepared  # type: ignore[method-assign, assignment]


def test_a_process_that_may_still_run_keeps_its_lease(places: Places) -> None:
    leave(places, "prepare")
    with places.process(timing=Timing(lease=3600.0, grace=0.0)) as other:
        assert recover(other) == len(places.prepared()) > 0
    with places.process() as other:
        assert recover(other) == 0


def test_recovery_without_the_decision_log_changes_nothing(places: Places, caplog: pytest.LogCaptureFixture) -> None:
    """A process with the wrong log, or without one, would take what it does not find there for undecided."""
    leave(places, "commit_decision")
    with places.process() as other:
        for decisions in other.logs:
            decisions.incarnations = dict  # type: ignore[method-assign, assignment]
        assert recover(other) == len(places.prepared()) > 0
        assert "is another decision log the right one" in caplog.text
    with places.process() as other:
        assert recover(other) == 0
    assert places.state == ([1], [1], [])


# --- by hand ---------------------------------------------------------------------------------------------------------


def by_hand(places: Places, how: str) -> str:
    """An operator finishes what the application's database has prepared."""
    (gid,) = (gid for gid in places.prepared() if gid.endswith(":app"))
    with places.engine().execution_options(isolation_level="AUTOCOMMIT").connect() as connection:
        connection.exec_driver_sql(f"{how} prepared '{gid}'")
    return gid


def test_a_branch_rolled_back_by_hand_against_the_decision_is_reported(
    places: Places, caplog: pytest.LogCaptureFixture
) -> None:
    leave(places, "commit_decision")
    gid = by_hand(places, "rollback")
    with places.process() as other:
        recover(other)
        (found,) = other.decisions.heuristics()
        assert (found.gid, found.resource, found.decided, found.found) == (gid, "app", "commit", "aborted")
        assert "it was finished by hand" in caplog.text
        assert places.decisions() == []
        assert recover(other) == 0
        assert other.recovery.in_doubt().heuristics == 1


def test_a_branch_committed_by_hand_against_the_decision_is_reported(places: Places) -> None:
    leave(places, "prepare")
    with places.process() as other:
        # Decided, but not done: the database was away.
        (gid,) = (branch.gid for branch in other.resources["app"].prepared(other.store_id))
        real, other.resources["app"].finish = other.resources["app"].finish, refuse  # type: ignore[method-assign]
        assert recover(other) >= 1 or other.recovery.in_doubt().away
        assert by_hand(places, "commit") == gid
        other.resources["app"].finish = real  # type: ignore[method-assign]
        recover(other)
        (found,) = other.decisions.heuristics()
        assert (found.gid, found.resource, found.decided, found.found) == (gid, "app", "abort", "committed")


def refuse(gid: str, *, commit: bool) -> None:
    raise TransientStorageError("it is away")


@pytest.mark.parametrize(("step", "how"), [("commit_decision", "commit"), ("prepare", "rollback")])
def test_a_branch_finished_by_hand_as_it_was_decided_is_in_order(places: Places, step: str, how: str) -> None:
    leave(places, step)
    by_hand(places, how)
    with places.process() as other:
        assert recover(other) == 0
        assert other.decisions.heuristics() == []
        assert places.prepared() == []


def test_the_coordinator_itself_finds_its_branch_finished_by_hand(
    places: Places, caplog: pytest.LogCaptureFixture
) -> None:
    with places.process() as coordinator:
        with paused(coordinator, "commit_decision") as stopped:
            by_hand(places, "rollback")
            stopped.go_on()
            assert stopped.error is None
        assert len(coordinator.decisions.heuristics()) == 1
        assert "it was finished by hand" in caplog.text


# --- databases that are away -----------------------------------------------------------------------------------------


def cut(places: Places) -> None:
    """End all sessions in the application's database."""
    query = "select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = current_database()"
    with places.engine().connect() as connection:
        connection.execute(text(f"{query} and pid <> pg_backend_pid()"))


def test_a_branch_that_is_away_after_the_decision_is_no_error_and_recovery_commits_it(places: Places) -> None:
    with places.process() as coordinator:
        with paused(coordinator, "commit_decision") as stopped:
            cut(places)
            stopped.go_on()
            assert stopped.error is None
            assert stopped.transaction is not None
            assert stopped.transaction.outcome.ending is Ending.COMMITTED
            assert stopped.transaction.outcome.away == ("app",)
        assert len(places.prepared()) == 1
        assert recover(coordinator) == 0
        assert places.state == ([1], [1], [])
        assert places.decisions() == []


def test_a_branch_that_is_lost_before_it_is_prepared_undoes_both(places: Places) -> None:
    with places.process() as coordinator:
        with pytest.raises(TransientStorageError, match="'app'"), coordinator.transaction() as tx:
            work(tx, 1)
            cut(places)
        assert places.state == ([], [], [])
        work_again(coordinator)
        assert places.state == ([1], [1], [])


def test_an_unreachable_database_delays_no_other_work(places: Places, caplog: pytest.LogCaptureFixture) -> None:
    leave(places, "commit_decision")
    with places.process(app="postgresql+psycopg://nobody@127.0.0.1:9/nothing") as other:
        other.check()
        left = other.recovery.run_once(other.clock())
        assert [name for name, _ in left.away] == ["app"]
        assert [gid for gid in places.prepared() if gid.endswith(":store")] == []
        with other.transaction() as tx:
            tx.rms.backlog  # noqa: B018  # the store itself works
        with pytest.raises(TransientStorageError, match="'app'"), other.transaction() as tx:
            tx.connection("app")
    with places.process() as other:
        assert recover(other) == 0
        assert other.recovery.in_doubt().away == ()
    assert places.state == ([1], [1], [])


def test_an_in_doubt_row_is_not_waited_for_without_end(places: Places) -> None:
    with places.process() as coordinator:
        work_again(coordinator)
    with places.process() as coordinator:
        die_after(coordinator, "prepare")
        tx = coordinator.transaction()
        tx._roll_back = lambda: None  # type: ignore[method-assign]
        with pytest.raises(Killed), tx:
            tx.connection("app").execute(text("update placed set id = 2"))
    with places.process() as other:
        with pytest.raises(TransientStorageError) as raised, other.transaction() as tx:
            tx.connection("app").execute(text("set local lock_timeout = '100ms'"))
            try:
                tx.connection("app").execute(text("update placed set id = 3"))
            except Exception as error:
                known = tx.translate(error)
                assert known is not None
                raise known from error
        assert "lock timeout" in str(raised.value)
        assert recover(other) == 0
        assert places.placed() == [1]


# --- an answer that was lost -----------------------------------------------------------------------------------------


def test_the_answer_to_the_commit_is_lost_and_the_log_says_it_is_committed(places: Places) -> None:
    with places.process() as coordinator:
        lose_answer(coordinator)
        with coordinator.transaction() as tx:
            work(tx, 1)
        assert tx.outcome.ending is Ending.COMMITTED
        if tx.outcome.away:
            recover(coordinator)
        assert places.state == ([1], [1], [])


@pytest.mark.parametrize("arrived", [True, False])
def test_the_answer_to_the_commit_is_lost_and_one_database_is_away_but_the_outcome_is_known(
    places: Places, monkeypatch: pytest.MonkeyPatch, arrived: bool
) -> None:
    """The decision says that it is committed; that it is not, the other database says."""
    monkeypatch.setattr("mercury.storage.xa.coordinator.TRIES", 1)
    if not arrived and places.log is None:
        pytest.skip("there is no other database")
    with places.process() as coordinator:
        (lose_answer if arrived else lose_question)(coordinator)
        app = coordinator.resources["app"]
        real, app.transaction_statuses = app.transaction_statuses, away  # type: ignore[method-assign, assignment]
        with contextlib.suppress(TransientStorageError), coordinator.transaction() as tx:
            work(tx, 1)
        assert tx.outcome.ending is (Ending.COMMITTED if arrived else Ending.ROLLED_BACK)
        app.transaction_statuses = real  # type: ignore[method-assign]
        recover(coordinator)
        assert places.state == (([1], [1], []) if arrived else ([], [], []))


def lose_answer(coordinator: Coordinator) -> None:
    real = coordinator.commit_decision

    def commit(commit: object) -> None:
        real(commit)  # type: ignore[arg-type]
        raise TransientStorageError("server closed the connection unexpectedly")

    coordinator.commit_decision = commit  # type: ignore[method-assign]


def lose_question(coordinator: Coordinator) -> None:
    def commit(commit: object) -> None:
        raise TransientStorageError("server closed the connection unexpectedly")

    coordinator.commit_decision = commit  # type: ignore[method-assign]


def test_the_commit_never_arrived_and_the_log_says_it_is_not_committed(places: Places) -> None:
    with places.process() as coordinator:
        lose_question(coordinator)
        with pytest.raises(TransientStorageError, match="unexpectedly"), coordinator.transaction() as tx:
            work(tx, 1)
        assert tx.outcome.ending is Ending.ROLLED_BACK
        assert places.state == ([], [], [])
        assert [outcome for _, outcome in places.decisions()] == ["abort"]


@pytest.mark.parametrize("arrived", [True, False])
def test_caller_gets_outcome_unknown_when_the_log_cannot_be_queried(
    places: Places, monkeypatch: pytest.MonkeyPatch, arrived: bool
) -> None:
    monkeypatch.setattr("mercury.storage.xa.coordinator.TRIES", 2)
    with places.process() as coordinator:
        (lose_answer if arrived else lose_question)(coordinator)
        real, coordinator.decisions.arbitrate = coordinator.decisions.arbitrate, away  # type: ignore[method-assign]
        with pytest.raises(OutcomeUnknown, match="mercury xa show"), coordinator.transaction() as tx:
            work(tx, 1)
        assert tx.outcome.ending is Ending.UNKNOWN
        assert len(places.prepared()) >= 1
        coordinator.decisions.arbitrate = real  # type: ignore[method-assign]
        assert recover(coordinator) == 0
        assert places.state == (([1], [1], []) if arrived else ([], [], []))


def away(decision: object) -> None:
    raise TransientStorageError("it is away")
