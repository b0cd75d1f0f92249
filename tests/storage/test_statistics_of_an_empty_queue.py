"""PostgreSQL analyses the tables while the queue is empty, and then many messages come at once.

A queue is empty most of the time, so that is what the statistics say: no rows. By them reading a whole table, or a
whole index, costs nothing, and the plan is kept until the next analysis, a minute later. The tests count the rows that
are read.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, suppress
from itertools import count

import pytest
from sqlalchemy import Connection, Text, text

from mercury.storage.api import Transaction
from mercury.storage.memory import MemoryStore
from mercury.storage.sql.prepared import Prepared, search
from mercury.storage.sql.store import SqlStore
from mercury.storage.sql.transaction import SqlTransaction
from mercury.testing.contract.builders import made_from, rmd_record, rms_record

from .pair import Pair, Side, channel

NOW = 1_800_000_000.0
#: Executions after which PostgreSQL has kept its plans.
REPEATED = 8
#: Messages that come at once; rows of a table that may be read for each of them.
MANY, FEW = 1600, 4
#: So many are in flight: the others wait, and are not to be read in each transaction.
WINDOW = 40
#: Sequences that are there.
SEQUENCES = 600
#: A store has no more of them here.
CONNECTIONS = 3
ROWS = """
    select relname, seq_tup_read + coalesce(idx_tup_fetch, 0) as read from pg_stat_user_tables
    where starts_with(relname, 'mercury_')
"""
SETTING = "select current_setting('enable_seqscan')"
INSERT = text("insert into placed values (:id)")


def look_at(tx: Transaction) -> str:
    """How the application's statements are planned in a transaction: "on" = as usual."""
    found: str = tx.connection().exec_driver_sql(SETTING).scalar_one()
    return found


class Undone(Exception):
    """A transaction of the test is rolled back."""


def execute(store: SqlStore, statement: str) -> None:
    with store.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql(statement)


def rows_read(store: SqlStore) -> dict[str, int]:
    """How many rows of each table were read, by all connections of a store."""
    with store.transaction() as tx:
        tx.connection()  # what is kept from transaction to transaction goes to the pool
    with ExitStack() as stack:  # the connection that was used last is returned last, and taken first again
        connections = [stack.enter_context(store.engine.connect()) for _ in range(CONNECTIONS)]
        for connection in connections:
            connection.exec_driver_sql("select pg_stat_force_next_flush()")
            connection.commit()
        return {row.relname: row.read for row in connections[-1].exec_driver_sql(ROWS)}


def send(pair: Pair, number: int, keys: int = 1) -> None:
    """Hand over so many messages, as many under each of so many keys."""
    for key in range(keys):
        for first in range(0, number // keys, 100):
            numbers = range(first, min(first + 100, number // keys))
            pair.send([f"{each}" for each in numbers], key=f"till {key}", window=WINDOW)


def plan_for_an_empty_queue(pair: Pair, store: SqlStore, statement: str, *, by: int, keys: int) -> None:
    """Let PostgreSQL have its statistics while the queue is empty, and keep the plans that it makes then.

    :param by: messages at a time.
    """
    for table in rows_read(store):  # these are the only statistics, however long this takes
        execute(store, f"alter table {table} set (autovacuum_enabled = off)")
    for _ in range(REPEATED):
        send(pair, by, keys)
        pair.run(NOW)
    execute(store, statement)
    for _ in range(REPEATED):
        send(pair, by, keys)
        pair.run(NOW)


def moved_behind_an_analysis(pair: Pair, store: SqlStore, statement: str, *, by: int, keys: int = 1) -> dict[str, int]:
    """Let many messages come at once, and check that few rows are read for each; how many of each table were read."""
    plan_for_an_empty_queue(pair, store, statement, by=by, keys=keys)
    send(pair, MANY, keys)
    before = rows_read(store)
    pair.run(NOW)
    assert len(pair.server.handled) == 2 * REPEATED * by + MANY
    read = {name: number - before[name] for name, number in rows_read(store).items()}
    assert {name: number for name, number in read.items() if number > FEW * MANY} == {}
    return read


@pytest.mark.parametrize("statement", ["analyze", "vacuum analyze"])
@pytest.mark.parametrize("by", [1, 20, 150])
def test_a_source_searches_its_rows_by_indexes(placing_store: SqlStore, statement: str, by: int) -> None:
    pair = Pair(placing_store, MemoryStore())
    read = moved_behind_an_analysis(pair, placing_store, statement, by=by)
    assert read["mercury_rms_body"] >= MANY, read


@pytest.mark.parametrize("statement", ["analyze", "vacuum analyze"])
def test_a_source_that_works_on_several_keys_together_searches_too(placing_store: SqlStore, statement: str) -> None:
    moved_behind_an_analysis(Pair(placing_store, MemoryStore()), placing_store, statement, by=8, keys=8)


@pytest.mark.parametrize("statement", ["analyze", "vacuum analyze"])
@pytest.mark.parametrize("by", [1, 20])
def test_a_destination_searches_its_rows_by_indexes(placing_store: SqlStore, statement: str, by: int) -> None:
    pair, numbers = Pair(MemoryStore(), placing_store), count()
    pair.server = Side(
        placing_store,
        on_put=lambda context, _: context.transaction.connection().execute(INSERT, {"id": next(numbers)}),
    )
    moved_behind_an_analysis(pair, placing_store, statement, by=by)


#: What a creation reads of sequences that may be there, and what messages of several sequences lock.
READS_OF_SEVERAL: dict[str, tuple[str, Callable[[Transaction, range], object]]] = {
    "made by a CreateSequence": ("rmd_sequence", lambda tx, n: tx.rmd.find_created(*(made_from(f"m{i}") for i in n))),
    "locked": ("rmd_sequence", lambda tx, n: tx.rmd.lock([f"urn:{i}" for i in n], [], ["urn:0"])),
    "read": ("rmd_sequence", lambda tx, n: tx.rmd.read_many([f"urn:{i}" for i in n])),
    "offered": ("rms_sequence", lambda tx, n: tx.rms.keys_by_identifier([f"urn:offered:{i}" for i in n])),
    "of new keys": (
        "rms_sequence",
        lambda tx, n: tx.rms.insert(*(rms_record(f"new {i}", channel(f"new {i}")) for i in n)),
    ),
}


@pytest.mark.parametrize(
    ("what", "delivers"),
    [*((each, False) for each in READS_OF_SEVERAL), ("offered", True), ("of new keys", True)],
    ids=lambda value: ("alone", "behind handlers")[value] if isinstance(value, bool) else value,
)
def test_creations_of_sequences_read_none_but_their_own(placing_store: SqlStore, what: str, delivers: bool) -> None:
    """The plans are kept from when there were few sequences: each creation would cost more, the more there are."""
    table, read = READS_OF_SEVERAL[what]
    store, turns = placing_store, count(0, 2)

    def once() -> None:
        first = next(turns)
        with suppress(Undone), store.transaction() as tx:
            if delivers:
                tx.rmd.lock(["urn:1"], [], ["urn:1"])
            read(tx, range(first, first + 2))
            if delivers:  # a handler may be called again
                assert tx.connection().exec_driver_sql(SETTING).scalar_one() == "on"
            raise Undone

    rows_read(store)
    for _ in range(REPEATED):
        once()
    with store.transaction() as tx:
        for number in range(SEQUENCES):
            made = rmd_record(f"urn:{number}", create_message_id=f"m{number}")
            tx.rmd.insert(made)
            tx.rms.insert(rms_record(f"r{number}", channel(f"{number}"), identifier=f"urn:offered:{number}"))
    before = rows_read(store)[f"mercury_{table}"]
    once()
    assert rows_read(store)[f"mercury_{table}"] - before <= FEW


def test_a_change_with_a_result_searches_too(placing_store: SqlStore) -> None:
    with placing_store.transaction() as tx:
        assert isinstance(tx, SqlTransaction)
        (found,) = tx.read_changing(Prepared(text(SETTING).columns(setting=Text())), {})
    assert found["setting"] == "off"


def test_lock_of_one_sequence_before_handlers_is_planned_as_ever(placing_store: SqlStore) -> None:
    """For a lone message, two statements more would cost as much as a plan that was kept for too long."""
    needed: list[int] = []
    for names in (["urn:1"], ["urn:1", "urn:2"]):
        with placing_store.transaction() as tx:
            assert isinstance(tx, SqlTransaction)
            tx.rmd.lock(names, [], ["urn:1"])
            needed.append(tx.statements)
    assert needed[1] - needed[0] == 2


def test_a_change_behind_handlers_is_planned_as_ever(placing_store: SqlStore) -> None:
    with placing_store.transaction() as tx:
        assert isinstance(tx, SqlTransaction)
        tx.rmd.lock(["urn:1"], [], ["urn:1"])
        (found,) = tx.read_changing(Prepared(text(SETTING).columns(setting=Text())), {})
    assert found["setting"] == "on"


def test_queries_for_what_is_due_are_not_compiled(placing_store: SqlStore) -> None:
    """Before PostgreSQL 18 the planner counts a whole table that has to be read as so dear that the query is compiled,
    which takes longer than anything that it does."""
    both = f"{SETTING}, current_setting('jit')"
    with placing_store.reading() as connection:
        (before,) = connection.exec_driver_sql(both).all()
        assert search(connection, both, {}) == [("off", "off")]
        (after,) = connection.exec_driver_sql(both).all()
    assert after == before


def test_the_statements_of_the_application_are_planned_as_ever(placing_store: SqlStore) -> None:
    """Even in a transaction in which Mercury has had its own plans before."""
    found: list[str] = []

    def look(connection: Connection) -> None:
        found.append(connection.exec_driver_sql(SETTING).scalar_one())

    pair = Pair(MemoryStore(), placing_store)
    for on_arrival in (True, False):
        pair.server = Side(
            placing_store,
            on_put=lambda context, _: look(context.transaction.connection()),
            on_arrival=on_arrival,
        )
        pair.send(["1"], key=f"{on_arrival}")
        pair.run(NOW)
    with placing_store.transaction() as tx:
        tx.rms.lock([channel().key], records=True)
        look(tx.connection())
    assert found == ["on", "on", "on"]


@pytest.mark.parametrize("later", [False, True], ids=["at once", "later"])
def test_the_statements_behind_a_handler_that_fails_are_planned_as_ever(placing_store: SqlStore, later: bool) -> None:
    """The rollback to its savepoint undoes the end of Mercury's own plans, too."""
    with placing_store.transaction() as tx:
        tx.rms.lock([channel().key], records=True)
        tx.rmd.insert(rmd_record("urn:1"))
        with suppress(Undone), tx.savepoint():
            if later:
                tx.execute_later("insert into placed values (2)")
            else:
                look_at(tx)
            raise Undone
        assert look_at(tx) == "on"


def test_mercury_searches_again_behind_a_failed_handler_with_which_all_was_rolled_back(
    placing_store: SqlStore,
) -> None:
    with placing_store.transaction() as tx:
        tx.rms.keys_by_identifier(["urn:1", "urn:2"])
        with suppress(Undone), tx.savepoint():
            look_at(tx)
            raise Undone
        tx.rms.keys_by_identifier(["urn:3", "urn:4"])
        assert isinstance(tx, SqlTransaction)
        assert tx._connected().exec_driver_sql(SETTING).scalar_one() == "off"


def test_several_sequences_are_read_without_a_setting_to_end_before_handlers(placing_store: SqlStore) -> None:
    with placing_store.transaction() as tx:
        tx.rmd.read_many(["urn:1", "urn:2"])
        assert isinstance(tx, SqlTransaction)
        assert tx._connected().exec_driver_sql(SETTING).scalar_one() == "on"


def test_a_statement_that_waits_is_planned_as_ever(placing_store: SqlStore) -> None:
    with placing_store.transaction() as tx:
        tx.rms.lock([channel().key], records=True)
        tx.execute_later("insert into placed select 1 where current_setting('enable_seqscan') = 'on'")
    with placing_store.engine.connect() as connection:
        assert connection.exec_driver_sql("select id from placed").scalars().all() == [1]
