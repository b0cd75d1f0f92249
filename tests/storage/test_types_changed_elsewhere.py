"""A migration beside an application changes the type of a column: prepared statements keep the former type."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.exc import SQLAlchemyError

from mercury.errors import StorageError
from mercury.storage.sql.prepared import session_of
from mercury.storage.sql.store import SqlStore
from mercury.testing.contract.builders import row

INSERT = "insert into noted values (:value)"
TO_JSON = ("alter table noted alter value type jsonb using to_jsonb(value)",)
#: The usual way to take a value out of an enum, or to change one: a new type with the former name.
TO_NEW_ENUM = (
    "alter type stage rename to stage_before",
    "create type stage as enum ('new', 'paid', 'sent')",
    "alter table noted alter value type stage using value::text::stage",
)
DROP_FORMER = "drop type stage_before"


def migrate(store: SqlStore, statements: Sequence[str]) -> None:
    """Execute statements in a session of a process that is not Mercury's."""
    engine = create_engine(store.url)
    with engine.begin() as connection:
        for statement in statements:
            connection.execute(text(statement))
    engine.dispose()


@pytest.fixture
def store(placing_store: SqlStore) -> SqlStore:
    migrate(placing_store, ["create type stage as enum ('new', 'paid')", "create table noted (value text)"])
    return placing_store


def noted(store: SqlStore) -> list[str]:
    with store.engine.connect() as connection:
        return list(connection.execute(text("select value::text from noted")).scalars())


def insert(store: SqlStore, value: str) -> None:
    with store.transaction() as tx:
        tx.execute_later(INSERT, {"value": value})
        tx.rms.append(row(f"urn:message:{value}"))


@pytest.mark.parametrize(
    ("first", "before", "statements", "value"),
    [
        ("new", "text", TO_JSON, "7"),
        ("new", "stage", TO_NEW_ENUM, "paid"),
        ("new", "stage", TO_NEW_ENUM, "sent"),
        ("new", "stage", (*TO_NEW_ENUM, DROP_FORMER), "sent"),
        ("7", "int", ("alter table noted alter value type bigint",), "5000000000"),
    ],
    ids=["text to jsonb", "an enum", "a value that the enum has got", "an enum whose former type is gone", "a number"],
)
def test_a_statement_left_for_later_fails_at_most_once_after_a_migration(
    store: SqlStore, first: str, before: str, statements: Sequence[str], value: str
) -> None:
    migrate(store, [f"alter table noted alter value type {before} using value::{before}"])
    insert(store, first)
    migrate(store, statements)
    with contextlib.suppress(StorageError):
        insert(store, value)
        pytest.fail("the server has kept no type")
    insert(store, value)
    assert len(noted(store)) == 2


def handle(store: SqlStore, value: str, *, at_once: bool) -> bool:
    """As a handler whose message gets another try if it fails: the transaction is committed nevertheless."""
    with store.transaction() as tx:
        tx.writing()  # as the locks of a handler's message
        with contextlib.suppress(StorageError, SQLAlchemyError), tx.savepoint():
            if at_once:
                tx.connection().exec_driver_sql(INSERT.replace(":value", "%(value)s"), {"value": value})
            else:
                tx.execute_later(INSERT, {"value": value})
                tx.send_pending()
            return True
        tx.rms.append(row(f"urn:message:{value} again"))
    return False


@pytest.mark.parametrize("at_once", [True, False], ids=["at once", "left for later"])
def test_a_handler_fails_at_most_once_after_a_migration(store: SqlStore, *, at_once: bool) -> None:
    assert all(handle(store, "true", at_once=at_once) for _ in range(3))  # psycopg prepares what is repeated
    migrate(store, TO_JSON)
    handle(store, "7", at_once=at_once)
    assert handle(store, "8", at_once=at_once)


def prepared(store: SqlStore) -> list[str]:
    """The statements that the server keeps for the only connection of the store."""
    with store.transaction() as tx:
        found = tx._begun().exec_driver_sql("select statement from pg_prepared_statements where not from_sql")
        return [each for each in found.scalars() if "placed" in each]


def test_statements_that_always_fail_are_not_kept_in_the_server(store: SqlStore) -> None:
    for _ in range(4):
        with pytest.raises(StorageError, match="division by zero"), store.transaction() as tx:
            tx.execute_later("insert into placed select 1 / cast(:by as int)", {"by": "0"})
    insert(store, "one")
    assert prepared(store) == []


def test_statement_that_is_gone_already_is_not_deallocated(store: SqlStore) -> None:
    with store.transaction() as tx:
        session = session_of(tx.writing())
        assert session is not None
        with pytest.raises(StorageError, match="division by zero"), tx.savepoint():
            tx.execute_later("insert into placed select 1 / cast(:by as int)", {"by": "0"})
        tx.connection().exec_driver_sql("deallocate all")
    insert(store, "one")
    assert noted(store) == ["one"]
