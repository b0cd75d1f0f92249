"""The statements and posts of batches do not grow with their messages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from mercury.storage.memory import MemoryStore
from mercury.storage.opening import open_sql_store
from mercury.storage.sql.store import SqlStore

from .pair import Pair
from .test_statements import BOUND, NOW, Statements


@pytest.fixture
def store(sql_url: str) -> Iterator[SqlStore]:
    opened = open_sql_store(sql_url)
    yield opened
    opened.close()


def batch_of(store: SqlStore, number: int, *, at_server: bool) -> Counter[str]:
    """The cost of ``number`` messages that leave in one exchange, at one end."""
    pair = Pair(MemoryStore(), store) if at_server else Pair(store, MemoryStore())
    statements, key = Statements(store), f"till {number}"
    pair.send(["first"], key=key, batch=50)
    pair.run(NOW)
    pair.send([str(each) for each in range(number)], key=key, batch=50)
    with statements.during("number and transmit"):
        _, posts = pair.client.turn(NOW)
    assert [(post.number, post.last) for post in posts] == [(2, number + 1)], "one post for all"
    with statements.during("receive"):
        replies = pair.carry(posts, NOW)
    assert len(replies) == 1
    with statements.during("acknowledge"):
        pair.client.receive(replies, NOW)
    pair.run(NOW)
    assert len(pair.server.handled) == 1 + number
    return statements.counts


@pytest.mark.parametrize("at_server", [True, False], ids=["destination", "source"])
def test_fifty_messages_of_a_batch_take_the_statements_of_five(store: SqlStore, at_server: bool) -> None:
    five, fifty = batch_of(store, 5, at_server=at_server), batch_of(store, 50, at_server=at_server)
    assert five == fifty
    assert max(fifty.values()) <= BOUND, fifty
    assert max(fifty.values()) >= 1, fifty
