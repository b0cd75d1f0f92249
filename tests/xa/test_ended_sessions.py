"""The database server ends sessions in the middle of a commit: the caller gets the correct outcome."""

from __future__ import annotations

from contextlib import suppress

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from mercury.errors import TransientStorageError
from mercury.storage.application import Ending

from .pausing import paused
from .places import Places, work
from .test_recovery import recover

STEPS = ("prepare", "decide", "commit_decision", "commit_branch")
DECIDED = ("commit_decision", "commit_branch")
END = """
    select pg_terminate_backend(pid, 5000) from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid()
"""


def end_sessions(places: Places, database: str) -> None:
    """The server ends every session in this database, but keeps what is prepared there."""
    url = {"store": places.store, "app": places.app, "log": places.log, "all": None}[database]
    for each in [url] if url else {places.store, places.app, places.log}:
        if each is not None and each.startswith("postgresql"):
            with places.engine(each).connect() as connection:
                connection.execute(text(END))


@pytest.mark.parametrize("database", ["store", "app", "log", "all"])
@pytest.mark.parametrize("step", STEPS)
def test_the_caller_learns_the_outcome_whichever_session_ends_after_whichever_step(
    places: Places, step: str, database: str
) -> None:
    if (database == "log" and places.log is None) or (database == "store" and places.store.startswith("sqlite")):
        pytest.skip("there is no such session")
    told: list[str] = []
    with places.process() as coordinator:
        with paused(coordinator, step) as stopped:
            assert stopped.transaction is not None
            stopped.transaction.after_commit(lambda: told.append("committed"))
            end_sessions(places, database)
            stopped.go_on()
        committed = stopped.transaction.outcome.ending is Ending.COMMITTED
        if committed:
            assert stopped.error is None
        else:
            assert stopped.transaction.outcome.ending is Ending.ROLLED_BACK
            assert isinstance(stopped.error, TransientStorageError), stopped.error
        assert committed or step not in DECIDED
        assert told == (["committed"] if committed else [])
        assert coordinator.store.engine.pool.checkedout() == 0  # type: ignore[attr-defined]
        assert coordinator.resources["app"].engine.pool.checkedout() == 0  # type: ignore[attr-defined]
        recover(coordinator)
        recover(coordinator)
        assert places.state == (([1], [1], []) if committed else ([], [], []))
        assert coordinator.decisions.heuristics() == []


@pytest.mark.parametrize("by_session", [True, False], ids=["session", "connection"])
def test_session_of_a_database_that_ends_in_a_savepoint_is_an_outage_although_its_error_was_caught(
    places: Places, by_session: bool
) -> None:
    with places.process() as coordinator:
        with pytest.raises(TransientStorageError, match="'app'"), coordinator.transaction() as tx:
            work(tx, 1)
            with pytest.raises(TransientStorageError, match=r"'app'.*nothing is kept"), tx.savepoint():
                used = tx.session("app") if by_session else tx.connection("app")
                used.execute(text("insert into placed values (2)"))
                end_sessions(places, "app")
                with suppress(DBAPIError):
                    used.execute(text("insert into placed values (3)"))
        assert tx.outcome.ending is Ending.ROLLED_BACK
        assert places.state == ([], [], [])
