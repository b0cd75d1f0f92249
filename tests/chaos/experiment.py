"""The dissertation's experiment: messages while client and server are stopped and started, by each kind of store.

Each seed chooses where: the client is killed between the commit of the order that is marked and the storing of its
message, the server between its handler's work and the mark that it was done. Where these are one transaction, that is
nothing; where they are two, the first loses and the second repeats.
"""

from __future__ import annotations

import http.client
import json
import random
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.chaos.driver import Pair, Stop
from tests.chaos.forks import Fork
from tests.chaos.kinds import Form, Mode, Moment, Side, Way
from tests.chaos.lanes import Lane
from tests.chaos.programs.setup import HOST
from tests.chaos.verdict import Difference, Witness

ORDERS = 20
FORMS = (Form.MEMORY, Form.PLAIN, Form.SAME_DATABASE, Form.LAST_RESOURCE, Form.TWO_PHASE)
#: Seconds in which nothing happens any more where something is lost for good.
REST = 1.5
COMMAND = "python -m tests.chaos experiment"


@dataclass(frozen=True, slots=True)
class Plan:
    """One run."""

    form: Form
    seed: int

    @property
    def stops(self) -> dict[Side, Stop]:
        """Where each side is killed; the same for all forms."""
        chance = random.Random(self.seed)
        return {
            Side.CLIENT: ("send.store", Moment.BEFORE, chance.randint(2, ORDERS - 1)),
            Side.SERVER: ("invoke.mark", Moment.BEFORE, chance.randint(1, 3)),
        }


@dataclass(slots=True)
class Outcome:
    """What became of one run."""

    plan: Plan
    kills: int = 0
    difference: Difference = field(default_factory=Difference)
    prepared: int = 0
    trouble: str = ""


def plans(seeds: Iterable[int]) -> list[Plan]:
    """Every form with every seed."""
    return [Plan(form, seed) for seed in seeds for form in FORMS]


def run(lane: Lane, plan: Plan) -> Outcome:
    """Run one plan. Never raises for what is lost."""
    outcome = Outcome(plan)
    ground = lane.site.ground(plan.form)
    with Witness(ground, Mode.IN_ONLY) as witness:
        pair = Pair(lane.forks, ground, plan.form, Mode.IN_ONLY, Way.FETCHED)
        try:
            _play(plan, pair, witness, outcome)
        except AssertionError as error:
            outcome.trouble = str(error)
        finally:
            pair.end()
        outcome.difference, outcome.prepared = witness.difference(), len(witness.prepared())
    return outcome


def _play(plan: Plan, pair: Pair, witness: Witness, outcome: Outcome) -> None:
    running = {side: pair.start(side, stop) for side, stop in reversed(plan.stops.items())}
    waiting = dict(running)
    rest = Rest(pair.ports.server, witness)

    def is_over() -> bool:
        return rest.lasts(running) if plan.form.separate else witness.is_over()

    while True:
        pair.comes_to(running[Side.CLIENT], lambda: any(map(stands, waiting.values())) or is_over(), "the end")
        stopped = [side for side, fork in waiting.items() if stands(fork)]
        if not stopped:
            return
        for side in stopped:
            fork = waiting.pop(side)
            fork.stops()
            fork.kill()
            outcome.kills += 1
            running[side] = pair.start(side)


def stands(fork: Fork) -> bool:
    """Whether it has come to its point."""
    return "at " in fork.out


class Rest:
    """Whether nothing happens any more, although not everything has arrived."""

    def __init__(self, port: int, witness: Witness) -> None:
        self._port = port
        self._witness = witness
        self._seen: object = None
        self._since = 0.0

    def lasts(self, running: dict[Side, Fork]) -> bool:
        if "done\n" not in running[Side.CLIENT].out:
            return False
        now = (self._waiting(), self._witness.progress())
        if now != self._seen:
            self._seen, self._since = now, time.monotonic()
        return time.monotonic() - self._since > REST

    def _waiting(self) -> str:
        """The server's sequences, as it tells them to this machine."""
        connection = http.client.HTTPConnection(HOST, self._port, timeout=5)
        try:
            connection.request("GET", "/mercury/status/sequences")
            status = json.loads(connection.getresponse().read())
            return str([(each["identifier"], each["ranges"], each["waiting"]) for each in status])
        except (OSError, http.client.HTTPException, ValueError) as error:
            return str(error)
        finally:
            connection.close()


# --- the table -----------------------------------------------------------------------------------------------------


def table(outcomes: Sequence[Outcome], command: str) -> str:
    """The outcomes by form, as Markdown."""
    seeds = len({outcome.plan.seed for outcome in outcomes})
    lines = [
        f"`{command}`: {seeds} seeds, {ORDERS} messages a run.",
        "",
        "| store and application | kills | messages | lost | repeated | out of order | runs in which something was |",
        "|---|---|---|---|---|---|---|",
    ]
    for form in FORMS:
        mine = [outcome for outcome in outcomes if outcome.plan.form is form]
        found = sum((outcome.difference for outcome in mine), Difference())
        wrong = sum(bool(outcome.difference) for outcome in mine)
        kills = sum(outcome.kills for outcome in mine)
        figures = (kills, len(mine) * ORDERS, found.lost, found.repeated, found.out_of_order, f"{wrong} of {len(mine)}")
        lines.append(f"| {form.value} | {' | '.join(map(str, figures))} |")
    return "\n".join(lines)


def wrong(outcomes: Iterable[Outcome]) -> list[str]:
    """What should not have come out: a loss where none may be, and none where there is nothing that forbids it."""
    found = []
    unsafe: dict[Form, bool] = {}
    for outcome in outcomes:
        plan = outcome.plan
        name = f"seed {plan.seed}, {plan.form.value}"
        if outcome.trouble:
            found.append(f"{name}: {outcome.trouble}")
        if plan.form.separate:
            unsafe[plan.form] = unsafe.get(plan.form, False) or bool(outcome.difference)
        elif outcome.difference or outcome.prepared:
            found.append(f"{name}: {outcome.difference}, {outcome.prepared} left prepared")
    return found + [f"{form.value}: nothing was lost or repeated" for form, seen in unsafe.items() if not seen]


def as_json(outcomes: Iterable[Outcome]) -> list[dict[str, Any]]:
    """Every run, for programs."""
    return [
        {
            "form": outcome.plan.form.value,
            "seed": outcome.plan.seed,
            "kills": outcome.kills,
            "lost": outcome.difference.lost,
            "repeated": outcome.difference.repeated,
            "out_of_order": outcome.difference.out_of_order,
            "left_prepared": outcome.prepared,
            "trouble": outcome.trouble,
        }
        for outcome in outcomes
    ]
