"""One soak from its begin to its verdict."""

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
from tests.chaos.soak.network import CALM, WEATHER, Network
from tests.chaos.soak.orders import Orders, Progress
from tests.chaos.soak.process_output import ProcessOutput
from tests.chaos.soak.stage import PROCESSES, Stage, State, staged
from tests.chaos.verdict import Difference, Witness

#: Seconds between two turns, two looks into the databases, and two lines about the progress.
TURN, LOOK, TELL = 0.1, 0.5, 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is asked for. Times are seconds."""

    lasting: float
    seed: int = 0
    form: Form = Form.TWO_PHASE
    mode: Mode = Mode.IN_OUT
    #: Between two faults, on average.
    every: float = 4.0
    #: Orders a second, and how many may be on their way.
    rate: float = 8.0
    backlog: int = 400
    #: Without any fault, not even of single exchanges.
    calm: bool = False
    #: Make so many orders at the begin instead, and wait until they have arrived.
    burst: int = 0
    #: Without any progress after the end of the faults, until it is given up.
    patience: float = 300.0
    #: A folder for what the processes have written.
    keep: Path | None = None


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What came out."""

    plan: Plan
    progress: Progress
    told: ProcessOutput
    faults: dict[str, int] = field(default_factory=dict)
    exchanges: dict[str, int] = field(default_factory=dict)
    memories: list[Memory] = field(default_factory=list)
    #: Processes that have sent orders, those that were started again counted anew.
    senders: int = 0
    largest_backlog: int = 0
    #: Seconds from the last fault until every order had arrived, and until every sequence had ended.
    arrived: float = 0.0
    drained: float = 0.0
    difference: Difference = field(default_factory=Difference)
    prepared: int = 0
    #: Errors of which the application had to think that nothing is committed, although it was.
    misled: list[str] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)

    @property
    def steady(self) -> bool:
        return all(each.flat for each in self.memories if each.enough)

    @property
    def good(self) -> bool:
        wrong = self.difference or self.prepared or self.misled or self.troubles
        return not wrong and self.steady


def run(plan: Plan, tell: Callable[[str], None]) -> Outcome:
    """Run one soak. Never raises for what Mercury does.

    :param tell: is given lines about the progress.
    """
    network = Network(plan.seed, CALM if plan.calm else WEATHER)
    with (
        network,
        staged(plan.form, plan.mode, network) as stage,
        closing(Orders(stage.ground, plan.mode, plan.rate, plan.backlog)) as orders,
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
        self._looked = self._sampled = 0.0
        self._told = self._begun
        self._lives: dict[int, Memory] = {}
        self.outcome = Outcome(plan=plan, progress=orders.progress, told=stage.told)

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
        self._say(f"{self._at()} the faults are over; what is left arrives")
        self._drain()
        self._judge()

    # --- turns -----------------------------------------------------------------------------------------------------

    def _turn(self) -> None:
        time.sleep(TURN)
        now = time.monotonic()
        self.outcome.troubles += self._stage.watch()
        if now - self._looked >= LOOK:
            self._looked = now
            backlog = self._orders.look().backlog(self._plan.mode)
            self.outcome.largest_backlog = max(self.outcome.largest_backlog, backlog)
        if now - self._sampled >= memory.EVERY:
            self._sampled = now
            self._sample()
        if now - self._told >= TELL:
            self._told = now
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
        seen, told = self._orders.progress, self._stage.listen()
        faults = sum(count for name, count in self._faults.counts.items() if not name.startswith("backends"))
        megabytes = " ".join(f"{each.memory / memory.MIB:.0f}" for each in self._stage.processes)
        return (
            f"{self._at()} {seen.made} made, {seen.sent} sent, {seen.received} received, {seen.confirmed} confirmed; "
            f"{faults} faults; {told.caught.total()} errors caught; {megabytes} MiB"
        )

    # --- the end ---------------------------------------------------------------------------------------------------

    def _drain(self) -> None:
        begun = since = time.monotonic()
        before: object = None
        with Witness(self._stage.ground, self._plan.mode) as witness:
            while not witness.is_over():
                self._turn()
                if self._orders.progress.backlog(self._plan.mode) > 0:
                    self.outcome.arrived = time.monotonic() - begun
                now = _seen(witness)
                if now != before:
                    before, since = now, time.monotonic()
                if time.monotonic() - since > self._plan.patience:
                    self.outcome.troubles.append(f"nothing has changed for {self._plan.patience:.0f} s: {now}")
                    break
        self.outcome.drained = time.monotonic() - begun

    def _judge(self) -> None:
        outcome, stage = self.outcome, self._stage
        self._orders.look()
        outcome.troubles += stage.end()
        with Witness(stage.ground, self._plan.mode) as witness:
            outcome.prepared = len(witness.prepared())
            outcome.troubles += witness.troubles()
        outcome.difference = self._orders.difference()
        outcome.senders = self._orders.senders()
        outcome.misled = stage.told.misled(self._orders.attempts())
        outcome.troubles += [f"an error that is not Mercury's: {each}" for each in stage.told.foreign]
        outcome.faults = dict(sorted(self._faults.counts.items()))
        if stage.starts_in_vain:
            outcome.faults["starts without a database, tried again"] = stage.starts_in_vain
        outcome.exchanges = stage.network.exchanges()
        longest = sorted(self._lives.values(), key=lambda life: -len(life.samples))
        outcome.memories = longest[: 2 * PROCESSES]
        if outcome.senders < PROCESSES and outcome.progress.made > PROCESSES:
            outcome.troubles.append("only one process of the client has sent anything")


def _seen(witness: Witness) -> object:
    """What is there, for people too; a session of ours may be ended as well."""
    try:
        return witness.progress(), witness.left()
    except psycopg.OperationalError as error:
        return str(error)
