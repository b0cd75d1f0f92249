"""A handler's statement that comes again is executed without psycopg, and nobody can tell the difference."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import psycopg
import pytest
from psycopg.types.string import StrDumper
from sqlalchemy import Connection, text

from mercury.errors import TransientStorageError
from mercury.storage.opening import open_sql_store
from mercury.storage.sql.round_trips import MOST_OF_APPLICATION, StoreConnection
from mercury.storage.sql.store import SqlStore

T = TypeVar("T")
INSERT = "insert into placed values (%(id)s, %(text)s)"
PREPARED = b"select statement, from_sql from pg_prepared_statements where name like 'mercury_%'"


@pytest.fixture
def store(postgres_url: str) -> Iterator[SqlStore]:
    opened = open_sql_store(postgres_url)
    with opened.engine.begin() as connection:
        connection.execute(text("create table placed (id int constraint once primary key, text text)"))
    yield opened
    opened.close()


def in_thread(work: Callable[[], T]) -> T:
    """What a handler's thread would get."""
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]


def driver_of(connection: Connection) -> StoreConnection:
    driver = connection.connection.dbapi_connection
    assert isinstance(driver, StoreConnection)
    return driver


def prepared(driver: StoreConnection) -> list[str]:
    """The application's statements that are prepared by Mercury."""
    found = driver.pgconn.exec_(PREPARED)
    texts = [found.get_value(number, 0) or b"" for number in range(found.ntuples)]
    return sorted(each.decode() for each in texts if b"mercury_" not in each)


def test_statement_that_comes_again_is_prepared_in_a_thread_and_not_where_an_interrupt_may_come(
    store: SqlStore,
) -> None:
    def insert(driver: StoreConnection, first: int) -> None:
        for number in range(first, first + 3):
            driver.execute(INSERT, {"id": number, "text": "x"})

    with store.transaction() as tx:
        driver = driver_of(tx.connection())
        insert(driver, 0)
        assert prepared(driver) == []
        in_thread(lambda: driver.execute(INSERT, {"id": 3, "text": "x"}))
        assert prepared(driver) == [], "executed once"
        in_thread(lambda: insert(driver, 4))
        assert prepared(driver) == ["insert into placed values ($1, $2)"]
        assert driver.execute("select count(*) from placed").fetchone() == (7,)


SELECT = "select id, text, '%%' as sign from placed where id >= %(low)s and text <> %(text)s order by id"
STATEMENTS: list[tuple[str, dict[str, Any]]] = [
    (SELECT, {"low": 2, "text": "none"}),
    (SELECT, {"low": 99, "text": "none"}),
    (
        "select %(text)s::text, %(text)s::text, %(none)s::int, %(raw)b::bytea",
        {"text": "ä%s", "none": None, "raw": b"\0"},
    ),
    ("update placed set text = %(text)s where id > %(low)s", {"low": 2, "text": "new"}),
    ("delete from placed where id = %(low)s returning id, text", {"low": 1}),
    ("with gone as (delete from placed returning id) select count(*) from gone where id > %(low)s", {"low": 0}),
    ("select * from placed where id = any(%(ids)s)", {"ids": [1, 3]}),
    ("select array_agg(id), now()::date = current_date, 1.5::numeric * %(low)s from placed", {"low": 2}),
]


@pytest.mark.parametrize(("statement", "values"), STATEMENTS)
def test_results_are_those_of_psycopg(store: SqlStore, statement: str, values: dict[str, Any]) -> None:
    def seen(cursor: psycopg.Cursor[Any]) -> tuple[object, ...]:
        described = None if cursor.description is None else [(each.name, each.type_code) for each in cursor.description]
        first = None if described is None else cursor.fetchone()
        rest = None if described is None else cursor.fetchall()
        return cursor.rowcount, cursor.statusmessage, described, first, rest, cursor.nextset()

    def work() -> tuple[object, object, list[str]]:
        with store.transaction() as tx:
            driver = driver_of(tx.connection())
            driver.execute("select 1")  # the transaction has begun
            driver.execute(statement, values)  # for the first time
            driver.pgconn.exec_(b"delete from placed")
            driver.pgconn.exec_(b"insert into placed select n, 'text ' || n from generate_series(1, 4) n")
            driver.pgconn.exec_(b"savepoint here")
            plain = psycopg.Cursor(driver)
            plain.execute(statement, values)
            expected = seen(plain)
            driver.pgconn.exec_(b"rollback to savepoint here")
            return expected, seen(driver.execute(statement, values)), prepared(driver)

    expected, found, names = in_thread(work)
    assert found == expected
    assert len(names) == 1, "it was executed without psycopg"


def test_error_is_that_of_psycopg_and_a_savepoint_undoes_it(store: SqlStore) -> None:
    def work() -> tuple[psycopg.Error, int]:
        with store.transaction() as tx:
            connection = tx.connection()
            for number in range(3):
                connection.exec_driver_sql(INSERT, {"id": number, "text": "x"})
            nested = connection.begin_nested()
            with pytest.raises(psycopg.errors.UniqueViolation) as found:
                driver_of(connection).execute(INSERT, {"id": 1, "text": "again"})
            nested.rollback()
            for number in range(3, 6):  # psycopg has deallocated what was prepared
                connection.exec_driver_sql(INSERT, {"id": number, "text": "x"})
            return found.value, connection.exec_driver_sql("select count(*) from placed").scalar_one()

    error, count = in_thread(work)
    assert (error.sqlstate, error.diag.constraint_name, count) == ("23505", "once", 6)
    with store.engine.connect() as connection:
        assert connection.execute(text("select count(*) from placed")).scalar_one() == 6


def test_statement_of_an_earlier_transaction_that_was_rolled_back_is_found_or_prepared_again(store: SqlStore) -> None:
    def once(number: int, *, fails: bool) -> None:
        with store.transaction() as tx:
            for each in range(3):
                tx.connection().exec_driver_sql(INSERT, {"id": number + each, "text": "x"})
            if fails:
                raise LookupError

    def work() -> None:
        once(0, fails=False)
        with pytest.raises(LookupError):
            once(10, fails=True)
        once(20, fails=False)
        with store.transaction() as tx:
            tx.connection().exec_driver_sql("deallocate all")
        once(30, fails=False)

    in_thread(work)
    with store.engine.connect() as connection:
        assert connection.execute(text("select count(*) from placed")).scalar_one() == 9


def test_adapters_that_the_application_registers_meanwhile_are_used(store: SqlStore) -> None:
    class Loud(StrDumper):
        def dump(self, obj: str) -> bytes:
            return obj.upper().encode()

    def work() -> list[str]:
        with store.transaction() as tx:
            driver = driver_of(tx.connection())
            for number in range(3):
                driver.execute(INSERT, {"id": number, "text": "quiet"})
            driver.adapters.register_dumper(str, Loud)
            driver.execute(INSERT, {"id": 3, "text": "loud"})
            driver.execute(INSERT, {"id": 4, "text": "loud"})
            return [text for (text,) in driver.execute("select text from placed order by id")]

    assert in_thread(work) == ["quiet"] * 3 + ["LOUD"] * 2


def test_everything_that_only_psycopg_can_execute_is_left_to_it(store: SqlStore) -> None:
    def work() -> None:
        with store.transaction() as tx:
            driver = driver_of(tx.connection())
            for number in range(3):
                driver.execute(INSERT, {"id": number, "text": "x"})
            with pytest.raises(psycopg.ProgrammingError, match="text"):
                driver.execute(INSERT, {"id": 3})
            for _ in range(3):
                with pytest.raises(psycopg.ProgrammingError):
                    driver.execute("select %(id)s, '100%'", {"id": 1})
                driver.execute("select %(id)t::int", {"id": 1})
            with driver.pipeline():
                cursor = driver.execute(INSERT, {"id": 3, "text": "x"})
            assert cursor.rowcount == 1
            closed = driver.cursor()
            closed.execute(INSERT, {"id": 4, "text": "x"})
            closed.close()
            with pytest.raises(psycopg.InterfaceError):
                closed.execute(INSERT, {"id": 5, "text": "x"})
            assert driver.execute("select count(*) from placed").fetchone() == (5,)

    in_thread(work)


def test_copy_is_refused_by_psycopg(store: SqlStore) -> None:
    def work() -> None:
        with store.engine.connect() as connection:
            driver = driver_of(connection)
            driver.execute("select 1")
            driver.session.name_of((b"copy placed from stdin", ()))  # as if it had been executed before
            with pytest.raises(psycopg.ProgrammingError, match="COPY"):
                driver.execute("copy placed from stdin", {})
            connection.invalidate()  # psycopg leaves it amid the copy

    in_thread(work)


def test_transaction_begins_with_a_statement_that_is_prepared(store: SqlStore) -> None:
    def work() -> list[int]:
        counts = []
        for number in range(3):
            with store.engine.connect() as connection:
                connection.exec_driver_sql(INSERT, {"id": number, "text": "x"})
                counts.append(connection.exec_driver_sql("select count(*) from placed").scalar_one())
                # not committed
        return counts

    assert in_thread(work) == [1, 1, 1]


def test_many_statements_are_not_all_kept_prepared(store: SqlStore) -> None:
    def work() -> int:
        with store.transaction() as tx:
            driver = driver_of(tx.connection())
            for number in range(MOST_OF_APPLICATION + 10):
                for _ in range(2):
                    driver.execute(f"select {number} + %(more)s", {"more": 1})
            return len(prepared(driver))

    assert in_thread(work) == MOST_OF_APPLICATION


def test_a_server_that_ends_the_session_is_told_as_transient(store: SqlStore) -> None:
    def work() -> None:
        with store.transaction() as tx:
            connection = tx.connection()
            for number in range(3):
                connection.exec_driver_sql(INSERT, {"id": number, "text": "x"})
            pid = connection.exec_driver_sql("select pg_backend_pid()").scalar_one()
            with store.engine.connect() as other:
                other.exec_driver_sql("select pg_terminate_backend(%(pid)s, 5000)", {"pid": pid})
            try:
                connection.exec_driver_sql(INSERT, {"id": 3, "text": "x"})
            except Exception as error:
                known = tx.translate(error)
                assert isinstance(known, TransientStorageError)
                assert connection.invalidated
                raise known from error

    with pytest.raises(TransientStorageError):
        in_thread(work)
