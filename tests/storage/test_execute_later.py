"""Statements that an application leaves to be executed later cost no round trip, and are otherwise as good as any."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from types import SimpleNamespace

import psycopg
import pytest
from sqlalchemy import Connection, create_engine, text

from mercury import Mercury
from mercury.errors import CapabilityError, DataError, StorageError, TransientStorageError
from mercury.storage.memory import MemoryStore
from mercury.storage.opening import open_sql_store
from mercury.storage.sql.prepared import session_of
from mercury.storage.sql.round_trips import MOST_OF_APPLICATION
from mercury.storage.sql.statements import MOST_LEFT
from mercury.storage.sql.store import SqlStore
from mercury.testing.contract.builders import row

from .round_trips import Relay
from .shop import settings

INSERT = "insert into placed values (:id)"
SELECT = text("select id from placed order by id")


@pytest.fixture
def store(placing_store: SqlStore) -> SqlStore:
    return placing_store


@pytest.fixture
def each_store(sql_url: str) -> Iterator[SqlStore]:
    """A store of each kind in a database, with the table ``placed``."""
    opened = open_sql_store(sql_url)
    with opened.engine.begin() as connection:
        connection.execute(text("create table placed (id int primary key)"))
    yield opened
    opened.close()


def placed(store: SqlStore) -> list[int]:
    with store.engine.connect() as connection:
        return list(connection.execute(SELECT).scalars())


# --- how many round trips ---------------------------------------------------------------------------------------------


def test_a_commit_with_a_message_is_one_round_trip(far: tuple[SqlStore, Relay]) -> None:
    store, between = far
    counts = []
    for number in range(3):  # the statements are prepared in the first
        with between.counted() as found, store.transaction() as tx:
            tx.execute_later(INSERT, {"id": number})
            tx.execute_later("update placed set id = -id where id = :id", {"id": number})
            tx.rms.append(row(f"urn:message:{number}"))
        counts += found
    assert counts[1:] == [1, 1], "BEGIN; both statements, the message, the commit and the notification"
    assert placed(store) == [-2, -1, 0]


def test_few_statements_wait_at_once(far: tuple[SqlStore, Relay]) -> None:
    store, between = far
    with between.counted() as found, store.transaction() as tx:
        for number in range(2 * MOST_LEFT + 1):
            tx.execute_later(INSERT, {"id": number})
            assert len(tx._left) <= MOST_LEFT
    assert found[0] <= 6, "two full ones, whose answers begin to come while they are sent, and the rest with the commit"
    assert placed(store) == list(range(2 * MOST_LEFT + 1))


# --- their order and their values -------------------------------------------------------------------------------------


def test_a_query_sees_what_was_left_before_it(each_store: SqlStore) -> None:
    with each_store.transaction() as tx:
        tx.execute_later(INSERT, {"id": 1})
        assert tx.connection().execute(SELECT).scalars().all() == [1]
        tx.execute_later(INSERT, {"id": 2})
        assert tx.session().execute(SELECT).scalars().all() == [1, 2]
    assert placed(each_store) == [1, 2]


def test_a_query_on_a_connection_from_before_sees_it_too(each_store: SqlStore) -> None:
    with each_store.transaction() as tx:
        connection = tx.connection()
        tx.execute_later(INSERT, {"id": 1})
        assert connection.execute(SELECT).scalars().all() == [1]


def test_the_values_are_those_of_the_call(store: SqlStore) -> None:
    values, many = {"id": 1}, [2, 3]
    with store.transaction() as tx:
        tx.execute_later(INSERT, values)
        tx.execute_later("insert into placed select * from unnest(cast(:ids as int[]))", {"ids": many})
        values["id"] = 7
        many.append(4)
    assert placed(store) == [1, 2, 3]


def test_percent_signs_and_casts_are_taken_as_they_are(store: SqlStore) -> None:
    with store.transaction() as tx:
        tx.execute_later(
            "insert into placed select length(cast(:text as text)) where 'a%b' like '%b' and 5 % 2 = 1", {"text": "%s"}
        )
    assert placed(store) == [2]


# --- what fails -------------------------------------------------------------------------------------------------------


def test_one_that_fails_at_the_commit_takes_the_message_with_it_and_is_named(store: SqlStore) -> None:
    with store.transaction() as tx:
        tx.execute_later(INSERT, {"id": 1})
    with pytest.raises(DataError, match=r"duplicate key .*\(in insert into placed values \(:id\)\)"):  # noqa: SIM117
        with store.transaction() as tx:
            tx.execute_later(INSERT, {"id": 2})
            tx.execute_later(INSERT, {"id": 1})
            tx.rms.append(row("urn:message:1"))
    assert placed(store) == [1]
    with store.transaction() as tx:
        assert tx.rms.row("urn:message:1") is None


def test_one_that_fails_is_told_to_what_follows_it(store: SqlStore) -> None:
    with store.transaction() as tx:
        tx.execute_later(INSERT, {"id": 1})
    with pytest.raises(DataError, match="duplicate key"), store.transaction() as tx:
        tx.execute_later(INSERT, {"id": 1})
        tx.connection()
    assert placed(store) == [1]


def test_a_savepoint_contains_what_fails_in_it(each_store: SqlStore) -> None:
    with each_store.transaction() as tx:
        tx.execute_later(INSERT, {"id": 1})
        with pytest.raises(DataError), tx.savepoint():
            tx.execute_later(INSERT, {"id": 2})
            tx.execute_later(INSERT, {"id": 1})
        tx.execute_later(INSERT, {"id": 3})
    assert placed(each_store) == [1, 3]


def test_statement_that_is_left_in_a_block_that_fails_is_not_executed(store: SqlStore) -> None:
    with store.transaction() as tx:
        with pytest.raises(ZeroDivisionError), tx.savepoint():
            tx.execute_later(INSERT, {"id": 1})
            assert 1 / 0
        tx.execute_later(INSERT, {"id": 2})
    assert placed(store) == [2]


@pytest.mark.parametrize("values", [{}, {"id": object()}], ids=["none", "of no type"])
def test_a_value_that_cannot_be_sent_is_told_at_once(each_store: SqlStore, values: dict[str, object]) -> None:
    with each_store.transaction() as tx:
        with pytest.raises(StorageError), tx.savepoint():
            tx.execute_later("insert into placed select 1 where :id = 'x'", values)
            pytest.fail("it was left")
        tx.execute_later(INSERT, {"id": 1})
    assert placed(each_store) == [1]


def test_a_deferred_constraint_is_an_error_of_the_application(store: SqlStore) -> None:
    with store.engine.begin() as connection:
        connection.execute(text("create table later (id int unique deferrable initially deferred)"))
    with pytest.raises(DataError, match="duplicate key"), store.transaction() as tx:
        tx.execute_later("insert into later values (1), (1)")
        tx.rms.append(row("urn:message:1"))


def test_a_session_that_has_ended_meanwhile_is_transient(store: SqlStore) -> None:
    def end(connection: Connection) -> None:
        driver = connection.connection.dbapi_connection
        assert isinstance(driver, psycopg.Connection)
        with psycopg.connect(store.url.set(drivername="postgresql").render_as_string(hide_password=False)) as other:
            other.execute("select pg_terminate_backend(%s)", (driver.info.backend_pid,))

    with pytest.raises(TransientStorageError), store.transaction() as tx:
        tx.execute_later(INSERT, {"id": 1})
        end(tx._begun())
    assert placed(store) == []


#: SQLSTATEs that a trigger of the application gives its errors. One of a class that PostgreSQL has is of that class.
OF_THE_APPLICATION = pytest.mark.parametrize(
    ("state", "kind"),
    [("MY001", StorageError), ("57MY1", StorageError), ("40MY1", TransientStorageError), ("22MY1", DataError)],
)


def refuse_rows(store: SqlStore, state: str, when: str) -> None:
    raises = f"raise exception 'not today' using errcode = '{state}'"
    with store.engine.begin() as connection:
        connection.execute(
            text(f"create function refuse() returns trigger language plpgsql as $$ begin {raises}; end $$")
        )
        connection.execute(text(f"create {when} for each row execute function refuse()"))


@OF_THE_APPLICATION
def test_an_error_with_a_state_of_the_application_is_one_of_the_storage(
    store: SqlStore, state: str, kind: type[StorageError]
) -> None:
    refuse_rows(store, state, "trigger refuses before insert on placed")
    with pytest.raises(StorageError, match=r"not today \(in insert") as caught, store.transaction() as tx:
        tx.execute_later(INSERT, {"id": 1})
        tx.rms.append(row("urn:message:1"))
    assert type(caught.value) is kind
    assert placed(store) == []


@OF_THE_APPLICATION
def test_an_error_with_a_state_of_the_application_at_the_commit_is_one_of_the_storage(
    store: SqlStore, state: str, kind: type[StorageError]
) -> None:
    refuse_rows(store, state, "constraint trigger refuses after insert on placed deferrable initially deferred")
    with pytest.raises(StorageError, match="not today") as caught, store.transaction() as tx:
        tx.execute_later(INSERT, {"id": 1})
        tx.rms.append(row("urn:message:1"))
    assert type(caught.value) is kind
    assert placed(store) == []


# --- what does not wait -----------------------------------------------------------------------------------------------


def test_a_statement_that_may_end_the_transaction_is_executed_at_once_as_by_a_connection(store: SqlStore) -> None:
    with store.transaction() as tx:
        tx.execute_later(INSERT, {"id": 1})
        tx.execute_later("create table more as select id from placed")
        assert tx._left == []
        tx.execute_later("insert into more values (2)")
        assert tx.connection().execute(text("select id from more order by id")).scalars().all() == [1, 2]
    assert placed(store) == [1]


def test_long_statements_and_large_values_are_not_kept(store: SqlStore) -> None:
    with store.engine.begin() as connection:
        connection.execute(text("create table files (content bytea)"))
    with store.transaction() as tx:
        tx.execute_later("insert into files values (:content)", {"content": bytes(5_000_000)})
        assert tx._left == []
    with store.transaction() as tx:
        tx.execute_later(f"insert into placed values {', '.join(f'({number})' for number in range(500))}")
        assert tx._left == []
    assert placed(store) == list(range(500))
    with store.engine.connect() as connection:
        assert connection.scalar(text("select length(content) from files")) == 5_000_000


def test_a_handler_with_a_time_limit_is_stopped_in_the_statement(store: SqlStore) -> None:
    with pytest.raises(StorageError, match="statement timeout"), store.transaction() as tx:  # noqa: SIM117
        with tx.limited_statements(0.05):
            tx.execute_later("select pg_sleep(60)")
            pytest.fail("it was left")


def test_in_a_transaction_of_the_application_nothing_waits(each_store: SqlStore) -> None:
    with each_store.engine.begin() as connection, each_store.join(connection) as tx:
        tx.execute_later(INSERT, {"id": 1})
        assert connection.execute(SELECT).scalars().all() == [1]
    assert placed(each_store) == [1]


def test_other_databases_get_it_at_once(store: SqlStore, empty_postgres_url: str) -> None:
    engine = create_engine(empty_postgres_url)
    with engine.begin() as connection:
        connection.execute(text("create table placed (id int primary key)"))
    engine.dispose()
    own = store.url.render_as_string(hide_password=False)
    mercury = Mercury(own, settings=settings(), resources={"app": empty_postgres_url})
    with closing(SimpleNamespace(close=mercury.stop)), mercury.transaction() as tx:
        tx.execute_later(INSERT, {"id": 1}, resource="app")
        tx.execute_later(INSERT, {"id": 2})
        with pytest.raises(CapabilityError, match="elsewhere"):
            tx.execute_later(INSERT, {"id": 3}, resource="elsewhere")
        assert tx.connection("app").execute(SELECT).scalars().all() == [1]
    assert placed(store) == [2]


def test_a_store_in_memory_has_no_database() -> None:
    with MemoryStore().transaction() as tx, pytest.raises(CapabilityError):
        tx.execute_later(INSERT, {"id": 1})


def test_statements_that_differ_each_time_do_not_crowd_out_mercurys(store: SqlStore) -> None:
    with store.transaction() as tx:
        for number in range(2 * MOST_OF_APPLICATION):
            tx.execute_later(f"insert into placed values ({number})")
        tx.rms.append(row("urn:message:1"))
        connection = tx._begun()
        session = session_of(connection)
        assert session is not None
        tx.send_pending()
        names = connection.exec_driver_sql("select statement from pg_prepared_statements").scalars().all()
    assert sum("into placed" in name for name in names) == MOST_OF_APPLICATION
    assert placed(store) == list(range(2 * MOST_OF_APPLICATION))
