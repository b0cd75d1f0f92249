"""Running seeds: a safety phase with faults, then a healed phase in which everything must end."""

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

#: Virtual seconds: how long faults go on at most, and how long the healed world may take.
FAULTY_PHASE, HEALED_PHASE = 400.0, 3000.0
#: At each node, where there are several.
PROCESSES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedReport:
    """What one seed showed."""

    seed: int
    messages: int
    #: Requests put on the wire.
    requests: int
    crashes: int
    virtual_seconds: float
    events: int
    violations: tuple[str, ...]
    #: The same for the same trace.
    digest: str
    #: Seconds of CPU it took.
    cpu_seconds: float = field(default=0.0, compare=False)


class Simulation:
    """One seed.

    :param tell: gets every line of the trace.
    :param folder: over SQLite files in this folder; left out, over the in-memory store.
    :param stop_early: end at the first violation: enough for who wants to know whether there is one.
    """

    def __init__(
        self,
        scenario: Scenario,
        tell: Callable[[str], None] | None = None,
        *,
        stop_early: bool = False,
        folder: Path | None = None,
    ) -> None:
        self.scenario = scenario
        self._began = 0.0
        self._stop_early = stop_early
        self.world = World(scenario.seed)
        self.world.tell = tell
        self.checks = Checks(scenario.variation)
        self.network = Network(self.world, scenario.network)
        #: The processes of each node. What is committed is the same for all of them.
        self.processes = [self._processes(number, folder) for number in range(scenario.nodes)]
        #: The first process of each.
        self.nodes = [processes[0] for processes in self.processes]

    def _processes(self, number: int, folder: Path | None) -> list[Node]:
        # A lock that a stopped process holds is not waited for: nothing happens meanwhile.
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
    def _everybody(self) -> list[Node]:
        return [node for processes in self.processes for node in processes]

    def close(self) -> None:
        for node in self._everybody:
            node.store.close()

    def run(self) -> SeedReport:
        """Run both phases and check the end."""
        self._began = time.process_time()
        for line in self.scenario.describe():
            self.world.log(line)
        for node in self._everybody:
            node.start()
        self.network.plan_partitions(FAULTY_PHASE / 4)
        if self.scenario.variation is Variation.CLOCK:
            for node in self.nodes:
                node.plan_clock_steps(FAULTY_PHASE / 4)
        if self.scenario.variation is Variation.SEVERAL:
            for node in self._everybody:
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

        def again() -> None:
            client = clients[0] if len(clients) == 1 else self.world.random.choice(clients)
            client.send(flow)
            if client.ledger.sent.get(flow.key, 0) < flow.messages:
                pace = 0.001 if self.network.healed else flow.pace
                self.world.after(self.world.random.expovariate(1 / pace), again)

        self.world.after(0.0, again)

    def _heal(self) -> None:
        self.world.log("healed")
        self.network.heal()
        for node in self._everybody:
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
            return False  # what was given up must not turn up late
        if not self._all_sent():
            return False
        if not all(node.up for node in self._everybody) or not all(node.has_ended for node in self.nodes):
            return False
        probe = Checks(self.scenario.variation)
        for node in self.nodes:
            probe.everything_ended(node)
        return not probe.violations

    @property
    def _tells_nothing(self) -> bool:
        variation = self.scenario.variation
        return not variation.gives_up and not variation.leaves_letters

    def _check_flows(self) -> None:
        for flow in self.scenario.flows:
            self.checks.step(flow, self.nodes[flow.server])

    def _check_end(self) -> None:
        for flow in self.scenario.flows:
            self.checks.everything_arrived(flow, self.nodes[flow.client], self.nodes[flow.server])
        for node in self.nodes:
            self.checks.everything_ended(node)
            for told in node.ledger.told if self._tells_nothing else ():
                self.checks.violated(f"{node.host} was told: {told}")

    def _report(self) -> SeedReport:
        return SeedReport(
            seed=self.scenario.seed,
            messages=sum(node.ledger.sent.get(flow.key, 0) for flow in self.scenario.flows for node in self.nodes),
            requests=self.network.requests,
            crashes=sum(node.crashes for node in self._everybody),
            virtual_seconds=self.world.elapsed,
            events=self.world.events,
            violations=tuple(self.checks.violations),
            digest=self.world.digest(),
            cpu_seconds=time.process_time() - self._began,
        )


def _healed_phase(variation: Variation) -> float:
    if variation.gives_up:
        return 200.0  # nobody tells the end of what was given up, so there is nothing to wait for
    return HEALED_PHASE


def run_seed(
    seed: int,
    *,
    messages: int = 100,
    tell: Callable[[str], None] | None = None,
    stop_early: bool = False,
    sqlite: bool = False,
) -> SeedReport:
    """Run one seed, over the in-memory store or over SQLite files. See `Simulation` for the parameters."""
    logger = logging.getLogger("mercury")
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)  # the faults are meant; their reports would drown everything
    try:
        scenario = scenario_of(seed, messages=messages, statements=sqlite)
        with TemporaryDirectory(prefix="mercury-simulation-") as folder:
            simulation = Simulation(scenario, tell, stop_early=stop_early, folder=Path(folder) if sqlite else None)
            try:
                return simulation.run()
            finally:
                simulation.close()
    finally:
        logger.setLevel(before)


def _collect_rarely() -> None:
    """A seed makes many objects and few cycles: looking for those took a tenth of its time."""
    gc.set_threshold(100_000, 50, 100)


def _run_seed(arguments: tuple[int, int, bool]) -> SeedReport:
    seed, messages, sqlite = arguments
    return run_seed(seed, messages=messages, sqlite=sqlite)


def run_seeds(
    seeds: Iterable[int], *, messages: int = 100, processes: int | None = None, sqlite: bool = False
) -> Iterator[SeedReport]:
    """Run many seeds, as many at once as there are processors; reports come in the order of the seeds."""
    processes = processes or len(os.sched_getaffinity(0))
    work = [(seed, messages, sqlite) for seed in seeds]
    if processes == 1 or len(work) == 1:
        before = gc.get_threshold()
        _collect_rarely()
        try:
            yield from map(_run_seed, work)
        finally:
            gc.set_threshold(*before)
        return
    with ProcessPoolExecutor(processes, initializer=_collect_rarely) as pool:
        yield from pool.map(_run_seed, work, chunksize=4)


@dataclass(slots=True)
class Summary:
    """Many seeds together."""

    seeds: int = 0
    messages: int = 0
    requests: int = 0
    crashes: int = 0
    virtual_seconds: float = 0.0
    violations: int = 0
    #: Seconds of CPU, of all processes.
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
