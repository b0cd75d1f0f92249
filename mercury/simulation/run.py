"""Runs seeds: a phase with faults, then a healed phase in which all messages must arrive and all sequences end."""

from __future__ import annotations

import gc
import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from mercury.simulation.application import Ledger
from mercury.simulation.checks import Checks
from mercury.simulation.flows import Flow
from mercury.simulation.network import Network
from mercury.simulation.node import Node
from mercury.simulation.scenario import Scenario, scenario_of
from mercury.simulation.stores import MemoryNodeStore, NodeStore, SharedMemoryNodeStore, SqliteNodeStore
from mercury.simulation.variation import Variation
from mercury.simulation.world import EPOCH, World
from mercury.storage.memory import MemoryStore

#: The longest duration of the faulty and of the healed phase, in virtual seconds.
FAULTY_PHASE, HEALED_PHASE = 400.0, 3000.0
#: The number of processes of each node in the variation with several.
PROCESSES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedReport:
    """The result of one seed."""

    seed: int
    messages: int
    #: The number of requests sent.
    requests: int
    crashes: int
    virtual_seconds: float
    events: int
    violations: tuple[str, ...]
    #: A digest of the trace.
    digest: str
    #: CPU time, in seconds.
    cpu_seconds: float = field(default=0.0, compare=False)


class Simulation:
    """One seed.

    :param on_line: called with every line of the trace.
    :param folder: the stores are SQLite files in this folder; ``None`` = they are in memory.
    :param stop_early: end at the first violation.
    """

    def __init__(
        self,
        scenario: Scenario,
        on_line: Callable[[str], None] | None = None,
        *,
        stop_early: bool = False,
        folder: Path | None = None,
    ) -> None:
        self.scenario = scenario
        self._began = 0.0
        self._stop_early = stop_early
        self.world = World(scenario.seed)
        self.world.on_line = on_line
        self.checks = Checks(scenario.variation)
        self.network = Network(self.world, scenario.network)
        #: The processes of each node, which share its committed state.
        self.processes = [self._processes(number, folder) for number in range(scenario.nodes)]
        #: The first process of each node.
        self.nodes = [processes[0] for processes in self.processes]

    def _processes(self, number: int, folder: Path | None) -> list[Node]:
        # No transaction waits for a lock: virtual time would not pass, so a stopped process would not release it.
        ledger, committed = Ledger(), MemoryStore(lock_timeout=0.0)
        several = self.scenario.variation is Variation.SEVERAL

        def store() -> NodeStore:
            if folder is not None:
                return SqliteNodeStore(folder / f"node{number}.sqlite", lambda: self.world.now)
            return SharedMemoryNodeStore(committed) if several else MemoryNodeStore()

        return [
            Node(number, self.world, self.network, self.scenario, self.checks, store(), ledger)
            for _ in range(PROCESSES if several else 1)
        ]

    @property
    def _all_processes(self) -> list[Node]:
        return [node for processes in self.processes for node in processes]

    def close(self) -> None:
        for node in self._all_processes:
            node.store.close()

    def run(self) -> SeedReport:
        """Run both phases and check the end."""
        self._began = time.process_time()
        for line in self.scenario.describe():
            self.world.log(line)
        for node in self._all_processes:
            node.start()
        self.network.plan_partitions(FAULTY_PHASE / 4)
        if self.scenario.variation is Variation.CLOCK:
            for node in self.nodes:
                node.plan_clock_steps(FAULTY_PHASE / 4)
        if self.scenario.variation is Variation.SEVERAL:
            for node in self._all_processes:
                node.plan_stops(FAULTY_PHASE / 4)
        for flow in self.scenario.flows:
            self._send(flow)
        self.world.run(EPOCH + FAULTY_PHASE, lambda: self._over() or (self._all_sent() and self._all_handled()))
        self._check_flows()
        if not self._over():
            self._heal()
            most = _healed_phase(self.scenario.variation)
            self.world.run(self.world.now + most, lambda: self._over() or self._quiet())
            self._check_flows()
            self._check_end()
        return self._report()

    def _over(self) -> bool:
        return self._stop_early and bool(self.checks.violations)

    def _send(self, flow: Flow) -> None:
        clients = self.processes[flow.client]

        def send_next() -> None:
            client = clients[0] if len(clients) == 1 else self.world.random.choice(clients)
            client.send(flow)
            if client.ledger.sent.get(flow.key, 0) < flow.messages:
                interval = 0.001 if self.network.healed else flow.send_interval
                self.world.after(self.world.random.expovariate(1 / interval), send_next)

        self.world.after(0.0, send_next)

    def _heal(self) -> None:
        self.world.log("healed")
        self.network.heal()
        for node in self._all_processes:
            node.heal()

    def _all_sent(self) -> bool:
        flows = self.scenario.flows
        return all(self.nodes[flow.client].ledger.sent.get(flow.key, 0) == flow.messages for flow in flows)

    def _all_handled(self) -> bool:
        handled = sum(len(bodies) for node in self.nodes for bodies in node.ledger.handled.values())
        return handled >= 0.9 * sum(flow.messages for flow in self.scenario.flows)

    def _quiet(self) -> bool:
        """Whether nothing is left to do, so that the healed phase may be cut short."""
        if self.scenario.variation.gives_up:
            return False  # run the whole phase: a message that was given up must not arrive late
        if not self._all_sent():
            return False
        if not all(node.up for node in self._all_processes) or not all(node.has_ended for node in self.nodes):
            return False
        probe = Checks(self.scenario.variation)
        for node in self.nodes:
            probe.everything_ended(node, self.nodes)
        return not probe.violations

    @property
    def _expects_no_report(self) -> bool:
        variation = self.scenario.variation
        return not variation.gives_up and not variation.leaves_dead_letters

    def _check_flows(self) -> None:
        for flow in self.scenario.flows:
            self.checks.step(flow, self.nodes[flow.server])

    def _check_end(self) -> None:
        for flow in self.scenario.flows:
            self.checks.everything_arrived(flow, self.nodes[flow.client], self.nodes[flow.server])
        for node in self.nodes:
            self.checks.everything_ended(node, self.nodes)
            for reported in node.ledger.reported if self._expects_no_report else ():
                self.checks.violated(f"{node.host}: the application's observers received: {reported}")

    def _report(self) -> SeedReport:
        return SeedReport(
            seed=self.scenario.seed,
            messages=sum(node.ledger.sent.get(flow.key, 0) for flow in self.scenario.flows for node in self.nodes),
            requests=self.network.requests,
            crashes=sum(node.crashes for node in self._all_processes),
            virtual_seconds=self.world.elapsed,
            events=self.world.events,
            violations=tuple(self.checks.violations),
            digest=self.world.digest(),
            cpu_seconds=time.process_time() - self._began,
        )


def _healed_phase(variation: Variation) -> float:
    if variation.gives_up:
        return 200.0  # sequences that were given up are not terminated, so a long phase would wait for nothing
    return HEALED_PHASE


def run_seed(
    seed: int,
    *,
    messages: int = 100,
    on_line: Callable[[str], None] | None = None,
    stop_early: bool = False,
    sqlite: bool = False,
) -> SeedReport:
    """Run one seed with stores in memory or in SQLite files. See `Simulation` for the parameters."""
    logger = logging.getLogger("mercury")
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)  # the planned faults would fill the log
    try:
        scenario = scenario_of(seed, messages=messages, statements=sqlite)
        with TemporaryDirectory(prefix="mercury-simulation-") as folder:
            simulation = Simulation(scenario, on_line, stop_early=stop_early, folder=Path(folder) if sqlite else None)
            try:
                return simulation.run()
            finally:
                simulation.close()
    finally:
        logger.setLevel(before)


def _collect_between_seeds() -> None:
    """Collect cycles after each seed: a seed makes many objects and few cycles, and within it each collection looks at
    all that is in use. One that makes very many is collected within too, by the threshold.

    What is loaded stays until the process ends, so no collection looks at it again.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(5_000_000, 10, 10)


def _run_seed(arguments: tuple[int, int, bool]) -> SeedReport:
    seed, messages, sqlite = arguments
    report = run_seed(seed, messages=messages, sqlite=sqlite)
    gc.collect()
    return report


def run_seeds(
    seeds: Iterable[int], *, messages: int = 100, processes: int | None = None, sqlite: bool = False
) -> Iterator[SeedReport]:
    """Run many seeds in parallel processes; the reports come in the order of the seeds."""
    processes = processes or len(os.sched_getaffinity(0))
    work = [(seed, messages, sqlite) for seed in seeds]
    if processes == 1 or len(work) == 1:
        before = gc.get_threshold()
        _collect_between_seeds()
        try:
            yield from map(_run_seed, work)
        finally:
            gc.set_threshold(*before)
            gc.unfreeze()
        return
    with ProcessPoolExecutor(processes, initializer=_collect_between_seeds) as pool:
        yield from pool.map(_run_seed, work, chunksize=4)


@dataclass(slots=True)
class Summary:
    """The sums over many seeds."""

    seeds: int = 0
    messages: int = 0
    requests: int = 0
    crashes: int = 0
    virtual_seconds: float = 0.0
    violations: int = 0
    #: CPU time of all processes, in seconds.
    cpu_seconds: float = 0.0
    _started: float = 0.0

    @classmethod
    def begin(cls) -> Summary:
        return cls(_started=time.perf_counter())

    def add(self, report: SeedReport) -> None:
        self.seeds += 1
        self.messages += report.messages
        self.requests += report.requests
        self.crashes += report.crashes
        self.virtual_seconds += report.virtual_seconds
        self.violations += len(report.violations)
        self.cpu_seconds += report.cpu_seconds

    @property
    def seconds(self) -> float:
        """Real seconds since `begin`."""
        return time.perf_counter() - self._started
