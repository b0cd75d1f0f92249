"""The bytes of responses that one transaction has in memory, while many requests arrive or wait."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mercury.engine.exchange import Arrival
from mercury.engine.runtime.held_exchanges import HeldWorker
from mercury.storage.api import StorageManager
from mercury.storage.memory import MemoryStore
from mercury.storage.opening import open_sql_store
from mercury.wire.encode import encode
from mercury.wire.envelope import Payload

from .pair import URL, Pair

NOW = 1_800_000_000.0
#: Bytes of one response, and how many there are: one transaction reads four of them, one run stores three.
LARGE, MANY = 4_000_000, 6
READ, STORED = 4, 3


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StorageManager]:
    if request.param == "memory":
        yield MemoryStore()
        return
    sql = open_sql_store(f"sqlite:///{tmp_path}/large.db")
    yield sql
    sql.close()


@pytest.fixture
def pair(store: StorageManager) -> Pair:
    return Pair(MemoryStore(), store)


def asked(pair: Pair) -> list[Arrival]:
    """Small requests whose responses are large, as they arrive."""
    pair.send(["first"])
    pair.run(NOW)  # its sequence is made
    pair.server.response = lambda _: Payload(b"<order>%b</order>" % (b"x" * LARGE))
    pair.send(["x" for _ in range(MANY)], ask=True)
    _, posts = pair.client.turn(NOW)
    assert len(posts) == MANY
    return [Arrival(http=encode(post.envelope), service="shop", url=URL, peer="client") for post in posts]


def test_repetitions_of_many_requests_read_so_many_bytes_and_the_others_are_acknowledged_at_once(pair: Pair) -> None:
    arrivals = asked(pair)
    pair.server.engine.receive(arrivals, NOW)
    for _ in range(MANY):
        pair.server.turn(NOW)
    answers = pair.server.engine.receive(arrivals, NOW)
    assert [len(answer.http.body) > LARGE for answer in answers] == [True] * READ + [False] * (MANY - READ)
    assert all(not answer.waiting for answer in answers), "nothing is to be waited for: it is stored"
    again = pair.server.engine.receive(arrivals[READ:], NOW)
    assert all(len(answer.http.body) > LARGE for answer in again)


def test_run_ends_when_its_responses_have_so_many_bytes_and_the_next_one_goes_on(pair: Pair) -> None:
    pair.server.engine.receive(asked(pair), NOW)
    before = len(pair.server.handled)
    for upto in (STORED, MANY):
        pair.server.turn(NOW)
        assert len(pair.server.handled) - before == upto


def test_responses_that_another_process_has_stored_are_released_so_many_bytes_at_a_time(pair: Pair) -> None:
    arrivals = asked(pair)
    parking, engine = pair.server.held_exchanges, pair.server.engine
    engine.invocation.answer = lambda _: None  # it runs in another process
    with parking.storing():
        held = [
            parking.hold(*answer.waiting, stored=answer.stored)
            for answer in engine.receive(arrivals, NOW)
            if answer.waiting
        ]
    assert len(held) == MANY
    for _ in range(MANY):
        pair.server.turn(NOW)
    worker = HeldWorker(engine, parking)
    assert worker.run_once(NOW).progress, "it looks again at once"
    assert sum(each.response.done() for each in held) == READ
    assert not worker.run_once(NOW).progress
    assert all(each.response.done() for each in held)
