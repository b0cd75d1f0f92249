"""Several processes with one store: they share the work, and take over the work of a process that ends, once."""

from __future__ import annotations

import re
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import Connection, Engine, create_engine, text

from mercury.engine.ids import RandomIds
from mercury.storage.api import StorageManager
from mercury.storage.opening import open_store
from mercury.storage.records import Channel, OutboundMessage, SequenceKey
from mercury.testing.contract.builders import buffer, inbound
from mercury.wire.mapping import to_xml
from tests.acceptance.processes import Running, eventually

from .shop import Order, Shop
from .worker import GATE

NAMESPACE = "urn:mercury:app"
#: Seconds.
LEASE = 2.0

WAITING = "select count(*) from pg_locks where locktype = 'advisory' and not granted"


class Place:
    """A store with orders that wait, and the table that their handler writes into."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.engine: Engine = create_engine(url)
        self.store: StorageManager = open_store(url)
        with self.engine.begin() as connection:
            connection.execute(text("create table taken (at serial, sequence text, id int, pid int)"))

    def put(self, sequence: str, *orders: int) -> None:
        """Orders that arrived on a sequence and were not handled yet."""
        with self.store.transaction() as tx:
            tx.invoker.insert(buffer(sequence, service="shop"))
            for number, order in enumerate(orders, start=1):
                xml = to_xml(Order(order), NAMESPACE)
                tx.invoker.add([inbound(number, sequence, action=f"{NAMESPACE}/Order", payload=xml)])

    def taken(self) -> dict[str, list[int]]:
        """The orders that were handled, in their order, by sequence."""
        found: dict[str, list[int]] = {}
        with self.engine.connect() as connection:
            for sequence, order in connection.execute(text("select sequence, id from taken order by at")):
                found.setdefault(sequence, []).append(order)
        return found

    def by(self) -> Counter[int]:
        """How many orders each process has handled."""
        with self.engine.connect() as connection:
            return Counter(connection.scalars(text("select pid from taken")).all())

    def ask(self, question: str) -> int:
        with self.engine.connect() as connection:
            return int(connection.execute(text(question)).scalar_one())

    @contextmanager
    def gate(self) -> Iterator[Connection]:
        """The handlers of orders wait until the end of the block."""
        with self.engine.begin() as connection:
            connection.execute(text(f"select pg_advisory_xact_lock({GATE})"))
            yield connection

    @contextmanager
    def worker(self) -> Iterator[tuple[Running, int]]:
        """A process, and its number."""
        command = (sys.executable, "-m", "tests.storage.worker")
        settings = {"MERCURY_STORE": self.url, "MERCURY_ENGINE_LEASE": str(LEASE), "MERCURY_RUNTIME_INVOKERS": "2"}
        with Running(*command, **settings) as running:
            yield running, int(running.says(r"ready (\d+)"))

    def close(self) -> None:
        self.store.close()
        self.engine.dispose()


@pytest.fixture
def place(postgres_url: str) -> Iterator[Place]:
    made = Place(postgres_url)
    yield made
    made.close()


def test_two_processes_share_the_work_and_each_order_is_handled_once_and_in_order(place: Place) -> None:
    expected = {f"sequence {number}": [number * 10 + 1, number * 10 + 2] for number in range(12)}
    with place.worker() as (_, first), place.worker() as (_, second):
        with place.gate():  # each of them can hold two of twelve
            for sequence, orders in expected.items():
                place.put(sequence, *orders)
            eventually(lambda: place.ask(WAITING) == 4, "all threads of both processes have something to do")
        eventually(lambda: place.taken() == expected, "all orders are handled")
        assert set(place.by()) == {first, second}


#: Seconds from the kill until another process has done the work: the lease, one look for work, and what a busy machine
#: takes for the work itself.
TAKEN_OVER = LEASE + 1.0 + 2.0


def test_the_work_of_a_process_that_is_killed_is_taken_over_within_the_lease(place: Place) -> None:
    with place.worker() as (killed, first), place.worker() as (_, second):
        with place.gate():
            for number in range(4):
                place.put(f"sequence {number}", 1, 2)
            eventually(lambda: place.ask(WAITING) == 4, "both have begun")
            killed.signal(signal.SIGKILL)
            killed.ends()
        expected = {f"sequence {number}": [1, 2] for number in range(4)}
        eventually(lambda: place.taken() == expected, "the other one does it all", TAKEN_OVER)
        assert set(place.by()) == {second}
        assert first != second


def test_the_sending_of_a_process_that_is_killed_is_taken_over_within_the_lease(place: Place) -> None:
    shop = Shop()
    with shop.open() as (_, url):

        def send(number: int) -> None:
            xml = to_xml(Order(number), NAMESPACE, "put")
            row = OutboundMessage(
                message_id=RandomIds().new(),
                channel=Channel(key=SequenceKey(url, "till")),
                action=f"{NAMESPACE}/put",
                payload=xml,
                created_at=time.time(),
            )
            with place.store.transaction() as tx:
                tx.rms.append(row)

        with place.worker() as (killed, _):
            send(1)
            eventually(lambda: shop.orders == [1], "the first process sends")
            with place.worker():
                killed.signal(signal.SIGKILL)
                killed.ends()
                send(2)
                eventually(lambda: shop.orders == [1, 2], "the second one goes on with the sequence", TAKEN_OVER)


def test_a_process_that_was_stopped_past_its_lease_commits_nothing_under_it(place: Place) -> None:
    with place.worker() as (stopped, _):
        with place.gate():
            place.put("sequence", 1, 2, 3)
            eventually(lambda: place.ask(WAITING) == 1, "its handler has begun")
            stopped.signal(signal.SIGSTOP)
        with place.worker() as (_, second):
            eventually(lambda: place.taken() == {"sequence": [1, 2, 3]}, "the other one takes over")
            stopped.signal(signal.SIGCONT)
            eventually(lambda: "a run is given up" in stopped.err, "the first one goes on, and finds out")
            place.put("another", 4)
            eventually(lambda: "another" in place.taken(), "both go on")
            assert place.taken() == {"sequence": [1, 2, 3], "another": [4]}
            assert place.by()[second] >= 3
        assert re.search("another transaction has delivered from|is lost", stopped.err)


def test_a_process_that_gets_sigterm_releases_its_claims(place: Place) -> None:
    """Then no process has to wait for a lease."""
    with place.worker() as (ended, first):
        place.put("sequence", 1)
        eventually(lambda: place.taken() == {"sequence": [1]}, "it is handled")
        assert place.ask("select count(*) from mercury_claim where owner <> ''") == 1
        ended.signal(signal.SIGTERM)
        assert ended.ends().code == 0
    assert place.ask("select count(*) from mercury_claim where owner <> ''") == 0
    assert set(place.by()) == {first}
