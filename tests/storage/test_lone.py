"""What a message costs that is alone: few statements, and none once everything is done."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mercury.engine.exchange import Purpose, Step
from mercury.storage.api import Topic
from mercury.storage.memory import MemoryStore
from mercury.storage.opening import open_sql_store
from mercury.storage.sql.store import SqlStore

from .pair import Pair, Side
from .test_statements import Statements

NOW = 1_800_000_000.0
#: Later than the first retransmission.
SOON = NOW + 60


@pytest.fixture
def store(sql_url: str) -> Iterator[SqlStore]:
    opened = open_sql_store(sql_url)
    yield opened
    opened.close()


def test_a_message_is_numbered_marked_and_settled_by_few_statements_at_its_source(store: SqlStore) -> None:
    pair, statements = Pair(store, MemoryStore()), Statements(store)
    pair.send(["first"])
    pair.run(NOW)  # its sequence is made
    pair.send(["second"])
    with statements.during("number and transmit"):
        step = pair.client.engine.source.run_once(NOW)
    assert [post.purpose for post in step.posts] == [Purpose.MESSAGE]
    replies = pair.carry(step.posts, NOW)
    with statements.during("acknowledge"):
        pair.client.receive(replies, NOW)
    single = store.engine.dialect.name == "postgresql"
    assert statements.counts["number and transmit"] <= NUMBERED[single], statements.texts("")
    assert statements.counts["acknowledge"] <= ACKNOWLEDGED[single], statements.texts("")
    assert statements.commits == {"number and transmit": 1, "acknowledge": 1}


def test_a_source_whose_messages_are_acknowledged_has_nothing_to_do_at_the_time_of_their_retransmission(
    store: SqlStore,
) -> None:
    pair = Pair(store, MemoryStore())
    pair.send(["one"])
    pair.run(NOW)
    pair.send(["two"])
    step = pair.client.engine.source.run_once(NOW)
    assert step.drained
    planned = step.due()
    assert planned is not None
    assert NOW < planned < SOON
    pair.client.receive(pair.carry(step.posts, NOW), NOW)
    idle = NOW + 300  # then a sequence without messages ends
    assert step.due() is None, "the thread goes on resting"
    assert store.next_due(Topic.RMS) == idle
    assert store.due_rms(SOON, 10) == []


def test_a_message_whose_acknowledgement_is_lost_is_due_again(store: SqlStore) -> None:
    pair = Pair(store, MemoryStore())
    pair.send(["one"])
    pair.run(NOW)
    pair.send(["two", "three"])
    step = pair.client.engine.source.run_once(NOW)
    first, second = pair.carry(step.posts[:1], NOW), step.posts[1]
    pair.client.receive(first, NOW)
    planned = step.due()
    assert planned is not None
    assert planned < SOON
    again = pair.client.engine.source.run_once(SOON)
    assert [post.number for post in again.posts] == [second.number]


def received(store: SqlStore) -> tuple[Pair, Statements]:
    """A server that has received one message, and handled one before."""
    pair, statements = Pair(MemoryStore(), store), Statements(store)
    pair.send(["first"])
    pair.run(NOW)
    pair.send(["second"])
    _, posts = pair.client.turn(NOW)
    with statements.during("receive"):
        pair.carry(posts, NOW)
    return pair, statements


def test_a_message_is_received_and_handled_by_few_statements_at_its_destination(store: SqlStore) -> None:
    pair, statements = received(store)
    woken: list[Topic] = []
    store.listen(woken.extend)
    with statements.during("handle"):
        step = pair.server.engine.invocation.run_once(NOW)
    assert pair.server.handled == ["<order>first</order>", "<order>second</order>"]
    single = store.engine.dialect.name == "postgresql"
    assert statements.counts["receive"] <= RECEIVED[single], statements.texts("")
    assert statements.counts["handle"] <= HANDLED[single], statements.texts("")
    assert statements.said("mercury_dead_letter") == 0, "without a response, none can be too much"
    assert (step.drained, step.more) == (True, False), "the store need not be asked again"
    assert Topic.INVOKER not in woken, "there is nothing to go on with"
    assert store.next_due(Topic.INVOKER) is None


def test_a_run_that_cannot_take_all_messages_leaves_the_others_to_the_next_turn(store: SqlStore) -> None:
    pair = Pair(MemoryStore(), store)
    pair.send(["first"])
    pair.run_and_grow(NOW)
    pair.send([str(number) for number in range(60)])
    _, posts = pair.client.turn(NOW)
    pair.carry(posts, NOW)
    step = pair.server.engine.invocation.run_once(NOW)
    assert (step.drained, step.more) == (False, True)
    step = pair.server.engine.invocation.run_once(NOW)
    assert (step.drained, step.more) == (True, False)
    assert len(pair.server.handled) == 61


def test_after_a_handler_has_failed_the_store_is_asked_when_it_is_called_again(store: SqlStore) -> None:
    pair = Pair(MemoryStore(), store)
    pair.server = Side(store, on_put=lambda _context, _text: 1 / 0)
    pair.send(["one"])
    _, created = pair.client.turn(NOW)
    posts = pair.client.receive(pair.carry(created, NOW), NOW)
    pair.carry(posts, NOW)
    step: Step = pair.server.engine.invocation.run_once(NOW)
    assert (step.progress, step.drained) == (1, False)
    due = store.next_due(Topic.INVOKER)
    assert due is not None
    assert due > NOW


#: The most statements by whether the database is PostgreSQL, begin and commit not counted.
NUMBERED = {True: 5, False: 8}
ACKNOWLEDGED = {True: 3, False: 8}
RECEIVED = {True: 3, False: 5}
HANDLED = {True: 6, False: 8}
