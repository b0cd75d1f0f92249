"""The processes on a store: each is listed while it runs, with what it works on."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence
from dataclasses import replace

import pytest

from mercury import Mercury
from mercury.engine.address_book import FailoverSettings
from mercury.engine.members import Members, read_members
from mercury.engine.runtime.node import INTERVAL, MEMBER_SILENT, NodeWorker
from mercury.engine.traffic import TrafficCounter
from mercury.errors import StorageError
from mercury.operations.nodes import LATE_AFTER, SILENT_AFTER
from mercury.operations.operator import Operations
from mercury.operations.overview import Severity
from mercury.storage.nodes import PERIOD, Node, Traffic
from mercury.storage.opening import open_sql_store
from mercury.storage.searching import SequenceFilter
from mercury.storage.sql.store import SqlStore
from mercury.testing.clock import FakeClock
from tests.acceptance.processes import PATIENCE, eventually

from .conftest import Command
from .shop import Order, Shop, settings

NOW = 1_750_000_000.0
NODE = Node(id="n", host="h", pid=1, version="1", started_at=NOW, seen_at=NOW, services=("shop",))


def test_a_process_is_listed_with_its_services_and_claims_until_it_stops(sql_url: str) -> None:
    shop = Shop()
    with shop.open(sql_url) as (server, endpoint), Mercury("memory:", settings=settings()) as client:
        store = open_sql_store(sql_url)
        operations = Operations(store)
        try:
            orders = client.to(endpoint)
            orders.send(Order(1), operation="put")
            assert orders.wait(PATIENCE)
            eventually(lambda: shop.orders == [1] and operations.nodes.all(), "it is handled, and the node is there")
            (line,) = operations.nodes.all()
            assert (line.node.pid, line.node.services, line.alive) == (os.getpid(), ("shop",), True)
            assert line.claims >= 1
            (sequence,) = operations.sequences.page(SequenceFilter(source=False)).items
            whole = operations.sequences.one(sequence.id)
            assert whole is not None
            assert whole.node is not None
            assert whole.node.id == line.node.id
            server.stop()
            assert operations.nodes.all() == ()
            rates = operations.traffic.by_service()["shop"]
            assert (rates.sums.received, rates.sums.delivered, rates.sums.failures) == (1, 1, 0)
            assert rates.handler_time is not None
        finally:
            store.close()


def test_members_are_the_nodes_that_serve_and_were_seen_lately(sql_url: str) -> None:
    store = open_sql_store(sql_url)
    try:
        members = Members(FailoverSettings(public_address="http://me.example"))
        for name, changes in (
            ("a", {"address": "http://a.example"}),
            ("again", {"address": "http://a.example"}),
            ("gone", {"address": "http://gone.example", "seen_at": NOW - MEMBER_SILENT - 1}),
            ("client", {"address": "http://client.example", "services": ()}),
            ("silent", {}),
        ):
            store.note_node(replace(NODE, id=name, **changes))  # type: ignore[arg-type]
        about = (lambda: frozenset({"shop"}), lambda: 1, lambda: 0, TrafficCounter(None))
        NodeWorker(store, "me", *about, NOW, members).run_once(NOW)
        assert read_members(members.document("/s")).urls == ("http://a.example/s", "http://me.example/s")
        assert "http://me.example" in store.members(NOW)
    finally:
        store.close()


def test_a_process_that_was_killed_is_a_problem_until_its_row_is_removed(sql_url: str) -> None:
    store = open_sql_store(sql_url)
    try:
        store.note_node(NODE)
        store.note_node(replace(NODE, seen_at=NOW + 1, queue=3))
        later = Operations(store, lambda: NOW + 2 + SILENT_AFTER)
        (line,) = later.nodes.all()
        assert (line.alive, line.node.queue) == (False, 3)
        (problem,) = later.overview().problems
        assert problem.severity is Severity.WARNING
        assert problem.text == "node h:1 has not been seen for 1 min 1 s"
        store.sweep(kept_before=0.0, idle_before=NOW, limit=10)
        assert len(later.nodes.all()) == 1
        store.sweep(kept_before=0.0, idle_before=NOW + 2, limit=10)
        assert later.nodes.all() == ()
    finally:
        store.close()


def killed_with_a_claim(sql_url: str) -> SqlStore:
    """A store on which process 1 was killed, seven seconds before its claim expires."""
    store = open_sql_store(sql_url)
    now = time.time()
    assert store.claim("rmd a", NODE.id, now, 7.0) is not None
    store.note_node(replace(NODE, started_at=now - 100.0, seen_at=now - LATE_AFTER - 5))
    return store


def test_messages_that_a_killed_process_has_claimed_are_said_to_wait_until_its_claim_ends(
    sql_url: str, command: Command
) -> None:
    store = killed_with_a_claim(sql_url)
    store.close()
    state = r"has not been seen for 2\d s; 1 sequence that it claimed is free again in \d s"
    check = command("check", "node", "--store", sql_url)
    assert check.code == 1
    assert re.search(f"h:1 {state}", check.out)
    assert re.search(f"warning: node h:1 {state}", command("status", "--store", sql_url).out)
    assert re.search(state, command("nodes", "--store", sql_url).out)


def test_a_killed_process_is_no_warning_any_more_when_its_claims_are_over_and_another_one_serves(
    sql_url: str, command: Command
) -> None:
    store = open_sql_store(sql_url)
    try:
        now = time.time()
        gone = replace(NODE, started_at=now - 500.0, seen_at=now - 200.0)
        store.note_node(gone)
        store.note_node(replace(NODE, id="other", pid=2, seen_at=now, services=("stock",)))
        assert command("check", "node", "--store", sql_url).code == 1, "the other one does not host its service"
        store.note_node(replace(NODE, id="next", pid=3, seen_at=now, services=("shop", "stock")))
        check = command("check", "node", "--store", sql_url)
        assert (check.code, check.out) == (
            0,
            "OK - 2 processes run, 0 are silent, 1 was killed and is replaced | nodes=2\n",
        )
        (problem,) = Operations(store).overview().problems
        assert problem.severity is Severity.NOTE
        assert problem.text.endswith("; others host its services")
        (line,) = (each for each in Operations(store).nodes.all() if each.node.id == gone.id)
        assert line.up == pytest.approx(300.0), "it stopped to run when it was last seen"
        assert store.claim("rmd a", gone.id, now, 3600.0) is not None
        assert command("check", "node", "--store", sql_url).code == 1, "messages wait for its claim"
        (problem,) = Operations(store).overview().problems
        assert problem.severity is Severity.WARNING
    finally:
        store.close()


class Registry:
    """Counts the statements."""

    def __init__(self) -> None:
        self.noted: list[Node] = []
        self.added: list[tuple[float, list[Traffic]]] = []
        self.fails = False
        self.has_others = False

    def note_node(self, node: Node) -> None:
        self.noted.append(node)

    def others(self, identifier: str, since: float) -> bool:
        assert (identifier, since) == ("n", self.noted[-1].seen_at - MEMBER_SILENT)
        return self.has_others

    def forget_node(self, identifier: str) -> None:
        raise AssertionError(identifier)

    def add_traffic(self, identifier: str, at: float, traffic: Sequence[Traffic]) -> None:
        if self.fails:
            raise StorageError("away")
        self.added.append((at, list(traffic)))


@pytest.mark.parametrize("back", [0.0, 1000.0])
def test_a_process_says_that_it_runs_once_in_an_interval_also_after_the_clock_was_set_back(back: float) -> None:
    registry = Registry()
    worker = NodeWorker(registry, "n", lambda: frozenset(["b", "a"]), lambda: 9, lambda: 2, TrafficCounter(None), NOW)
    worker.run_once(NOW)
    worker.run_once(NOW + 1)
    assert len(registry.noted) == 1
    assert (registry.noted[0].services, registry.noted[0].roles) == (("a", "b"), ("sends", "serves"))
    worker.run_once(NOW - back + INTERVAL)
    assert len(registry.noted) == 2
    assert worker.next_due() == NOW - back + 2 * INTERVAL


@pytest.mark.parametrize("others", [False, True])
def test_a_process_learns_whether_there_are_others(others: bool) -> None:
    registry = Registry()
    registry.has_others = others
    told: list[bool] = []
    about = (lambda: frozenset[str](), lambda: 1, lambda: 0, TrafficCounter(None))
    worker = NodeWorker(registry, "n", *about, NOW, None, told.append)
    worker.run_once(NOW)
    assert told == [others]


# --- what processes have done ----------------------------------------------------------------------------------------


def test_traffic_costs_one_statement_in_an_interval_and_none_while_nothing_happens() -> None:
    registry, counter = Registry(), TrafficCounter(None)
    worker = NodeWorker(registry, "n", lambda: None, lambda: 9, lambda: 2, counter, NOW)
    worker.run_once(NOW)
    assert registry.added == []
    for _ in range(100):
        counter.transmitted("http://peer", "sequence", 9, 3, again=False)
        counter.accepted(["shop", None, "shop"])
    worker.run_once(NOW + INTERVAL)
    assert registry.added == [(NOW + INTERVAL, [Traffic(transmitted=300, received=100), Traffic("shop", received=200)])]
    worker.run_once(NOW + 2 * INTERVAL)
    assert len(registry.added) == 1


def test_traffic_that_could_not_be_written_is_written_the_next_time() -> None:
    registry, counter = Registry(), TrafficCounter(None)
    worker = NodeWorker(registry, "n", lambda: None, lambda: 9, lambda: 2, counter, NOW)
    counter.delivered("shop", [NOW] * 3)
    registry.fails = True
    with pytest.raises(StorageError):
        worker.run_once(NOW)
    registry.fails = False
    counter.delivered("shop", [NOW])
    worker.run_once(NOW + 1)
    assert registry.added == [(NOW + 1, [Traffic("shop", delivered=4)])]


def test_calls_of_handlers_are_counted_with_their_time_and_failures() -> None:
    clock = FakeClock(10.0)
    counter = TrafficCounter(None, clock)
    began = counter.call_begins()
    clock.advance(0.5)
    counter.call_ended(began, "shop", 4, None)
    counter.call_ended(began, "shop", 1, ValueError)
    counter.call_ended(began, "shop", 0, None)
    assert counter.take() == (Traffic("shop", calls=5, failures=1, seconds=1.0),)


def test_rates_are_those_of_all_processes_and_old_minutes_are_removed(sql_url: str) -> None:
    store = open_sql_store(sql_url)
    try:
        now = NOW - NOW % PERIOD + 30
        store.add_traffic("a", now, [Traffic("shop", delivered=100, calls=10, failures=1, seconds=2.0)])
        store.add_traffic("a", now + 10, [Traffic("shop", delivered=70), Traffic(transmitted=27)])
        store.add_traffic("b", now - 2 * PERIOD, [Traffic("shop", delivered=100)])
        store.add_traffic("b", now - 30 * PERIOD, [Traffic("shop", delivered=5000)])
        reads = Operations(store, lambda: now).traffic
        shop = reads.by_service()["shop"]
        assert (shop.sums.delivered, shop.seconds, shop.a_second("delivered")) == (270, 270.0, 1.0)
        assert shop.handler_time == 0.2
        every = reads.recent()
        assert (every.rates.sums.transmitted, every.rates.a_second("transmitted")) == (27, 0.1)
        assert [value for _, value in every.values("delivered") if value] == [5000, 100, 170]
        assert len(every.minutes) == 60
        assert every.minutes[-1][0] == now - 30
        assert reads.recent("other").rates.sums == Traffic()
        store.sweep(kept_before=0.0, idle_before=now + 200 * PERIOD - 30 * PERIOD, limit=10)
        assert [value for _, value in reads.recent().values("delivered") if value] == [100, 170]
    finally:
        store.close()
