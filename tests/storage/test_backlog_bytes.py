"""The limit in bytes on messages that wait for the application, with every store: its effect, and its cost."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import update

from mercury.engine.settings import EngineSettings
from mercury.statemachine.policy import DestinationPolicy
from mercury.storage.api import StorageManager
from mercury.storage.memory import MemoryStore
from mercury.storage.opening import open_sql_store, open_store
from mercury.storage.sql.schema import INVOKER_MESSAGE
from mercury.storage.sql.store import SqlStore

from .pair import Pair, Side
from .test_statements import NOW, Statements

KILO = 1024
#: Of the texts that are sent: what is around each, in kilobytes, is less than one.
LARGE = 9 * KILO


@pytest.fixture
def any_store(any_url: str) -> Iterator[StorageManager]:
    opened = open_store(any_url)
    yield opened
    opened.close()


@pytest.fixture
def sql_store(sql_url: str) -> Iterator[SqlStore]:
    opened = open_sql_store(sql_url)
    yield opened
    opened.close()


def server(store: StorageManager, most: int, **settings: int) -> Pair:
    """A server with a limit of the bytes of one sequence's messages."""
    pair = Pair(MemoryStore(), MemoryStore())
    policy = DestinationPolicy(max_backlog_bytes=most)
    pair.server = Side(store, policy=policy, settings=EngineSettings(**settings))
    pair.send(["0 first"])
    pair.run(NOW)  # its sequence is made
    return pair


def rows(store: StorageManager) -> list[int]:
    """The bytes of each body that waits."""
    with store.transaction() as tx:
        buffers = {record.sequence: tx.invoker.numbers(record.sequence) for record in tx.invoker.all()}
        bodies = [tx.invoker.messages(name, list(numbers.numbers())) for name, numbers in buffers.items()]
    return [len(row.payload) for messages in bodies for row in messages.values()]


def waiting(store: StorageManager) -> int:
    with store.transaction() as tx:
        return tx.rmd.waiting_bytes("")[1]


def test_behind_a_gap_no_more_than_the_limit_is_stored_and_everything_is_delivered_in_order(
    any_store: StorageManager,
) -> None:
    pair = server(any_store, 100 * KILO)
    pair.send([f"{number} ".ljust(LARGE, "x") for number in range(1, 31)])
    _, posts = pair.client.turn(NOW)
    assert len(posts) == 30
    pair.client.engine.receive(pair.carry(posts[1:], NOW), NOW)
    pair.server.turn(NOW)
    assert len(rows(any_store)) == 10
    assert sum(rows(any_store)) <= waiting(any_store) <= 100 * KILO
    for seconds in range(200):
        pair.run(NOW + seconds)
        assert waiting(any_store) <= 111 * KILO
    handled = [int(text.removeprefix("<order>").split()[0]) for text in pair.server.handled]
    assert handled == list(range(31))
    assert (waiting(any_store), rows(any_store)) == (0, [])


def test_other_sequences_are_read_once_and_only_when_much_waits_behind_this_one(sql_store: SqlStore) -> None:
    """A sequence's share is a kilobyte here: within it, and for the message that is next, nobody is asked."""
    pair = server(sql_store, 10**6, max_backlog_bytes_per_peer=10**6, max_sequences_per_peer=1000)
    statements = Statements(sql_store)
    pair.send([str(number) for number in range(1, 60)])
    _, posts = pair.client.turn(NOW)
    counts = []
    for these in (posts[:1], posts[1:2], posts[3:5], posts[5:58]):
        with statements.during("receive"):
            pair.carry(these, NOW)
        counts.append((statements.counts["receive"], statements.said("sum(")))
    one = counts[0][0]
    # The dead letters that peers have caused were summed a moment ago.
    assert counts == [(one, 0), (one, 0), (one + 2, 2), (one + 1, 1)]


@pytest.mark.parametrize("kilobytes", [0, 1, 50], ids=["none", "shorter", "longer"])
def test_altered_message_leaves_as_many_bytes_as_it_came_with(sql_store: SqlStore, kilobytes: int) -> None:
    pair = server(sql_store, 10**6)
    pair.send([f"{number} ".ljust(LARGE, "x") for number in range(1, 5)])
    _, posts = pair.client.turn(NOW)
    pair.carry(posts[1:3], NOW)
    payload = update(INVOKER_MESSAGE).where(INVOKER_MESSAGE.c.number == 3).values(payload=b"x" * kilobytes * KILO)
    with sql_store.engine.begin() as connection:
        assert connection.execute(payload).rowcount == 1
    pair.carry([posts[0], posts[3]], NOW)
    pair.server.turn(NOW)
    assert len(pair.server.handled) == 4, "the altered one is none of them"
    with sql_store.transaction() as tx:
        (record,), (buffer,) = tx.rmd.all(), tx.invoker.all()
    assert buffer.consumed_bytes == record.received_bytes > 4 * LARGE


def test_messages_of_many_sequences_above_their_share_have_dead_letters_summed_once(sql_store: SqlStore) -> None:
    pair, statements = server(sql_store, 100 * KILO, max_backlog_bytes_per_peer=5000 * KILO), Statements(sql_store)
    keys = [f"till {number}" for number in range(8)]
    for key in keys:
        pair.send(["first"], key=key)
    pair.run(NOW)
    for key in keys:
        pair.send(["x" * LARGE], key=key)
    _, posts = pair.client.turn(NOW)
    assert len(posts) == len(keys)
    with statements.during("receive"):
        pair.carry(posts, NOW + 2)
    whole = [each for each in statements.texts("sum(mercury_dead_letter.size)") if "sequence =" not in each]
    assert len(whole) == 2, "of the peer, and of all; not for each message"
    pair.send(["x" * LARGE], key=keys[0])
    _, posts = pair.client.turn(NOW)
    with statements.during("receive again"):
        pair.carry(posts, NOW + 2.5)
    assert statements.said("sum(mercury_dead_letter.size)") == 0, "within a second it is not asked again"
