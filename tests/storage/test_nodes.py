"""The processes on a store: each is listed while it runs, with what it works on."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from mercury import Mercury
from mercury.engine.runtime.node import INTERVAL, NodeWorker
from mercury.operations.nodes import SILENT_AFTER
from mercury.operations.operator import Operations
from mercury.operations.overview import Severity
from mercury.storage.nodes import Node
from mercury.storage.opening import open_sql_store
from mercury.storage.searching import SequenceFilter
from tests.acceptance.processes import PATIENCE, eventually

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
        assert problem.text == "node n on h has not been seen for 61 s"
        store.sweep(kept_before=0.0, idle_before=NOW, limit=10)
        assert len(later.nodes.all()) == 1
        store.sweep(kept_before=0.0, idle_before=NOW + 2, limit=10)
        assert later.nodes.all() == ()
    finally:
        store.close()


class Registry:
    """Counts the statements."""

    def __init__(self) -> None:
        self.noted: list[Node] = []

    def note_node(self, node: Node) -> None:
        self.noted.append(node)

    def forget_node(self, identifier: str) -> None:
        raise AssertionError(identifier)


@pytest.mark.parametrize("back", [0.0, 1000.0])
def test_a_process_says_that_it_runs_once_in_an_interval_also_after_the_clock_was_set_back(back: float) -> None:
    registry = Registry()
    worker = NodeWorker(registry, "n", lambda: frozenset(["b", "a"]), lambda: 9, lambda: 2, NOW)
    worker.run_once(NOW)
    worker.run_once(NOW + 1)
    assert len(registry.noted) == 1
    assert (registry.noted[0].services, registry.noted[0].roles) == (("a", "b"), ("sends", "serves"))
    worker.run_once(NOW - back + INTERVAL)
    assert len(registry.noted) == 2
    assert worker.next_due() == NOW - back + 2 * INTERVAL
