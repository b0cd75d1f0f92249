"""A sample of the simulation: the real engine in worlds that are made from seeds."""

from __future__ import annotations

import gc
import math
import os
import subprocess
import sys
from collections import Counter
from typing import Any

import pytest

from mercury.engine.delivery.invocation import InvocationWorker
from mercury.engine.destination.worker import DestinationWorker
from mercury.engine.exchange import Step
from mercury.engine.runtime.core import Engine
from mercury.engine.source.worker import SourceWorker
from mercury.simulation.network import Network
from mercury.simulation.process_run import ProcessRun
from mercury.simulation.run import SeedReport, run_seed, run_seeds
from mercury.simulation.scenario import scenario_of
from mercury.statemachine.policy import AcknowledgeAt
from mercury.statemachine.protocol import ALL_PROTOCOLS
from mercury.storage.api import Topic
from mercury.wire.envelope import Envelope, HttpMessage, Undecodable

#: As many as fit into the tests; `make simulate` runs a thousand.
SLICE = range(60)


@pytest.fixture(scope="module")
def reports() -> list[SeedReport]:
    return list(run_seeds(SLICE))


def test_sixty_worlds_show_no_violation(reports: list[SeedReport]) -> None:
    assert [(report.seed, report.violations) for report in reports if report.violations] == []
    assert all(report.messages >= 100 for report in reports)


def test_every_kind_of_fault_occurs(reports: list[SeedReport]) -> None:
    """The worlds are not quiet: without losses and crashes the test above would say nothing."""
    assert sum(report.crashes for report in reports) > 150
    assert sum(report.requests for report in reports) > 2 * sum(report.messages for report in reports)


def test_the_same_seed_replays_the_same_trace_in_any_process() -> None:
    program = "from mercury.simulation.run import run_seed; print(run_seed(11, messages=40).digest)"
    digests = set()
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        done = subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
        )
        digests.add(done.stdout)
    assert len(digests) == 1


def test_requests_with_the_same_bytes_are_decoded_once_and_nothing_else_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Seed 3 loses and doubles requests."""
    decoded: Counter[tuple[HttpMessage, str | None]] = Counter()
    decode = Engine.decode

    def counting(engine: Engine, http: HttpMessage, service: str | None) -> Envelope | Undecodable:
        decoded[http, service] += 1
        return decode(engine, http, service)

    monkeypatch.setattr(Engine, "decode", counting)
    once = run_seed(3)
    requests_decoded = {about: count for about, count in decoded.items() if about[1] is not None}
    assert set(requests_decoded.values()) == {1}
    monkeypatch.setattr(Network, "read", lambda _network, _http, _path, read: read())
    decoded.clear()
    each_time = run_seed(3)
    assert max(count for about, count in decoded.items() if about[1] is not None) > 1
    assert once == each_time


def test_different_seeds_are_different_worlds() -> None:
    assert run_seed(1, messages=20).digest != run_seed(2, messages=20).digest


@pytest.mark.parametrize("protocol", ALL_PROTOCOLS, ids=str)
def test_the_seeds_meet_every_protocol_with_every_channel_and_pattern(protocol: object) -> None:
    flows = [flow for seed in range(300) for flow in scenario_of(seed).flows if flow.policy.protocol == protocol]
    met = {(flow.listening, flow.in_out) for flow in flows}
    assert met == {(False, False), (False, True), (True, False), (True, True)}
    assert any(not flow.policy.offer and flow.in_out for flow in flows)


def test_the_seeds_cover_every_kind_of_fault() -> None:
    scenarios = [scenario_of(seed) for seed in range(300)]
    for fault in ("lose_request", "lose_reply", "duplicate", "late", "partitions"):
        assert any(getattr(scenario.network, fault) for scenario in scenarios), fault
    for fault in ("crash_before_commit", "crash_after_commit", "commit_fails", "handler_fails"):
        assert any(getattr(scenario.node, fault) for scenario in scenarios), fault
    assert {scenario.nodes for scenario in scenarios} == {2, 3, 4, 5}
    assert {scenario.destination.acknowledge_at for scenario in scenarios} == set(AcknowledgeAt)
    assert any(scenario.destination.max_backlog < 10 for scenario in scenarios)
    for bytes_of in (lambda each: each.destination.max_backlog_bytes, lambda each: each.max_backlog_bytes_per_peer):
        assert min(map(bytes_of, scenarios)) < 5_000 < 10**6 < max(map(bytes_of, scenarios))
    assert any(scenario.max_backlog_bytes < 10_000 for scenario in scenarios)
    assert any(scenario.destination.max_ranges < 10 for scenario in scenarios)


def test_a_process_remembers_of_due_work_the_times_that_its_store_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seed 26 sets the clocks of its nodes, seed 2 loses commits, seed 16 holds requests back."""
    remembered = ProcessRun.due_at
    asked: Counter[bool] = Counter()

    def compared(run: ProcessRun, topic: Topic) -> float:
        asked[topic in run.known] += 1
        found, says = remembered(run, topic), run.store.next_due(topic)
        assert found == (math.inf if says is None else says), topic
        return found

    monkeypatch.setattr(ProcessRun, "due_at", compared)
    for seed in (2, 16, 26):
        assert not run_seed(seed, messages=40).violations
    assert asked[True] > asked[False] / 2  # otherwise nothing would be shown


@pytest.mark.parametrize(
    ("worker", "topic"),
    [(SourceWorker, Topic.RMS), (DestinationWorker, Topic.RMD), (InvocationWorker, Topic.INVOKER)],
    ids=lambda each: each.name if isinstance(each, Topic) else each.__name__,
)
def test_a_worker_runs_only_when_its_store_has_work_that_is_due(
    worker: type[SourceWorker | DestinationWorker | InvocationWorker], topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seed 16 holds requests back, so that commits often wake the workers and make nothing due."""
    run_once = worker.run_once
    runs: list[float] = []

    def compared(self: Any, now: float) -> Step:
        due = self._context.store.next_due(topic)
        runs.append(math.inf if due is None else due - now)
        return run_once(self, now)

    monkeypatch.setattr(worker, "run_once", compared)
    assert not run_seed(16, messages=40).violations
    assert len(runs) > 40
    assert max(runs) <= 0


def test_many_seeds_in_one_process_leave_the_garbage_collector_as_it_was() -> None:
    before = gc.get_threshold(), gc.get_freeze_count()
    assert len(list(run_seeds(range(2), messages=5, processes=1))) == 2
    assert (gc.get_threshold(), gc.get_freeze_count()) == before
