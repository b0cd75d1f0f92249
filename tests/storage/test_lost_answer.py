"""A commit whose answer is lost: its marker in the database shows the outcome, so that no committed work is
repeated."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import pytest
from sqlalchemy import Connection, create_engine, event, make_url, select, text

from mercury.errors import Conflict, DataError, OutcomeUnknown, TransientStorageError
from mercury.postgres.embedded import EmbeddedPostgres
from mercury.storage.application import Ending
from mercury.storage.opening import open_sql_store
from mercury.storage.sql import commit_markers
from mercury.storage.sql.commit_markers import CommitMarkers
from mercury.storage.sql.dialect import Marker
from mercury.storage.sql.errors import translated
from mercury.storage.sql.notify import Announcement
from mercury.storage.sql.schema import COMMIT
from mercury.storage.sql.store import SqlStore
from mercury.storage.sql.transaction import SqlTransaction
from mercury.testing.contract.builders import row

#: Ends every other session of the database.
END_OTHERS = (
    "select pg_terminate_backend(pid) from pg_stat_activity "
    "where datname = current_database() and pid <> pg_backend_pid()"
)

CURRENT = "select pg_current_xact_id()::text"

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


def inserted(store: SqlStore, connection: Connection) -> Marker:
    """A marker that a transaction on this connection has inserted."""
    marker = store.commit_markers.new()
    store.commit_markers.insert(connection, marker)
    return marker


def placed(store: SqlStore) -> tuple[int, int]:
    """The application's rows and Mercury's."""
    with store.transaction() as tx:
        count = tx.connection().execute(text("select count(*) from placed")).scalar_one()
        return count, len([each for each in (tx.rms.row("urn:message:1"),) if each is not None])


def test_committed_transaction_is_not_reported_as_failed(store: SqlStore) -> None:
    """An application that tried again because of the error would send the message twice."""
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
def test_uncommitted_transaction_may_be_retried(store: SqlStore, broken: Break) -> None:
    with pytest.raises(TransientStorageError):
        place(store, broken)
    assert placed(store) == (0, 0)
    place(store, SqlTransaction.commit_store)
    assert placed(store) == (1, 1)


def test_a_single_message_is_requested_too(store: SqlStore) -> None:
    tx = store.transaction()
    tx.commit_store = partial(done, tx)  # type: ignore[method-assign]
    with tx:
        tx.rms.append(row("urn:message:1"))
    assert placed(store) == (0, 1)


@pytest.mark.parametrize("watched", [False, True], ids=["by itself", "watched by the application"])
def test_a_notification_that_fails_does_not_fail_the_commit_before_it(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch, watched: bool
) -> None:
    """Both are sent together. If the application listens to the statements, the error does not tell which one it is
    of."""
    if watched:
        event.listen(store.engine, "before_cursor_execute", lambda *_: None)
    monkeypatch.setattr(store, "announcement", lambda _: Announcement("select 1 / 0", 0))
    assert place(store, SqlTransaction.commit_store).outcome.ending is Ending.COMMITTED
    assert placed(store) == (1, 1)


def test_a_commit_that_fails_is_reported_although_a_notification_follows_it(store: SqlStore) -> None:
    with store.engine.begin() as connection:
        connection.execute(text("create table once (id int unique deferrable initially deferred)"))
        connection.execute(text("insert into once values (1)"))
    with pytest.raises(DataError, match="unique"), store.transaction() as tx:
        tx.connection().execute(text("insert into once values (1)"))
        tx.rms.append(row("urn:message:1"))
    assert placed(store) == (0, 0)


def test_messages_and_the_marker_of_their_commit_are_one_statement(store: SqlStore) -> None:
    said: list[str] = []
    event.listen(store.engine, "before_cursor_execute", lambda *about: said.append(about[2]))
    with store.transaction() as tx:
        tx.rms.append(row("urn:message:1"))
    assert len(said) == 1
    assert placed(store) == (0, 1)


def test_a_database_that_does_not_come_back_leaves_it_unknown(store: SqlStore) -> None:
    """Never assumed: neither to be repeated, nor to be done."""
    waited: list[float] = []
    away = create_engine(make_url(store.engine.url).set(database="no such database"))
    store.commit_markers = CommitMarkers(away, store.dialect, waited.append)
    with pytest.raises(OutcomeUnknown, match="Check what it has written before you repeat it"):
        place(store, done)
    assert waited == [commit_markers.PAUSE] * (commit_markers.TRIES - 1)


def test_a_commit_that_is_on_its_way_is_waited_for(store: SqlStore) -> None:
    """Only this side knows that the network is cut: the database still has the transaction."""
    with store.engine.connect() as connection:
        mark = inserted(store, connection)
        store.commit_markers._wait = lambda _: connection.commit()
        assert store.commit_markers.was_committed(mark, TransientStorageError("the network is cut"))


def test_once_the_failure_is_reported_it_cannot_be_committed_any_more(store: SqlStore) -> None:
    with store.engine.connect() as connection:
        mark = inserted(store, connection)
        connection.rollback()
        assert not store.commit_markers.was_committed(mark, TransientStorageError("the network is cut"))
        with pytest.raises(Conflict), translated():
            store.dialect.insert_marker(connection, *mark)


def test_a_marker_that_may_be_gone_leaves_it_unknown(store: SqlStore) -> None:
    """A machine that was suspended for a day finds no marker, although the transaction is committed."""
    error, long = TransientStorageError("the network is cut"), commit_markers.MARKERS_KEPT
    with pytest.raises(OutcomeUnknown, match="its marker may be gone"):
        store.commit_markers.was_committed(store.commit_markers.new(), error, long)
    with store.engine.connect() as connection:
        mark = inserted(store, connection)
        connection.commit()
    assert store.commit_markers.was_committed(mark, error, long)


def test_every_kind_of_database_inserts_a_marker_once(sql_url: str) -> None:
    store = open_sql_store(sql_url)
    insert = partial(store.dialect.insert_marker, table=COMMIT, marker="once")
    with store.engine.begin() as connection:
        before = store.dialect.now(connection)
        assert [insert(connection, ignore=again) for again in (False, True)] == [True, False]
        (at,) = connection.scalars(select(COMMIT.c.made_at))
        assert before <= at <= store.dialect.now(connection)
        with pytest.raises(Conflict), translated():
            insert(connection)
    store.close()


def test_commit_lost_by_a_killed_server_is_not_reported_as_committed(own_postgres: EmbeddedPostgres) -> None:
    """By PostgreSQL's own id of it that could happen: a lost id is given to another transaction."""
    store = open_sql_store(own_postgres.create_database("store"))
    connection = store.engine.connect()
    mark = inserted(store, connection)
    mine = int(connection.exec_driver_sql(CURRENT).scalar_one())
    own_postgres.kill()
    own_postgres.start()
    connection.invalidate()
    connection.close()
    with store.connection() as others:
        while int(others.exec_driver_sql(CURRENT).scalar_one()) < mine:
            others.commit()
        others.commit()
    assert not store.commit_markers.was_committed(mark, TransientStorageError("the server is gone"))
    store.close()


def test_marks_do_not_pile_up(store: SqlStore) -> None:
    for number in range(commit_markers.BATCH):
        with store.transaction() as tx:
            tx.rms.append(row(f"urn:message:{number}"))
    with store.connection() as connection:
        assert connection.scalars(select(COMMIT.c.id)).all() == []


def test_mercurys_own_work_is_simply_done_again(store: SqlStore) -> None:
    """It costs no question before each commit."""
    claim = store.claim("rms", "me", 0.0, 60.0)
    assert claim is not None
    with store.transaction() as tx:
        tx.guard(claim)
        tx.connection().execute(text("insert into placed values (1)"))
    with store.connection() as connection:
        assert connection.scalars(select(COMMIT.c.id)).all() == []
