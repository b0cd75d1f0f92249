"""Buffers of many sequences are delivered from in one transaction: what one of them costs or suffers does not concern
the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import pytest

from mercury.engine.application import MessageContext
from mercury.engine.context import EngineContext
from mercury.engine.delivery import several
from mercury.engine.delivery.run import DeliveryRun
from mercury.engine.events import HandlerFailed
from mercury.engine.exchange import Outgoing
from mercury.statemachine.messages import IncompleteSequenceBehavior
from mercury.statemachine.policy import AcknowledgeAt, DeliveryAssurance, DestinationPolicy
from mercury.storage.api import Transaction
from mercury.storage.memory import MemoryStore
from mercury.storage.opening import open_sql_store
from mercury.storage.sql.store import SqlStore

from .pair import Pair, Side
from .test_statements import Statements

NOW = 1_800_000_000.0


@pytest.fixture
def store(sql_url: str) -> Iterator[SqlStore]:
    opened = open_sql_store(sql_url)
    yield opened
    opened.close()


def arrived(
    store: SqlStore, keys: Sequence[str], texts: int = 3, *, ask: bool = False, policy: DestinationPolicy | None = None
) -> tuple[Pair, list[Outgoing]]:
    """A server that has so many messages of each key, and has handled one before: it knows that its handler is quick.

    :param ask: requests, which are returned: they are not carried to the server yet.
    """
    pair = Pair(MemoryStore(), store)
    pair.server = Side(store, policy=policy or DestinationPolicy())
    pair.send(["first"], key="first")
    pair.run(NOW)
    for key in keys:
        pair.send([f"{key} {text}" for text in range(texts)], key=key, ask=ask)
    _, posts = pair.client.turn(NOW)
    while posts:
        messages = pair.client.receive(pair.carry(posts, NOW), NOW)
        if ask:
            return pair, messages
        posts = messages
    return pair, []


def names(count: int) -> list[str]:
    return [f"till {count} {number:02}" for number in range(count)]


def texts_of(keys: Sequence[str], texts: int = 3) -> list[str]:
    return [f"<order>{key} {text}</order>" for key in keys for text in range(texts)]


def delivering(store: SqlStore, count: int) -> Counter[str]:
    """The statements by which three messages of each of so many sequences are delivered."""
    pair, _ = arrived(store, names(count))
    statements = Statements(store)
    with statements.during("deliver"):
        pair.server.engine.invocation.run_once(NOW)
    assert sorted(pair.server.handled[1:]) == texts_of(names(count))
    assert statements.commits["deliver"] == 1
    return statements.counts


def test_twenty_sequences_are_delivered_by_the_statements_of_two(store: SqlStore) -> None:
    assert delivering(store, 2) == delivering(store, 20)


def test_a_message_that_fails_stops_its_own_sequence_only(store: SqlStore) -> None:
    pair, _ = arrived(store, names(4))
    failing = "<order>till 4 01 1</order>"
    failures: list[int] = []
    pair.server.observers.subscribe(lambda event: failures.append(event.attempt), HandlerFailed)

    def refuse(_context: MessageContext, text: str) -> None:
        if text == failing:
            raise ValueError("not this one")

    pair.server.on_put = refuse
    statements = Statements(store)
    with statements.during("deliver"):
        pair.server.engine.invocation.run_once(NOW)
    missing = {failing, "<order>till 4 01 2</order>"}
    assert set(texts_of(names(4))).difference(pair.server.handled) == missing
    assert (statements.commits["deliver"], failures) == (1, [1])
    pair.server.on_put = lambda _context, _text: None
    pair.run(NOW + 60)
    assert Counter(pair.server.handled) == Counter(["<order>first</order>", *texts_of(names(4))])


def test_a_buffer_that_cannot_be_saved_stops_no_other(store: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    pair, _ = arrived(store, names(4))
    handled = pair.server.handled
    passing = several.pass_messages
    tried: list[int] = []

    def failing(context: EngineContext, tx: Transaction, run: DeliveryRun, now: float) -> list[int]:
        tried.append(len(handled))
        if any(b"till 4 02" in message.payload for message in run.messages):
            raise ValueError("a value that nobody can store")
        return passing(context, tx, run, now)

    monkeypatch.setattr(several, "pass_messages", failing)
    pair.server.engine.invocation.run_once(NOW)
    assert tried, "they were tried together"
    assert Counter(handled) == Counter(["<order>first</order>", *texts_of(names(4))]), "and then each alone, once"


def test_a_sequence_that_another_process_has_taken_meanwhile_stops_no_other(store: SqlStore) -> None:
    pair, _ = arrived(store, names(3))
    context = pair.server.engine._context
    (taken, *_) = store.due_invoker(NOW, 10)
    mine = context.claims.take(f"invoker {taken}", NOW)
    assert mine is not None
    store.release(mine)
    assert store.claim(mine.resource, "another", NOW, 30.0) is not None
    with store.transaction() as tx:
        left = {message.payload.decode() for message in tx.invoker.messages(taken, [1, 2, 3]).values()}
    pair.server.engine.invocation.run_once(NOW)
    assert set(pair.server.handled[1:]) == set(texts_of(names(3))) - left


def test_requests_of_several_sequences_get_their_responses(store: SqlStore) -> None:
    pair, requests = arrived(store, names(4), ask=True)
    held = pair.hold(requests, NOW)
    assert len(held) == 12
    statements = Statements(store)
    with statements.during("answer"):
        pair.server.turn(NOW)
    assert statements.commits["answer"] == 1
    answers = [each.response.result(0) for each in held]
    assert all(answer is not None and b"till 4" in answer.body for answer in answers)


def test_delivery_is_acknowledged_for_each_sequence_where_it_acknowledges(store: SqlStore) -> None:
    policy = DestinationPolicy(acknowledge_at=AcknowledgeAt.DELIVERY)
    pair, _ = arrived(store, names(4), policy=policy)
    pair.server.engine.invocation.run_once(NOW)
    with store.transaction() as tx:
        consumed = [record.machine.consumed.count for record in tx.rmd.all() if record.machine.received.count == 3]
    assert consumed == [3] * 4


def test_under_at_most_once_the_begin_of_each_run_is_committed_first(store: SqlStore) -> None:
    behavior = IncompleteSequenceBehavior.DISCARD_FOLLOWING_FIRST_GAP  # so that no gap is skipped
    policy = DestinationPolicy(assurance=DeliveryAssurance.AT_MOST_ONCE, incomplete_behavior=behavior)
    pair, _ = arrived(store, names(3), policy=policy)
    begun: list[int] = []

    def handle(context: MessageContext, _text: str) -> None:
        with store.transaction() as tx:
            record = tx.invoker.read(context.sequence)
        assert record is not None
        begun.append(record.machine.in_progress.count)

    pair.server.on_put = handle
    pair.server.engine.invocation.run_once(NOW)
    assert begun == [3] * 9


def test_after_a_failure_each_buffer_has_its_own_transaction_for_some_turns(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair, _ = arrived(store, names(2))
    monkeypatch.setattr(several, "ALONE_TURNS", 2)
    worker = pair.server.engine.invocation._several

    def failing(*_: object) -> None:
        raise ValueError("no")

    with monkeypatch.context() as patch:
        patch.setattr(worker, "_save", failing)
        pair.server.engine.invocation.run_once(NOW)
    assert len(pair.server.handled) == 1 + 6
    assert [worker.begin(8) for _ in range(3)] == [0, 0, 8]
