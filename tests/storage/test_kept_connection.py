"""A transaction gets the connection of the one before it, unless the application has had it or it is lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from psycopg import OperationalError
from psycopg.sql import SQL
from sqlalchemy import Connection, text
from sqlalchemy.pool import QueuePool

from mercury.errors import TransientStorageError
from mercury.storage.api import Transaction
from mercury.storage.sql.round_trips import Session
from mercury.storage.sql.store import SqlStore
from mercury.storage.sql.store_connections import StoreConnection, changes_session
from mercury.storage.sql.transaction import SqlTransaction
from mercury.storage.xa.coordinator import Coordinator

INSERT = "insert into placed values (:id)"


@pytest.fixture
def store(placing_store: SqlStore) -> SqlStore:
    return placing_store


def begun(tx: Transaction, number: int) -> Connection:
    """The connection of a transaction, after a statement on it."""
    assert isinstance(tx, SqlTransaction)
    tx.execute_later(INSERT, {"id": number})
    tx.send_pending()
    assert tx._connection is not None
    return tx._connection


def used(store: SqlStore, number: int = 1) -> Connection:
    """The connection of a transaction that has ended."""
    with store.transaction() as tx:
        return begun(tx, number)


def checked_out(store: SqlStore) -> int:
    pool = store.engine.pool
    assert isinstance(pool, QueuePool)
    return pool.checkedout()


def end(store: SqlStore, connection: Connection) -> None:
    """Let the server end a session."""
    driver = connection.connection.dbapi_connection
    assert isinstance(driver, StoreConnection)
    with store.engine.begin() as other:
        other.execute(text("select pg_terminate_backend(:pid, 10000)"), {"pid": driver.info.backend_pid})


def test_the_next_transaction_gets_it(store: SqlStore) -> None:
    first = used(store)
    assert checked_out(store) == 1
    assert used(store, 2) is first
    with store.transaction() as outer:
        assert begun(outer, 3) is first
        assert used(store, 4) is not first
    assert checked_out(store) == 1, "one is kept"
    assert first.closed


def test_one_that_the_application_has_had_is_returned(store: SqlStore) -> None:
    kept = used(store)
    with store.transaction() as tx:
        assert tx.connection() is kept
    assert kept.closed, "the application cannot use it any more"
    assert checked_out(store) == 0


def test_one_whose_transaction_was_rolled_back_is_returned(store: SqlStore) -> None:
    used(store)
    with pytest.raises(ZeroDivisionError), store.transaction() as tx:
        begun(tx, 2)
        raise ZeroDivisionError
    assert checked_out(store) == 0


def test_one_whose_buffers_have_grown_is_closed(store: SqlStore) -> None:
    with store.transaction() as tx:
        begun(tx, 1).connection.dbapi_connection.grown = True  # type: ignore[union-attr]
    assert checked_out(store) == 0


def test_one_whose_session_has_ended_fails_once(store: SqlStore) -> None:
    end(store, used(store))
    with pytest.raises(TransientStorageError):
        used(store, 2)
    assert checked_out(store) == 0
    used(store, 3)


def test_it_is_returned_when_another_connection_is_lost(store: SqlStore) -> None:
    with pytest.raises(TransientStorageError), store.transaction() as tx:
        lost = begun(tx, 1)
        used(store, 2)
        end(store, lost)
        begun(tx, 3)
    assert checked_out(store) == 0, "the pool makes it anew, whose session has ended probably too"


def test_nothing_is_kept_once_the_store_is_closed(store: SqlStore) -> None:
    kept = used(store)
    with store.transaction() as tx:
        last = begun(tx, 2)
        driver = last.connection.dbapi_connection
        used(store, 3)
        store.close()
    assert kept.closed
    assert last.closed
    assert driver is not None
    driver.close()  # the pool that it was returned to is given up


def test_two_databases_use_the_pool(store: SqlStore) -> None:
    with Coordinator(store, {}, lambda: "process").transaction() as tx:
        begun(tx, 1)
    assert checked_out(store) == 0


def driver_of(tx: Transaction) -> StoreConnection:
    driver = tx.connection().connection.dbapi_connection
    assert isinstance(driver, StoreConnection)
    return driver


def test_connection_that_is_lost_behind_the_commit_changes_no_outcome(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its transaction would be repeated, although it is committed."""
    lost = list[int]()

    def settle(_: Session) -> None:
        lost.append(1)
        raise OperationalError("server closed the connection unexpectedly")

    with store.transaction() as tx:
        before = len(tx.connection().execute(text("select id from placed")).all())
        tx.connection().execute(text("drop table if exists never_made"))
        tx.execute_later(INSERT, {"id": 77})
        monkeypatch.setattr(Session, "settle", settle)
    assert lost
    monkeypatch.undo()
    with store.transaction() as tx:
        assert len(tx.connection().execute(text("select id from placed")).all()) == before + 1


SETTING = "select current_setting('synchronous_commit'), current_setting('search_path')"


@pytest.mark.parametrize(
    "statement",
    [
        "set synchronous_commit = off",
        "SET SESSION synchronous_commit TO off",
        "/* for speed */ set synchronous_commit = off",
        "select 1; set synchronous_commit = off",
        "select set_config('synchronous_commit', 'off', false)",
        "select set_config('synchronous_commit', 'off', false), true",
        "do $$ begin set synchronous_commit = off; end $$",
    ],
)
@pytest.mark.parametrize("later", [True, False], ids=["executed later", "on its connection"])
def test_setting_of_the_application_does_not_outlive_its_transaction(
    store: SqlStore, statement: str, later: bool
) -> None:
    """What Mercury commits with it off may be lost after it was acknowledged."""
    with store.transaction() as tx:
        before = tx.connection().execute(text(SETTING)).one()
    with store.transaction() as tx:
        if later:
            tx.execute_later(statement)
        else:
            tx.connection().execute(text(statement))
    with store.transaction() as tx:
        assert tx.connection().execute(text(SETTING)).one() == before


@pytest.mark.parametrize(
    "statement",
    [
        "set local synchronous_commit = off",
        "set constraints all immediate",
        "select set_config('synchronous_commit', 'off', true)",
        "update placed set id = id",
    ],
)
def test_session_that_the_application_leaves_as_it_was_is_used_again(store: SqlStore, statement: str) -> None:
    with store.transaction() as tx:
        tx.connection().execute(text(statement))
        before = driver_of(tx).info.backend_pid
    with store.transaction() as tx:
        assert driver_of(tx).info.backend_pid == before


@pytest.mark.parametrize(
    "statement",
    [
        "select set_config('app.admin', 'true', false)",
        "select set_config('app.admin', 'on', true), set_config('app.user', 'a', false)",
        "select set_config('app.user', 'a', false) where true",
        "select set_config('app.user', (select 'a, true'), false)",
        "select set_config('app.user', 'a, true)', false)",
        "select set_config('app.user', e'\\', true)', false)",
        "select set_config('app.user', $$ ', true)$$, false)",
        "select set_config('app.user', 'a' /*, true) */, false)",
        "select set_config('app.user', 'a' --, true)\n, false)",
        "select set_config('app.user', 'a', not true)",
        "select set_config('app.user', 'a', %(local)s)",
        "select set_config('app.user', 'a', is_local => true)",
        "select \"set_config\"('app.user', 'a', true)",
        "-- before\nDO language plpgsql 'begin set x to y; end'",
        "select 1; do $$ begin set x to y; end $$",
    ],
)
def test_statement_that_may_change_the_session_counts_as_one_that_does(statement: str) -> None:
    assert changes_session(statement)


@pytest.mark.parametrize(
    "statement",
    [
        "select set_config('app.user', %(user)s, true)",
        "select set_config('app.user', %s::text, TRUE )",
        "select set_config('app.user', $1, true), set_config('app.tenant', cast(%(tenant)s as text), true)",
        "select pg_catalog.set_config('app.user', 'it''s (me)', true)",
        "insert into placed values (1) on conflict do nothing",
        "with done as (select 1) select * from done",
        "select set_config('app.user', %(claims)s::json->>'sub', true)",
        "do $$ begin insert into placed values (1); end $$",
    ],
)
def test_statement_that_changes_the_transaction_alone_costs_no_session(statement: str) -> None:
    assert not changes_session(statement)


@pytest.mark.parametrize("changed", [True, False], ids=["changed", "left as it was"])
@pytest.mark.parametrize("given", [str.encode, SQL], ids=["bytes", "composed"])
def test_statement_that_the_driver_gets_as_no_text_is_looked_at_too(
    store: SqlStore, given: Callable[[Any], Any], changed: bool
) -> None:
    with store.transaction() as tx:
        driver_of(tx).cursor().execute(given("set work_mem = '5MB'" if changed else "select 1"))
        before = driver_of(tx).info.backend_pid
    with store.transaction() as tx:
        assert (driver_of(tx).info.backend_pid != before) == changed
