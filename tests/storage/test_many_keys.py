"""Sequences of many keys share transactions: what one of them costs or suffers does not concern the others."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pytest

from mercury.engine.exchange import Purpose
from mercury.engine.source import worker
from mercury.engine.source.found_keys import FoundKeys
from mercury.engine.source.transmission import KeyWork
from mercury.storage.api import Transaction
from mercury.storage.claims import WorkFilter
from mercury.storage.memory import MemoryStore
from mercury.storage.opening import open_sql_store
from mercury.storage.records import SequenceKey
from mercury.storage.sql.store import SqlStore
from mercury.testing.clock import FakeClock

from .pair import Pair
from .test_statements import Statements

NOW = 1_800_000_000.0


@pytest.fixture
def store(sql_url: str) -> Iterator[SqlStore]:
    opened = open_sql_store(sql_url)
    yield opened
    opened.close()


def with_keys(pair: Pair, count: int, texts: int = 1) -> None:
    for key in range(count):
        pair.send([str(text) for text in range(texts)], key=f"till {count} {key}")


def creating(store: SqlStore, count: int) -> tuple[Counter[str], dict[str, int]]:
    """The cost of the first turn on so many keys, and how many statements of each kind it has."""
    pair, statements = Pair(store, MemoryStore()), Statements(store)
    with_keys(pair, count)
    with statements.during("create"):
        _, posts = pair.client.turn(NOW)
    assert [post.purpose for post in posts] == [Purpose.CREATE] * count
    assert statements.commits["create"] == 1
    kinds = ("insert into mercury_rms_key", "insert into mercury_rms_sequence", "update mercury_rms", "mercury_claim ")
    return statements.counts, {kind: statements.said(kind) for kind in kinds}


def test_twenty_sequences_are_numbered_and_claimed_in_the_transaction_of_two(store: SqlStore) -> None:
    (two, _), (twenty, kinds) = creating(store, 2), creating(store, 20)
    # SQLite has a query for the rows of each key, beside what all share.
    assert twenty["create"] - two["create"] <= (0 if store.engine.dialect.name == "postgresql" else 18)
    assert kinds["insert into mercury_rms_key"] == kinds["insert into mercury_rms_sequence"] == 1
    assert kinds["update mercury_rms"] <= 1, "the numbers of the rows; the sequences are inserted as they are at last"


def sending(store: SqlStore, count: int) -> int:
    """The statements by which the answers to so many CreateSequence are stored, and the first messages leave."""
    pair, statements = Pair(store, MemoryStore()), Statements(store)
    with_keys(pair, count, texts=3)
    _, creations = pair.client.turn(NOW)
    replies = pair.carry(creations, NOW)
    with statements.during("send"):
        posts = pair.client.receive(replies, NOW)
    assert sum(1 + (post.last or post.number or 0) - (post.number or 0) for post in posts) == 3 * count
    return statements.counts["send"]


def test_the_first_messages_of_twenty_sequences_leave_by_the_statements_of_twelve(store: SqlStore) -> None:
    twelve, twenty = sending(store, 12), sending(store, 20)
    if store.engine.dialect.name == "postgresql":
        assert twenty == twelve


def test_keys_that_were_worked_on_with_their_arrivals_are_not_worked_on_because_they_were_due_before(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "TURN", 2)
    pair = Pair(store, MemoryStore())
    with_keys(pair, 3)
    creations = [post for _ in range(2) for post in pair.client.turn(NOW)[1]]
    assert len(creations) == 3
    source, clock = pair.client.engine.source, FakeClock(0.0)

    def find(now: float, limit: int) -> list[SequenceKey]:
        clock.advance(0.1)  # what is found is used for a second
        return store.due_rms(now, limit, WorkFilter(pair.client.engine.owner))

    monkeypatch.setattr(source, "_found", FoundKeys(find, clock))
    later = NOW + 5
    repeated = source.run_once(later).posts
    assert len(repeated) == 2, "the third one waits for its turn"
    (third,) = [post for post in creations if post.key not in {each.key for each in repeated}]
    assert pair.client.receive(pair.carry([third], later), later)
    assert source.run_once(later).progress == 0, "its message has left already"


def test_an_identifier_that_two_responses_of_one_transaction_give_is_that_of_one_sequence(store: SqlStore) -> None:
    pair = Pair(store, MemoryStore())
    with_keys(pair, 3)
    replies = pair.carry(pair.client.turn(NOW)[1], NOW)
    identifiers = [re.findall(r"Response><wsrm:Identifier>([^<]+)<", each.http.body.decode())[0] for each in replies]
    twice = replies[1].http.body.replace(identifiers[1].encode(), identifiers[0].encode())
    replies[1] = replace(replies[1], http=replace(replies[1].http, body=twice), envelope=None)
    purposes = Counter(post.purpose for post in pair.client.receive(replies, NOW))
    assert purposes == {Purpose.MESSAGE: 2, Purpose.CREATE: 1}, "the other one asks for another sequence"
    with store.transaction() as tx:
        taken = [record.machine.identifier for record in tx.rms.all() if record.machine.identifier is not None]
    assert sorted(taken) == sorted([identifiers[0], identifiers[2]])


def settling(store: SqlStore, count: int) -> tuple[int, int]:
    """The statements by which so many sequences with three messages are acknowledged, and how many rows are left."""
    pair, statements = Pair(store, MemoryStore()), Statements(store)
    with_keys(pair, count, texts=3)
    _, creations = pair.client.turn(NOW)
    replies = pair.carry(creations, NOW)
    posts = pair.client.receive(replies, NOW)
    assert sum(1 + (post.last or post.number or 0) - (post.number or 0) for post in posts) == 3 * count
    acknowledgements = pair.carry(posts, NOW)
    with statements.during("settle"):
        pair.client.receive(acknowledgements, NOW)
    with store.transaction() as tx:
        return statements.counts["settle"], tx.rms.oldest_unacknowledged() is not None


def test_the_messages_of_twenty_sequences_are_settled_by_the_statements_of_twelve(store: SqlStore) -> None:
    (twelve, _), (twenty, left) = settling(store, 12), settling(store, 20)
    assert not left
    if store.engine.dialect.name == "postgresql":
        assert twenty == twelve


def accepting(store: SqlStore, count: int) -> int:
    """The statements by which so many sequences with offers are accepted."""
    pair, statements = Pair(MemoryStore(), store), Statements(store)
    with_keys(pair, count)
    _, posts = pair.client.turn(NOW)
    assert [post.purpose for post in posts] == [Purpose.CREATE] * count
    with statements.during("accept"):
        pair.carry(posts, NOW)
    return statements.counts["accept"]


def test_twenty_sequences_with_offers_are_accepted_by_the_statements_of_two(store: SqlStore) -> None:
    assert accepting(store, 2) == accepting(store, 20)


def test_a_key_that_fails_stops_no_other(store: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    work = KeyWork.do

    def failing(self: KeyWork, tx: Transaction) -> None:
        if self.key.name == "till 12 5":
            raise ValueError("a row that nobody can read")
        work(self, tx)

    monkeypatch.setattr(KeyWork, "do", failing)
    pair = Pair(store, MemoryStore())
    with_keys(pair, 12)
    created = [post for _ in range(3) for post in pair.client.turn(NOW)[1]]
    assert len({post.key for post in created if post.key is not None and post.key.name != "till 12 5"}) == 11


def test_a_key_that_another_process_has_taken_meanwhile_stops_no_other(store: SqlStore) -> None:
    pair = Pair(store, MemoryStore())
    with_keys(pair, 3)
    _, created = pair.client.turn(NOW)
    with_keys(pair, 3, texts=2)
    (taken, *_) = [post.key for post in created if post.key is not None]
    mine = pair.client.engine._context.claims.current(f"rms {taken.digest}", NOW)
    assert mine is not None
    store.release(mine)
    assert store.claim(mine.resource, "another", NOW, 30.0) is not None
    _, repeated = pair.client.turn(NOW + 5)
    assert {post.key for post in repeated} == {post.key for post in created} - {taken}


def test_a_transaction_ends_after_so_many_posts_and_the_next_turn_has_the_other_keys(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "MOST_POSTS", 3)
    pair = Pair(store, MemoryStore())
    with_keys(pair, 5)
    step = pair.client.engine.source.run_once(NOW)
    assert (len(step.posts), step.more) == (3, True)
    assert len(pair.client.engine.source.run_once(NOW).posts) == 2


def test_a_transaction_ends_after_so_many_bytes(store: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "MOST_BYTES", 1500)
    pair = Pair(store, MemoryStore())
    for key in range(5):
        pair.send(["x" * 1000], key=f"till {key}")
    assert len(pair.client.engine.source.run_once(NOW).posts) == 2
