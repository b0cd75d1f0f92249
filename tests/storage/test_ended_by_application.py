"""A connection of a store tells whose transaction it is in when the application ends that by itself."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from psycopg.sql import SQL
from sqlalchemy import text

from mercury import Transaction
from mercury.engine.delivery import shared
from mercury.errors import DataError, StorageError
from mercury.statemachine.policy import DestinationPolicy, OnFailure
from mercury.storage.application import Ending
from mercury.storage.opening import open_sql_store
from mercury.storage.sql.store import SqlStore
from mercury.storage.sql.store_connections import StoreConnection
from mercury.testing.contract.builders import row
from tests.storage.placed_orders import PairOf, placed, send
from tests.storage.test_shared_savepoints import Shop, failures


def opened(url: str) -> Iterator[SqlStore]:
    opened = open_sql_store(url)
    with opened.transaction() as tx:
        tx.connection().execute(text("create table placed (id int, note text)"))
    yield opened
    opened.close()


@pytest.fixture
def store(postgres_url: str) -> Iterator[SqlStore]:
    yield from opened(postgres_url)


@pytest.fixture
def any_store(sql_url: str) -> Iterator[SqlStore]:
    yield from opened(sql_url)


INSERT = text("insert into placed(id) values (:id)")
#: An application knows no other order of these: one that ends a transaction begins none.
ROLLS_BACK = ["rollback", "/* it failed */ ROLLBACK", "-- it failed\nrollback transaction"]
COMMITS = ["commit", "\n  Commit", "end transaction"]
OF_POSTGRESQL = [
    *("abort", "rollback and chain", "select 1; rollback", "select E'\\''; rollback; select 'x'"),
    "/* PostgreSQL's comments /* are */ nested */ rollback",
]
COMMITS_OF_POSTGRESQL = ["commit and chain", "select 1; commit; begin", "rollback; begin; commit", "select ';'; commit"]


def kept(store: SqlStore) -> list[int]:
    with store.connection() as connection:
        return list(connection.scalars(text("select id from placed order by id")))


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_an_end_by_the_driver_is_noticed_as_one_by_sqlalchemy(any_store: SqlStore, end: str) -> None:
    store = any_store
    with pytest.raises(StorageError), store.transaction() as tx:
        tx.connection().execute(INSERT, {"id": 1})
        tx.rms.append(row("urn:message:1"))
        getattr(tx.connection().connection, end)()
    with store.transaction() as tx:
        assert tx.connection().execute(text("select count(*) from placed")).scalar_one() == 0
        assert tx.rms.row("urn:message:1") is None


def test_statements_after_the_end_of_a_transaction_are_refused_and_lock_nothing(any_store: SqlStore) -> None:
    """They would begin a transaction that nothing ends; in SQLite it would lock the whole store."""
    store = any_store
    with store.transaction() as tx:
        tx.connection().execute(INSERT, {"id": 1})
    with pytest.raises(StorageError, match="begin another"):
        tx.connection()
    with pytest.raises(StorageError, match="begin another"):
        tx.session()
    with pytest.raises(StorageError, match="begin another"):
        tx.execute_later("insert into placed(id) values (2)")
    with pytest.raises(StorageError, match="begin another"), tx.savepoint():
        pass
    assert tx.outcome.ending is Ending.COMMITTED
    with store.transaction() as tx:
        tx.connection().execute(INSERT, {"id": 3})
    assert kept(store) == [1, 3]


def test_a_connection_that_is_returned_reports_to_no_transaction(store: SqlStore) -> None:
    with store.transaction() as tx:
        tx.connection()
    with store.engine.connect() as connection:
        driver = connection.connection.dbapi_connection
        assert isinstance(driver, StoreConnection)
        assert driver.owner is None


def test_mercury_listens_to_no_events_of_its_engine(store: SqlStore) -> None:
    """With a listener SQLAlchemy makes its dispatchers for each transaction, and calls them for each statement."""
    assert not store.engine._has_events


# --- by a statement --------------------------------------------------------------------------------------------------


def ended_by(store: SqlStore, statement: str) -> None:
    with pytest.raises(DataError, match="on its own"), store.transaction() as tx:
        connection = tx.connection()
        connection.execute(INSERT, {"id": 1})
        tx.rms.append(row("urn:message:1"))
        tx.connection()  # which sends what waits
        with suppress(StorageError):
            connection.exec_driver_sql(statement)
        with suppress(StorageError):
            connection.execute(INSERT, {"id": 3})
    assert tx.outcome.ending.value == "rolled back"
    assert kept(store) == []
    with store.transaction() as tx:
        assert tx.rms.row("urn:message:1") is None
        tx.connection().execute(INSERT, {"id": 4})
    assert kept(store) == [4]


@pytest.mark.parametrize("statement", [*ROLLS_BACK, *COMMITS])
def test_nothing_is_kept_of_a_transaction_that_a_statement_has_ended(any_store: SqlStore, statement: str) -> None:
    ended_by(any_store, statement)


@pytest.mark.parametrize("statement", [*OF_POSTGRESQL, *COMMITS_OF_POSTGRESQL])
def test_end_is_found_among_other_statements_too(store: SqlStore, statement: str) -> None:
    ended_by(store, statement)


@pytest.mark.parametrize("statement", COMMITS)
def test_statement_that_commits_is_not_executed(any_store: SqlStore, statement: str) -> None:
    with pytest.raises(StorageError, match="it commits when its 'with' block is left"), any_store.transaction() as tx:
        tx.connection().execute(INSERT, {"id": 1})
        tx.connection().execute(text(statement))
    assert kept(any_store) == []


@pytest.mark.parametrize("statement", ["rollback", "commit"])
def test_end_that_is_to_be_executed_later_is_noticed(any_store: SqlStore, statement: str) -> None:
    with pytest.raises(StorageError, match=r"on its own|'with' block"), any_store.transaction() as tx:
        tx.execute_later("insert into placed(id) values (1)")
        tx.execute_later(statement)
        with suppress(StorageError):
            tx.execute_later("insert into placed(id) values (3)")
    assert kept(any_store) == []


def test_nothing_is_kept_if_the_work_since_a_savepoint_cannot_be_undone(any_store: SqlStore) -> None:
    with pytest.raises(DataError, match="is not undone"), any_store.transaction() as tx:
        tx.connection().execute(INSERT, {"id": 1})
        with pytest.raises(ZeroDivisionError), tx.savepoint():
            tx.connection().execute(INSERT, {"id": 2})
            tx.connection().exec_driver_sql("release savepoint mercury_1")
            raise ZeroDivisionError
    assert kept(any_store) == []


@pytest.mark.parametrize("given", [str.encode, SQL], ids=["bytes", "composed"])
@pytest.mark.parametrize("how", ["execute", "executemany", "stream", "copy"])
def test_end_that_the_driver_gets_is_noticed(store: SqlStore, how: str, given: Callable[[Any], Any]) -> None:
    with pytest.raises(StorageError, match="it commits when its 'with' block is left"), store.transaction() as tx:
        tx.connection().execute(INSERT, {"id": 1})
        cursor = tx.connection().connection.cursor()
        getattr(cursor, how)(given("commit"), *([[()]] if how == "executemany" else []))
    assert kept(store) == []


@pytest.mark.parametrize(
    "end",
    [
        lambda driver: driver.execute("commit"),
        lambda driver: driver.executemany("commit", []),
        lambda driver: driver.executescript("select 1"),
        lambda driver: driver.__exit__(None, None, None),
    ],
    ids=["execute", "executemany", "executescript", "with"],
)
def test_commit_by_a_method_of_the_driver_of_sqlite_is_noticed(tmp_path: Path, end: Callable[[Any], Any]) -> None:
    """Its own forms commit without its method for that."""
    with contextlib.contextmanager(opened)(f"sqlite:///{tmp_path}/store.db") as store:
        with pytest.raises(StorageError, match="it commits when its 'with' block is left"), store.transaction() as tx:
            tx.connection().execute(INSERT, {"id": 1})
            end(tx.connection().connection.dbapi_connection)
        assert kept(store) == []


def test_error_in_a_block_of_the_driver_of_sqlite_keeps_nothing_of_the_transaction(tmp_path: Path) -> None:
    with contextlib.contextmanager(opened)(f"sqlite:///{tmp_path}/store.db") as store:
        with pytest.raises(DataError, match="rolled back the transaction"), store.transaction() as tx:
            tx.connection().execute(INSERT, {"id": 1})
            driver: Any = tx.connection().connection.dbapi_connection
            with suppress(ZeroDivisionError), driver:
                raise ZeroDivisionError
        assert kept(store) == []


@pytest.mark.parametrize(
    "statement",
    [
        "insert into placed values (2, '; commit; rollback')",
        "insert into placed values (2, 'a''; commit') -- ; commit",
        'insert into placed select 2, "end" from (select \'x\' as "end") as ends',
    ],
)
def test_statement_that_ends_no_transaction_is_executed(any_store: SqlStore, statement: str) -> None:
    with any_store.transaction() as tx:
        tx.connection().exec_driver_sql("savepoint mine")
        tx.connection().execute(INSERT, {"id": 1})
        tx.connection().exec_driver_sql("ROLLBACK TO savepoint mine")
        tx.connection().exec_driver_sql(statement)
    assert kept(any_store) == [2]


@pytest.mark.parametrize(
    "statement",
    [
        "do $$ begin insert into placed values (2); end $$",
        r"insert into placed values (2, E'a\'b; rollback')",
        "do $do$ begin begin raise 'x'; exception when others then insert into placed values (2); end; end; $do$",
        "create function two() returns int begin atomic select 2; end; insert into placed values (two())",
        "rollback work to mine; insert into placed values (2)",
        "prepare two as insert into placed values (2); execute two",
    ],
)
def test_end_of_a_body_or_of_a_savepoint_is_no_end_of_the_transaction(store: SqlStore, statement: str) -> None:
    with store.transaction() as tx:
        tx.connection().exec_driver_sql("savepoint mine")
        tx.connection().exec_driver_sql(statement)
    assert kept(store) == [2]


@pytest.mark.parametrize("seconds", [0.0, 3600.0], ids=["own savepoint", "shared savepoint"])
@pytest.mark.parametrize("statement", ["rollback", "commit"])
def test_message_whose_handler_ends_the_transaction_fails_and_stops_no_other(
    sql_url: str, pair_of: PairOf, monkeypatch: pytest.MonkeyPatch, seconds: float, statement: str
) -> None:
    monkeypatch.setattr(shared, "SHARED_SECONDS", seconds)
    shop = Shop(DestinationPolicy(on_failure=OnFailure.SKIP, max_attempts=2))
    pair = pair_of(shop, sql_url)

    def check(number: int, tx: Transaction) -> None:
        if number == 3:
            with suppress(StorageError):
                tx.connection().execute(text(statement))

    shop.check = check
    seen = failures(pair)
    send(pair, range(1, 7))
    pair.run()
    pair.advance(3600)
    assert placed(pair) == [1, 2, 4, 5, 6]
    assert seen == [(3, 1), (3, 2)]
