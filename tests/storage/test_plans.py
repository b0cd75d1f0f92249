"""PostgreSQL keeps the plans of the statements that each message needs, and does not make one for each message.

It goes on making a plan at each execution of a statement with an array of one element, because it expects several.
Making such a plan takes longer than the work.
"""

from __future__ import annotations

from sqlalchemy import text

from mercury.storage.memory import MemoryStore
from mercury.storage.sql.claim_guard import LOST
from mercury.storage.sql.store import SqlStore

from .pair import Pair, Side

NOW = 1_800_000_000.0
INSERT = text("insert into placed values (:id)")
#: Executions; PostgreSQL makes five plans before it compares them with one that it can keep.
MESSAGES, AT_LEAST = 20, 5
#: Of each statement that this session has prepared, how often it was planned.
PLANNED = "select statement, custom_plans from pg_prepared_statements where generic_plans + custom_plans > 10"


def planned(store: SqlStore) -> dict[str, int]:
    """How often each statement was planned, of those that were executed for most messages, on the only connection."""
    with store.kept.take() as connection:
        found = connection.exec_driver_sql(PLANNED).all()
    return {row.statement: row.custom_plans for row in found}


def kept(found: dict[str, int]) -> bool:
    return all(custom <= AT_LEAST for custom in found.values())


def test_a_source_of_lone_messages(placing_store: SqlStore) -> None:
    pair = Pair(placing_store, MemoryStore())
    source = pair.client.engine.source
    for number in range(MESSAGES):
        pair.send([f"{number}"])
        step = source.run_once(NOW)
        pair.client.receive(pair.carry(step.posts, NOW), NOW)
    found = planned(placing_store)
    assert any("FOR UPDATE" in statement for statement in found)
    assert any("LEFT OUTER JOIN" in statement for statement in found)
    assert any(LOST in statement for statement in found)
    assert kept(found), found


def test_a_destination_that_delivers_on_arrival(placing_store: SqlStore) -> None:
    pair, numbers = Pair(MemoryStore(), placing_store), iter(range(100))
    pair.server = Side(
        placing_store,
        on_put=lambda context, _: context.transaction.connection().execute(INSERT, {"id": next(numbers)}),
        on_arrival=True,
    )
    for number in range(MESSAGES):
        pair.send([f"{number}"])
        pair.run(NOW)
    found = planned(placing_store)
    assert any("mercury_invoker_buffer" in statement and "FOR UPDATE" in statement for statement in found)
    assert any(LOST in statement for statement in found)
    assert kept(found), found
