"""An acknowledgement and the messages that it makes room for are one transaction of their key."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mercury.engine.exchange import Arrival, Outgoing, Purpose
from mercury.engine.source.transmission import KeyWork, PairEnds
from mercury.storage.api import Topic
from mercury.storage.memory import MemoryStore
from mercury.storage.opening import open_sql_store
from mercury.storage.sql.store import SqlStore

from .pair import Pair
from .test_statements import Statements, acknowledging

NOW = 1_800_000_000.0
#: The most statements of one cycle: acknowledgements are stored, and the window is full again.
CYCLE = 15


@pytest.fixture
def store(sql_url: str) -> Iterator[SqlStore]:
    opened = open_sql_store(sql_url)
    yield opened
    opened.close()


def begun(store: SqlStore, window: int) -> tuple[Pair, list[Arrival]]:
    """A client whose window is full while more messages wait, and the acknowledgement of all in the window."""
    pair = Pair(store, MemoryStore())
    pair.send([str(each) for each in range(4 * window)], key=f"till {window}", window=window)
    _, created = pair.client.turn(NOW)
    posts = pair.client.receive(pair.carry(created, NOW), NOW)
    assert [post.number for post in posts] == list(range(1, window + 1))
    return pair, pair.carry(posts, NOW)


def numbers(posts: list[Outgoing]) -> list[int | None]:
    return [post.number for post in posts if post.purpose is Purpose.MESSAGE]


def cycle(store: SqlStore, window: int) -> int:
    """The statements of one cycle."""
    pair, replies = begun(store, window)
    statements = Statements(store)
    woken: list[Topic] = []
    store.listen(woken.extend)
    with statements.during("cycle"):
        posts = pair.client.receive(replies, NOW)
    assert numbers(posts) == list(range(window + 1, 2 * window + 1))
    assert statements.commits["cycle"] == 1
    assert woken == [], "nothing is left for the worker"
    assert store.due_rms(NOW, 10) == []
    pair.run(NOW)
    return statements.counts["cycle"]


def test_a_cycle_is_one_transaction_whatever_the_size_of_the_window(store: SqlStore) -> None:
    small, large = cycle(store, 8), cycle(store, 64)
    assert small == large <= CYCLE


def test_a_message_that_gets_its_number_and_leaves_is_one_change_of_its_row(store: SqlStore) -> None:
    """Also while others are in flight, so that the rows of the window have to be read."""
    pair, replies = begun(store, 16)
    statements = Statements(store)
    with statements.during("half of the window"):
        posts = pair.client.receive([acknowledging(replies[-1], range(1, 9))], NOW)
    assert numbers(posts) == list(range(17, 25))
    changes = [each for text in statements.texts("") for each in text.lower().split("update mercury_rms_message")[1:]]
    assert sum("attempts" in each for each in changes) == 1
    pair.carry(posts, NOW)
    pair.run(NOW)
    assert pair.server.handled[:24] == [f"<order>{each}</order>" for each in range(24)]


def test_a_sequence_that_is_created_sends_its_first_messages_in_the_transaction_of_the_answer(store: SqlStore) -> None:
    pair = Pair(store, MemoryStore())
    for key in range(5):
        pair.send(["one", "two"], key=f"till {key}")
    _, created = pair.client.turn(NOW)
    assert len(created) == 5
    statements = Statements(store)
    with statements.during("created"):
        posts = pair.client.receive(pair.carry(created, NOW), NOW)
    assert sorted(numbers(posts)) == [1, 1, 1, 1, 1, 2, 2, 2, 2, 2]  # type: ignore[type-var]
    assert statements.commits["created"] == 1


@pytest.mark.parametrize("window", [256, 300, 512])
def test_a_drain_goes_on_without_a_poll(store: SqlStore, window: int) -> None:
    """One transaction numbers 256 messages at most: the worker is woken while others wait and the window has room."""
    pair = Pair(store, MemoryStore())
    texts = [str(each) for each in range(4 * window)]
    pair.send(texts, window=window, batch=64)
    woken: list[Topic] = [Topic.RMS]
    store.listen(woken.extend)
    posts: list[Outgoing] = []
    while posts or Topic.RMS in woken:
        if Topic.RMS in woken:
            woken.clear()
            posts += pair.client.turn(NOW)[1]
        replies = pair.carry(posts[:1], NOW)  # each acknowledgement has a transaction of its own
        posts = posts[1:] + pair.client.receive(replies, NOW)
    while pair.server.turn(NOW)[0]:
        pass
    assert pair.server.handled == [f"<order>{each}</order>" for each in texts]


def test_a_claim_that_another_process_has_taken_costs_no_acknowledgement(store: SqlStore) -> None:
    pair, replies = begun(store, 8)
    (key,) = store.due_rms(NOW + 60, 10)
    with store.engine.begin() as connection:
        connection.exec_driver_sql("update mercury_claim set owner = 'another', epoch = epoch + 1")
    assert numbers(pair.client.receive(replies, NOW)) == []
    with store.transaction() as tx:
        tx.rms.lock([key])
        (record,) = tx.rms.records(key)
        assert record.machine.acknowledged.as_tuples() == ((1, 8),)
        assert record.machine.highest_sent == 8
    assert pair.client.turn(NOW)[1] == [], "the other process sends the next messages"


def test_work_that_fails_is_left_to_the_worker_and_the_acknowledgement_is_kept(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair, replies = begun(store, 8)

    def fail(_work: KeyWork, _tx: object) -> None:
        raise PairEnds

    with monkeypatch.context() as patched:
        patched.setattr(KeyWork, "do", fail)
        assert numbers(pair.client.receive(replies, NOW)) == []
    assert store.due_rms(NOW, 10) != []
    _, posts = pair.client.turn(NOW)
    assert numbers(posts) == list(range(9, 17))
