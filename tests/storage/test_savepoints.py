"""Savepoints are plain SQL statements, with the same effect as SQLAlchemy's own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

import psycopg
import pytest
from sqlalchemy import Connection, event, text
from sqlalchemy.exc import ProgrammingError

from mercury.errors import StorageError, TransientStorageError
from mercury.storage.opening import open_sql_store
from mercury.storage.sql.postgres_dialect import Postgres
from mercury.storage.sql.store import SqlStore
from mercury.testing.contract.builders import rmd_record, rms_record

from .pair import channel


class Undo(Exception):
    """Leaves a savepoint."""


@pytest.fixture
def store(sql_url: str) -> Iterator[SqlStore]:
    opened = open_sql_store(sql_url)
    with opened.engine.begin() as connection:
        connection.execute(text("create table done (id int)"))
    yield opened
    opened.close()


INSERT = text("insert into done values (:id)")


def done(store: SqlStore) -> list[int]:
    with store.connection() as connection:
        return list(connection.scalars(text("select id from done order by id")))


def test_released_savepoint_stays_when_a_later_one_is_rolled_back(store: SqlStore) -> None:
    with store.transaction() as tx:
        for number in range(1, 6):
            try:
                with tx.savepoint():
                    tx.connection().execute(INSERT, {"id": number})
                    if number % 2 == 0:
                        raise Undo
            except Undo:
                continue
    assert done(store) == [1, 3, 5]


def test_one_within_another_is_undone_with_it(store: SqlStore) -> None:
    with store.transaction() as tx:
        tx.connection().execute(INSERT, {"id": 1})
        with pytest.raises(Undo), tx.savepoint():
            with tx.savepoint():
                tx.connection().execute(INSERT, {"id": 2})
            with pytest.raises(Undo), tx.savepoint():
                tx.connection().execute(INSERT, {"id": 3})
                raise Undo
            tx.connection().execute(INSERT, {"id": 4})
            raise Undo
        with tx.savepoint():
            tx.connection().execute(INSERT, {"id": 5})
    assert done(store) == [1, 5]


def test_kept_one_does_not_end_a_savepoint_that_the_application_has_begun_since(store: SqlStore) -> None:
    with store.transaction() as tx:
        connection = tx.connection()
        with tx.savepoint():
            connection.execute(INSERT, {"id": 1})
        with pytest.raises(Undo), connection.begin_nested():
            with tx.savepoint():
                connection.execute(INSERT, {"id": 2})
            raise Undo
        connection.execute(INSERT, {"id": 3})
    assert done(store) == [1, 3]


@pytest.mark.parametrize("undone", [True, False])
def test_kept_one_that_has_ended_with_one_of_the_application_is_not_released(store: SqlStore, undone: bool) -> None:
    with store.transaction() as tx:
        connection = tx.connection()
        connection.execute(INSERT, {"id": 1})
        with contextlib.suppress(Undo), connection.begin_nested():
            with tx.savepoint():
                connection.execute(INSERT, {"id": 2})
            if undone:
                raise Undo
        with tx.savepoint():
            connection.execute(INSERT, {"id": 3})
    assert done(store) == ([1, 3] if undone else [1, 2, 3])


@pytest.mark.parametrize("left", [1, 2])
@pytest.mark.parametrize("undone", [True, False])
def test_savepoints_that_the_application_left_open_end_with_ours(store: SqlStore, undone: bool, left: int) -> None:
    with store.transaction() as tx:
        connection = tx.connection()
        connection.execute(INSERT, {"id": 1})
        try:
            with tx.savepoint():
                for _ in range(left):
                    connection.begin_nested()
                connection.execute(INSERT, {"id": 2})
                if undone:
                    raise Undo
        except Undo:
            pass
        assert not connection.in_nested_transaction()
        with tx.savepoint():
            connection.execute(INSERT, {"id": 3})
    assert done(store) == ([1, 3] if undone else [1, 2, 3])


def test_savepoint_before_the_first_statement_is_in_the_transaction(store: SqlStore) -> None:
    with store.transaction() as tx:
        tx.connection()
        with pytest.raises(Undo), tx.savepoint():
            tx.connection().execute(INSERT, {"id": 1})
            raise Undo
        tx.connection().execute(INSERT, {"id": 2})
    assert done(store) == [2]


def test_a_statement_that_fails_spoils_only_its_savepoint(store: SqlStore) -> None:
    with store.transaction() as tx:
        tx.connection().execute(INSERT, {"id": 1})
        with pytest.raises(Exception, match="no_such_table"), tx.savepoint():
            tx.connection().execute(text("insert into no_such_table values (1)"))
        with tx.savepoint():
            tx.connection().execute(INSERT, {"id": 2})
    assert done(store) == [1, 2]


def test_in_postgresql_each_costs_one_round_trip_that_sqlalchemy_does_not_see(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_sql_store(postgres_url)
    trips: list[Sequence[str]] = []
    seen: list[str] = []
    execute_all = Postgres.execute_all

    def counting(self: Postgres, connection: Connection, statements: Sequence[str]) -> None:
        trips.append(statements)
        execute_all(self, connection, statements)

    monkeypatch.setattr(Postgres, "execute_all", counting)
    with store.engine.begin() as connection:
        connection.execute(text("create table done (id int)"))
    with store.transaction() as tx:
        tx.connection().execute(INSERT, {"id": 0})
        event.listen(store.engine, "before_cursor_execute", lambda *about: seen.append(about[2]))
        for number in range(10):
            with tx.savepoint():
                tx.connection().execute(INSERT, {"id": number})
    assert len(trips) == 10
    assert not [each for each in seen if "savepoint" in each]
    store.close()


@pytest.mark.parametrize("first", [True, False])
def test_lost_connection_at_a_savepoint_is_a_transient_error(postgres_url: str, first: bool) -> None:
    store = open_sql_store(postgres_url)
    reached: list[str] = []
    with pytest.raises(TransientStorageError), store.transaction() as tx:
        connection = tx.connection()
        if not first:
            connection.exec_driver_sql("select 1")  # otherwise the savepoint is the first statement
        driver = connection.connection.dbapi_connection
        assert isinstance(driver, psycopg.Connection)
        with store.engine.connect() as other:
            other.execute(text("select pg_terminate_backend(:pid)"), {"pid": driver.info.backend_pid})
        with tx.savepoint():
            reached.append("nothing may be done without the savepoint")
    assert reached == []
    with store.transaction() as tx, tx.savepoint():
        assert tx.connection().scalar(text("select 1")) == 1
    store.close()


def test_savepoint_in_a_failed_transaction_raises_the_error_of_the_database(postgres_url: str) -> None:
    store = open_sql_store(postgres_url)
    with pytest.raises(StorageError, match="current transaction is aborted"), store.transaction() as tx:
        connection = tx.connection()
        with pytest.raises(ProgrammingError, match="no_such_table"):
            connection.execute(text("insert into no_such_table values (1)"))
        with tx.savepoint():
            pass
    store.close()


def test_key_that_was_locked_in_an_undone_savepoint_is_read_when_it_is_locked_again(postgres_url: str) -> None:
    """The rollback has released its lock: what was read meanwhile, with another key, may be old."""
    first, second = sorted([channel("a"), channel("b")], key=lambda each: each.key.digest)
    with contextlib.closing(open_sql_store(postgres_url)) as store, store.transaction() as tx:
        tx.rmd.insert(rmd_record("urn:1"))
        with contextlib.suppress(Undo), tx.savepoint():
            tx.rms.lock([second.key])
            raise Undo
        tx.rms.lock([first.key])
        assert tx.rms.records(first.key) == []
        with store.transaction() as other:
            other.rms.lock([second.key])
            other.rms.insert(rms_record("record", second))
        tx.rms.lock([second.key])
        assert [record.id for record in tx.rms.records(second.key)] == ["record"]
