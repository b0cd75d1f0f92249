"""A row by which a buffer learns of the end of its sequence is altered in the store: the sequence ends all the same.

Those that follow it do not wait.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import delete, select, update

from mercury.statemachine.messages import IncompleteSequenceBehavior
from mercury.statemachine.policy import DestinationPolicy
from mercury.storage.memory import MemoryStore
from mercury.storage.opening import open_sql_store
from mercury.storage.records import InboundKind
from mercury.storage.sql.schema import INVOKER_MESSAGE
from mercury.storage.sql.store import SqlStore

from .altering import flipped
from .pair import Pair, Side

NOW = 1_800_000_000.0
#: Longer than the interval between two searches for damaged rows.
LATER = 61.0


@pytest.fixture
def store(sql_url: str) -> Iterator[SqlStore]:
    opened = open_sql_store(sql_url)
    yield opened
    opened.close()


def alter(store: SqlStore, kind: InboundKind, column: str, altered: str | int) -> None:
    """Alter the only row of this kind. It is removed as by a process that found it without its sequence, while another
    process had the claim to that."""
    table = INVOKER_MESSAGE
    with store.engine.begin() as connection:
        query = select(table.c.position, table.c[column]).where(table.c.kind == kind.value)
        ((position, value),) = connection.execute(query).all()
        if altered == "removed":
            connection.execute(delete(table).where(table.c.position == position))
            return
        value = flipped(value) if altered == "flipped" else altered
        connection.execute(update(table).where(table.c.position == position).values({column: value}))


def only_arrive(pair: Pair, *numbers: int) -> None:
    """Let what the client has to post arrive, at most with these messages; its answers too. Nothing is handled."""
    posts = [post for post in pair.client.turn(NOW)[1] if post.number is None or post.number in numbers]
    while posts:
        posts = pair.client.receive(pair.carry(posts, NOW), NOW)


@pytest.mark.parametrize(
    ("column", "altered"),
    [
        ("checksum", "flipped"),
        ("kind", "flipped"),
        ("kind", "message"),
        ("sequence", "flipped"),
        ("number", 1),
        ("number", -5),
        ("number", 9000),
        ("sequence", "removed"),
    ],
)
@pytest.mark.parametrize("kind", [InboundKind.END, InboundKind.CUT])
def test_an_end_that_was_altered_ends_its_sequence_and_holds_up_no_other(
    store: SqlStore, kind: InboundKind, column: str, altered: str | int
) -> None:
    pair = Pair(MemoryStore(), store)
    policy = DestinationPolicy(incomplete_behavior=IncompleteSequenceBehavior.NO_DISCARD)
    pair.server = Side(store, policy=policy)
    pair.send(["of another"], key="another")  # its sequence stays open, and is searched too
    pair.send(["1"])
    pair.run(NOW)
    pair.send(["2", "3", "4"])
    arrived = ["2", "4"] if kind is InboundKind.CUT else ["2", "3", "4"]
    only_arrive(pair, *map(int, arrived))
    pair.server.turn(NOW)
    pair.end(abandon=kind is InboundKind.CUT)
    only_arrive(pair)
    alter(store, kind, column, altered)
    pair.send(["5", "6"], end=True)  # in the sequence that follows
    for turn in range(1, 4):
        pair.run(NOW + turn * LATER)
    expected = ["1", *arrived, "5", "6"]
    assert [text for text in pair.server.handled if "other" not in text] == [
        f"<order>{text}</order>" for text in expected
    ]
    with store.transaction() as tx:
        assert tx.dead_letters.all() == []
        assert [buffer.machine.finished for buffer in tx.invoker.all()].count(False) == 1
        assert tx.invoker.damaged("") == []
