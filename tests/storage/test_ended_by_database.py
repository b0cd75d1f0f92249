"""SQLite rolls back a whole transaction by itself: nothing of it is kept, and nothing is reported as committed."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from sqlalchemy import Connection, text
from sqlalchemy.exc import IntegrityError, OperationalError

from mercury import Transaction
from mercury.engine.delivery import shared
from mercury.errors import DataError, TransientStorageError
from mercury.statemachine.policy import DestinationPolicy, OnFailure
from mercury.storage.opening import open_sql_store
from mercury.storage.sql.sqlite_connections import SqliteConnection
from mercury.storage.sql.store import SqlStore
from mercury.testing.contract.builders import row
from tests.storage.placed_orders import INSERT, PairOf, placed, send
from tests.storage.test_shared_savepoints import Shop, failures

#: Ends the transaction at order 2.
TRIGGER = """
    create trigger refused before insert on placed when new.id = 2 begin select raise(rollback, 'refused'); end
"""
#: What no file of these tests has space for.
LARGE = 500_000
MOST_PAGES = 1_000_000


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/store.db"


@pytest.fixture
def store(url: str) -> Iterator[SqlStore]:
    opened = open_sql_store(url)
    with opened.transaction() as tx:
        tx.connection().execute(text("create table placed (id int, body blob)"))
        tx.connection().execute(text(TRIGGER))
    yield opened
    opened.close()


def insert(tx: Transaction, number: int) -> None:
    tx.connection().execute(INSERT, {"id": number})


def driver_of(connection: Connection) -> SqliteConnection:
    driver = connection.connection.dbapi_connection
    assert isinstance(driver, SqliteConnection)
    return driver


def fill(connection: Connection) -> None:
    """Insert more than the file may have."""
    cursor = sqlite3.Cursor(driver_of(connection))
    (pages,) = cursor.execute("pragma page_count").fetchone()
    cursor.execute(f"pragma max_page_count = {pages + 20}")
    try:
        connection.execute(text("create table if not exists large (body blob)"))
        connection.execute(text("insert into large values (zeroblob(:size))"), {"size": LARGE})
    finally:
        cursor.execute(f"pragma max_page_count = {MOST_PAGES}")


def kept(store: SqlStore) -> list[int]:
    with store.connection() as connection:
        return list(connection.scalars(text("select id from placed order by id")))


def test_transaction_that_ended_in_a_savepoint_is_not_committed(store: SqlStore) -> None:
    with pytest.raises(DataError, match=r"rolled back the whole transaction.+: refused"), store.transaction() as tx:
        for number in (1, 2, 3):
            with suppress(IntegrityError, DataError), tx.savepoint():
                insert(tx, number)
    assert kept(store) == []
    assert tx.outcome.ending.value == "rolled back"


def test_error_that_ended_the_transaction_is_the_one_that_leaves_the_savepoint(store: SqlStore) -> None:
    with pytest.raises(DataError), store.transaction() as tx:
        insert(tx, 1)
        with pytest.raises(IntegrityError, match="refused"), tx.savepoint():
            insert(tx, 2)


def test_nothing_is_executed_behind_the_end_of_the_transaction(store: SqlStore) -> None:
    """SQLite would commit each statement by itself."""
    with pytest.raises(DataError), store.transaction() as tx:
        connection = tx.connection()
        connection.execute(INSERT, {"id": 1})
        with pytest.raises(IntegrityError):
            connection.execute(INSERT, {"id": 2})
        with pytest.raises(DataError):
            connection.execute(INSERT, {"id": 3})
        tx.rms.append(row("urn:message:1"))
    assert kept(store) == []
    with store.transaction() as tx:
        assert tx.rms.row("urn:message:1") is None
        insert(tx, 4)
    assert kept(store) == [4]


def test_savepoint_of_the_application_is_left_with_the_error_that_ended_the_transaction(store: SqlStore) -> None:
    with pytest.raises(DataError), store.transaction() as tx:
        insert(tx, 1)
        with pytest.raises(IntegrityError, match="refused"), tx.connection().begin_nested():
            insert(tx, 2)
    assert kept(store) == []


def test_session_of_a_savepoint_is_left_with_the_error_that_ended_the_transaction(store: SqlStore) -> None:
    with pytest.raises(DataError), store.transaction() as tx:
        insert(tx, 1)
        with pytest.raises(IntegrityError, match="refused"), tx.savepoint():
            tx.session().execute(INSERT, {"id": 2})
    assert kept(store) == []


def test_savepoint_before_which_nothing_was_written_is_undone_alone(store: SqlStore) -> None:
    with store.transaction() as tx:
        with pytest.raises(IntegrityError), tx.savepoint():
            insert(tx, 2)
        insert(tx, 3)
    assert kept(store) == [3]


def test_transaction_that_ended_because_the_disk_is_full_may_be_repeated(store: SqlStore) -> None:
    with pytest.raises(TransientStorageError, match="full"), store.transaction() as tx:
        insert(tx, 1)
        with pytest.raises(OperationalError, match="full"), tx.savepoint():
            fill(tx.connection())
    assert kept(store) == []


def test_end_that_no_statement_has_shown_is_noticed_before_the_commit(store: SqlStore) -> None:
    with pytest.raises(DataError, match="had ended before its commit"), store.transaction() as tx:
        insert(tx, 1)
        sqlite3.Cursor(driver_of(tx.connection())).execute("rollback")
    assert tx.outcome.ending.value == "rolled back"


def test_transaction_begins_when_its_lock_is_free_although_the_application_has_caught_the_error_before(
    store: SqlStore, url: str
) -> None:
    """Otherwise each statement would be committed alone."""
    hasty, other = open_sql_store(url, lock_timeout=0.0), store.engine.connect()
    other.exec_driver_sql("begin immediate")
    with pytest.raises(ZeroDivisionError), hasty.transaction() as tx:
        with pytest.raises(TransientStorageError, match="locked"):
            tx.connection()
        other.close()
        insert(tx, 1)
        raise ZeroDivisionError
    hasty.close()
    assert kept(store) == []


def trigger(number: int, tx: Transaction) -> None:
    if number == 2:
        tx.connection().execute(text("insert into refusing values (1)"))


def full(number: int, tx: Transaction) -> None:
    if number == 2:
        fill(tx.connection())


@pytest.mark.parametrize("seconds", [0.0, 3600.0], ids=["own savepoint", "shared savepoint"])
@pytest.mark.parametrize("ends", [trigger, full])
@pytest.mark.parametrize("caught", [False, True], ids=["", "caught"])
def test_messages_of_a_run_are_all_handled_once_although_the_second_has_ended_its_transaction(
    url: str,
    pair_of: PairOf,
    monkeypatch: pytest.MonkeyPatch,
    seconds: float,
    ends: Callable[[int, Transaction], None],
    caught: bool,
) -> None:
    monkeypatch.setattr(shared, "SHARED_SECONDS", seconds)
    shop = Shop(DestinationPolicy(on_failure=OnFailure.SKIP, max_attempts=20))
    pair = pair_of(shop, url)
    with pair.server.transaction() as tx:
        tx.connection().execute(text("create table refusing (id int)"))
        tx.connection().execute(text(TRIGGER.replace("placed when new.id = 2", "refusing")))

    def check(number: int, tx: Transaction) -> None:
        if shop.calls.count(2) < 4:
            with suppress(*([IntegrityError, OperationalError] if caught else [])):
                ends(number, tx)

    shop.check = check
    seen = failures(pair)
    send(pair, [1, 2, 3, 4])
    pair.run()
    pair.advance(3600)
    assert placed(pair) == [1, 2, 3, 4]
    assert {number for number, _ in seen} <= {2}
    assert pair.server.dead_letters() == []


def test_error_of_the_store_itself_is_not_a_failed_attempt(url: str, pair_of: PairOf) -> None:
    shop = Shop(DestinationPolicy(on_failure=OnFailure.SKIP, max_attempts=1))
    pair = pair_of(shop, url)
    shop.check = lambda number, tx: full(number, tx) if shop.calls.count(2) < 4 else None
    seen = failures(pair)
    send(pair, [1, 2, 3, 4])
    pair.run()
    pair.advance(3600)
    assert placed(pair) == [1, 2, 3, 4]
    assert seen == []
