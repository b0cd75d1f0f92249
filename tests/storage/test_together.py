"""Changes that are sent with the next statement: no query sees that they waited, and none is lost."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mercury.storage.opening import open_sql_store
from mercury.storage.sql.schema import INVOKER_MESSAGE
from mercury.storage.sql.store import SqlStore
from mercury.storage.sql.together import Change, together
from mercury.testing.contract.builders import KEY, buffer, inbound, rmd_record, rms_record, row

from .test_statements import Statements


class Mistake(Exception):
    """Of the application."""


@pytest.fixture
def store(sql_url: str) -> Iterator[SqlStore]:
    opened = open_sql_store(sql_url)
    with opened.transaction() as tx:
        tx.rmd.insert(rmd_record())
        tx.invoker.insert(buffer())
    yield opened
    opened.close()


def waiting(store: SqlStore) -> list[int]:
    """The messages in the buffer."""
    with store.transaction() as tx:
        return list(tx.invoker.numbers("urn:rmd:1").numbers())


def test_a_query_of_the_same_transaction_sees_a_change_that_waited(store: SqlStore) -> None:
    with store.transaction() as tx:
        tx.invoker.add([inbound(1), inbound(2)])
        assert list(tx.invoker.numbers("urn:rmd:1").numbers()) == [1, 2]


def test_changes_of_two_tables_are_one_statement_where_queries_may_have_changes(store: SqlStore) -> None:
    statements = Statements(store)
    with store.transaction() as tx:
        record = tx.rmd.lock(["urn:rmd:1"])["urn:rmd:1"]
        with statements.during("change"):
            tx.invoker.add([inbound(1)])
            record.received_bytes = 17
            tx.rmd.save(record)
            tx.prepare_commit()
    assert statements.counts["change"] == (1 if store.dialect.changes_in_queries else 2)
    assert waiting(store) == [1]
    with store.transaction() as tx:
        found = tx.rmd.read("urn:rmd:1")
        assert found is not None
        assert found.received_bytes == 17


def test_a_change_finds_the_row_that_a_change_of_the_same_table_before_it_has_made(store: SqlStore) -> None:
    message = inbound(1)
    with store.transaction() as tx:
        tx.invoker.add([message])
        tx.update(INVOKER_MESSAGE, "message_id", [{"message_id": message.message_id, "number": 7}])
    assert waiting(store) == [7]


def test_a_row_that_goes_to_another_sequence_in_the_transaction_that_has_numbered_it_is_in_that_one_only(
    store: SqlStore,
) -> None:
    """The rows of each sequence that wait to be written are looked up by the sequence."""
    with store.transaction() as tx:
        tx.rms.append(row("a"))
    with store.transaction() as tx:
        tx.rms.lock([KEY])
        first, second = rms_record(), rms_record("second")
        (waiting_row,) = tx.rms.unnumbered(KEY, 10)
        for record in (first, second):
            record.machine.last_number = 1
            waiting_row.sequence_id, waiting_row.number = record.id, 1
            tx.rms.number(record, [waiting_row])
        assert tx.rms.unsettled(first, 10) == []
        assert [each.message_id for each in tx.rms.unsettled(second, 10)] == ["a"]


def test_a_row_that_is_numbered_and_settled_in_one_transaction_is_deleted(store: SqlStore) -> None:
    """The deletion finds the row by its number, which the change before it writes."""
    with store.transaction() as tx:
        tx.rms.append(row("a"))
    with store.transaction() as tx:
        tx.rms.lock([KEY])
        record = rms_record()
        tx.rms.insert(record)
        (message,) = tx.rms.unnumbered(KEY, 10)
        message.sequence_id, message.number = record.id, 1
        tx.rms.number(record, [message])
        tx.rms.acknowledge(record, ((1, 1),))
        tx.rms.release(record, ((1, 1),))
    with store.transaction() as tx:
        assert tx.rms.backlog(KEY) == 0


def test_a_change_that_waited_is_undone_with_its_savepoint(store: SqlStore) -> None:
    with store.transaction() as tx:
        tx.invoker.add([inbound(1)])
        with pytest.raises(Mistake), tx.savepoint():
            tx.invoker.add([inbound(2)])
            raise Mistake
        with tx.savepoint():
            tx.invoker.add([inbound(3)])
    assert waiting(store) == [1, 3]


def test_a_change_that_waited_when_a_transaction_began_anew_is_not_made(store: SqlStore) -> None:
    with store.transaction() as tx:
        with pytest.raises(Mistake), tx.savepoint():  # nothing is written before it, so it has no savepoint
            tx.invoker.add([inbound(1)])
            raise Mistake
        tx.invoker.add([inbound(2)])
    assert waiting(store) == [2]


def test_a_change_in_a_transaction_that_the_application_commits_does_not_wait(store: SqlStore) -> None:
    with store.engine.connect() as connection, connection.begin(), store.join(connection) as tx:
        tx.invoker.add([inbound(1)])
    assert waiting(store) == [1]


def test_a_statement_keeps_its_parameters_beside_those_of_the_changes_before_it() -> None:
    changes = [
        Change(("a",), ("update a set x = %(x)s",), {"x": 1}),
        Change(("b",), ("delete from b where x = %(x)b",), {"x": 2}),
    ]
    query = Change((), ("WITH c AS (select 1) select * from c where x = %(x)s",), {"x": 3})
    text, parameters = together(changes, query)
    assert text == (
        "with part_0 as (update a set x = %(change_0_x)s), part_1 as (delete from b where x = %(change_1_x)b), "
        "c AS (select 1) select * from c where x = %(x)s"
    )
    assert parameters == {"x": 3, "change_0_x": 1, "change_1_x": 2}
