"""A commit whose answer is lost: the database is asked what became of it, so that nobody repeats what is done."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import psycopg
import pytest
from sqlalchemy import create_engine, text

from mercury.errors import OutcomeUnknown, TransientStorageError
from mercury.storage.api import Ending
from mercury.storage.opening import open_sql_store
from mercury.storage.records import SequenceKey
from mercury.storage.sql import fates
from mercury.storage.sql.store import SqlStore
from mercury.storage.sql.transaction import SqlTransaction
from tests.conformance.builders import row

#: Ends every other session of the database.
END_OTHERS = (
    "select pg_terminate_backend(pid) from pg_stat_activity "
    "where datname = current_database() and pid <> pg_backend_pid()"
)

Break = Callable[[SqlTransaction], None]


@pytest.fixture
def store(postgres_url: str) -> Iterator[SqlStore]:
    opened = open_sql_store(postgres_url)
    with opened.engine.begin() as connection:
        connection.execute(text("create table placed (id int)"))
    yield opened
    opened.close()


def place(store: SqlStore, broken: Break) -> SqlTransaction:
    """An application's transaction, in whose commit something breaks."""
    tx = store.transaction()
    tx.commit_store = partial(broken, tx)  # type: ignore[method-assign]
    with tx:
        tx.connection().execute(text("insert into placed values (1)"))
        tx.rms.append(row("urn:message:1"))
    return tx


def done(tx: SqlTransaction) -> None:
    """The commit is done, and its answer does not arrive."""
    SqlTransaction.commit_store(tx)
    raise TransientStorageError("the answer is lost")


def never_arrived(tx: SqlTransaction) -> None:
    """The commit does not reach the database."""
    raise TransientStorageError("the network is cut")


def session_ended(tx: SqlTransaction) -> None:
    """The database ends the session before the commit arrives."""
    end_others(tx.store)
    SqlTransaction.commit_store(tx)


def end_others(store: SqlStore) -> None:
    engine = create_engine(store.engine.url)
    with engine.begin() as connection:
        connection.execute(text(END_OTHERS))
    engine.dispose()


def placed(store: SqlStore) -> tuple[int, int]:
    """The application's rows and Mercury's."""
    with store.transaction() as tx:
        count = tx.connection().execute(text("select count(*) from placed")).scalar_one()
        return count, len([each for each in (tx.rms.row("urn:message:1"),) if each is not None])


def test_what_was_committed_is_not_taken_for_failed(store: SqlStore) -> None:
    """An application that was told to try again would send the message twice."""
    told: list[str] = []
    tx = store.transaction()
    tx.commit_store = partial(done, tx)  # type: ignore[method-assign]
    with tx:
        tx.connection().execute(text("insert into placed values (1)"))
        tx.rms.append(row("urn:message:1"))
        tx.after_commit(lambda: told.append("committed"))
    assert tx.outcome.ending is Ending.COMMITTED
    assert told == ["committed"]
    assert placed(store) == (1, 1)


@pytest.mark.parametrize("broken", [session_ended, never_arrived])
def test_what_was_not_committed_may_be_tried_again(store: SqlStore, broken: Break) -> None:
    with pytest.raises(TransientStorageError):
        place(store, broken)
    assert placed(store) == (0, 0)
    place(store, SqlTransaction.commit_store)
    assert placed(store) == (1, 1)


def test_a_session_that_waits_for_the_lost_commit_is_ended(store: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only this side knows that the network is cut: the database would wait, and keep the locks."""
    open_still: list[psycopg.Connection] = []
    monkeypatch.setattr(store.engine.dialect, "do_terminate", open_still.append)
    with pytest.raises(TransientStorageError):
        place(store, never_arrived)
    (session,) = open_still
    with pytest.raises(psycopg.OperationalError):
        session.execute("select 1")
    session.close()
    assert placed(store) == (0, 0)


def test_a_message_alone_is_asked_for_too(store: SqlStore) -> None:
    tx = store.transaction()
    tx.commit_store = partial(done, tx)  # type: ignore[method-assign]
    with tx:
        tx.rms.append(row("urn:message:1"))
    assert placed(store) == (0, 1)


def test_a_database_that_does_not_come_back_leaves_it_unknown(store: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Never assumed: neither to be repeated, nor to be done."""

    def away(connection: object, xid: int) -> fates.Fate:
        raise TransientStorageError("it is away")

    waited: list[float] = []
    monkeypatch.setattr(fates, "fate", away)
    monkeypatch.setattr(fates.was_committed, "__defaults__", (waited.append,))
    with pytest.raises(OutcomeUnknown, match=r"can not be told: it is away\. Look at what it has written"):
        place(store, done)
    assert waited == [fates.PAUSE] * (fates.TRIES - 1)


def test_mercurys_own_work_is_simply_done_again(store: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """It costs no question before each commit."""
    asked: list[object] = []
    monkeypatch.setattr(fates, "current", asked.append)
    with store.transaction() as tx:
        tx.rms.lock([SequenceKey("http://peer.example/orders", "default")])
    assert asked == []
