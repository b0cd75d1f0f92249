"""Runs one soak, from its start to its verdict."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from tests.chaos.kinds import Form, Mode
from tests.chaos.soak import memory
from tests.chaos.soak.faults import Faults
from tests.chaos.soak.memory import Memory
from tests.chaos.soak.network import CALM, FAULTS, Network
from tests.chaos.soak.orders import Orders, Progress
from tests.chaos.soak.process_output import ProcessOutput
from tests.chaos.soak.stage import PROCESSES, Stage, State, staged
from tests.chaos.verdict import Difference, Witness

#: Seconds between two turns, two queries of the databases, and two lines of progress.
TURN, QUERY_INTERVAL, REPORT_INTERVAL = 0.1, 0.5, 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The parameters of a soak. Times are seconds."""

    lasting: float
    seed: int = 0
    form: Form = Form.TWO_PHASE
    mode: Mode = Mode.IN_OUT
    #: The mean time between two faults.
    every: float = 4.0
    #: Orders a second, and the most orders in transit.
    rate: float = 8.0
    backlog: int = 400
    #: Without any fault, not even of single exchanges.
    calm: bool = False
    #: The number of orders that are inserted at the start instead.
    burst: int = 0
    #: The time without progress, after the end of the faults, after which the soak is given up.
    patience: float = 300.0
    #: A folder for the processes' output; ``None`` = it is deleted.
    keep: Path | None = None


@dataclass(slots=True, kw_only=True)
class Outcome:
    """The result."""

    plan: Plan
    progress: Progress
    output: ProcessOutput
    faults: dict[str, int] = field(default_factory=dict)
    exchanges: dict[str, int] = field(default_factory=dict)
    memories: list[Memory] = field(default_factory=list)
    #: The number of processes that have sent orders; a restarted one counts again.
    senders: int = 0
    largest_backlog: int = 0
    #: Seconds from the last fault until every order had arrived, and until every sequence had ended.
    arrived: float = 0.0
    drained: float = 0.0
    difference: Difference = field(default_factory=Difference)
    prepared: int = 0
    #: Errors that said "not committed" of a committed transaction.
    misled: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    @property
    def steady(self) -> bool:
        return all(each.flat for each in self.memories if each.enough)

    @property
    def good(self) -> bool:
        wrong = self.difference or self.prepared or self.misled or self.errors
        return not wrong and self.steady


def run(plan: Plan, tell: Callable[[str], None]) -> Outcome:
    """Run one soak. Violations by Mercury are in the outcome, not raised.

    :param tell: called with each line of progress.
    """
    network = Network(plan.seed, CALM if plan.calm else FAULTS)
    with (
        network,
        staged(plan.form, plan.mode, network) as stage,
        closing(Orders(stage.databases, plan.mode, plan.rate, plan.backlog)) as orders,
    ):
        soak = _Soak(plan, stage, orders, tell)
        try:
            soak.play()
        finally:
            if plan.keep is not None:
                shutil.copytree(stage.forks.folder, plan.keep, dirs_exist_ok=True)
        return soak.outcome


class _Soak:
    def __init__(self, plan: Plan, stage: Stage, orders: Orders, tell: Callable[[str], None]) -> None:
        self._plan = plan
        self._stage = stage
        self._orders = orders
        self._say = tell
        self._faults = Faults(
            stage=stage, chance=random.Random(plan.seed), every=plan.every, lasting=max(plan.lasting, 1.0)
        )
        self._begun = time.monotonic()
        self._queried_at = self._sampled = 0.0
        self._reported_at = self._begun
        self._lives: dict[int, Memory] = {}
        self.outcome = Outcome(plan=plan, progress=orders.progress, output=stage.output)

    def play(self) -> None:
        for process in self._stage.processes:
            self._stage.start(process)
        self._begun = time.monotonic()
        self._orders.make(self._plan.burst)
        while time.monotonic() < self._begun + self._plan.lasting:
            if not self._plan.calm:
                self._faults.turn()
            self._orders.turn()
            self._turn()
        self._faults.make_good()
        self._say(f"{self._at()} the faults are over; waiting for the remaining orders")
        self._drain()
        self._judge()

    # --- turns -----------------------------------------------------------------------------------------------------

    def _turn(self) -> None:
        time.sleep(TURN)
        now = time.monotonic()
        self.outcome.errors += self._stage.watch()
        if now - self._queried_at >= QUERY_INTERVAL:
            self._queried_at = now
            backlog = self._orders.update().backlog(self._plan.mode)
            self.outcome.largest_backlog = max(self.outcome.largest_backlog, backlog)
        if now - self._sampled >= memory.EVERY:
            self._sampled = now
            self._sample()
        if now - self._reported_at >= REPORT_INTERVAL:
            self._reported_at = now
            self._say(self._progress())

    def _sample(self) -> None:
        for process in self._stage.processes:
            if process.state is State.RUNS and process.fork is not None:
                life = self._lives.setdefault(process.fork.pid, Memory(process.name, process.fork.pid))
                life.samples.append(process.memory)

    def _at(self) -> str:
        minutes, seconds = divmod(int(time.monotonic() - self._begun), 60)
        return f"{minutes:3}:{seconds:02}"

    def _progress(self) -> str:
        seen, output = self._orders.progress, self._stage.listen()
        faults = sum(count for name, count in self._faults.counts.items() if not name.startswith("backends"))
        megabytes = " ".join(f"{each.memory / memory.MIB:.0f}" for each in self._stage.processes)
        return (
            f"{self._at()} {seen.made} made, {seen.sent} sent, {seen.received} received, {seen.confirmed} confirmed; "
            f"{faults} faults; {output.caught.total()} errors caught; {megabytes} MiB"
        )

    # --- the end ---------------------------------------------------------------------------------------------------

    def _drain(self) -> None:
        begun = since = time.monotonic()
        before: object = None
        with Witness(self._stage.databases, self._plan.mode) as witness:
            while not witness.is_over():
                self._turn()
                if self._orders.progress.backlog(self._plan.mode) > 0:
                    self.outcome.arrived = time.monotonic() - begun
                now = _seen(witness)
                if now != before:
                    before, since = now, time.monotonic()
                if time.monotonic() - since > self._plan.patience:
                    self.outcome.errors.append(f"nothing has changed for {self._plan.patience:.0f} s: {now}")
                    break
        self.outcome.drained = time.monotonic() - begun

    def _judge(self) -> None:
        outcome, stage = self.outcome, self._stage
        self._orders.update()
        outcome.errors += stage.end()
        with Witness(stage.databases, self._plan.mode) as witness:
            outcome.prepared = len(witness.prepared())
            outcome.errors += witness.errors()
        outcome.difference = self._orders.difference()
        outcome.senders = self._orders.senders()
        outcome.misled = stage.output.misled(self._orders.attempts())
        outcome.errors += [f"an error that is not Mercury's: {each}" for each in stage.output.foreign]
        outcome.faults = dict(sorted(self._faults.counts.items()))
        if stage.failed_starts:
            outcome.faults["starts that failed because a database was down"] = stage.failed_starts
        outcome.exchanges = stage.network.exchanges()
        longest = sorted(self._lives.values(), key=lambda life: -len(life.samples))
        outcome.memories = longest[: 2 * PROCESSES]
        if outcome.senders < PROCESSES and outcome.progress.made > PROCESSES:
            outcome.errors.append("only one process of the client has sent anything")


def _seen(witness: Witness) -> object:
    """The unfinished work, as text; a query may fail because its own session was ended by a fault."""
    try:
        return witness.progress(), witness.left()
    except psycopg.OperationalError as error:
        return str(error)
