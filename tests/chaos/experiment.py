"""The dissertation's experiment: orders are sent while client and server are killed, with each kind of store.

The client is killed between marking an order as sent and storing its message, the server between its handler's commit
and the record that the message is consumed; the seed selects the orders. If both steps are one transaction, nothing
happens. If they are two, the first kill loses an order and the second one repeats an order.
"""

from __future__ import annotations

import http.client
import itertools
import json
import random
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.chaos.driver import Pair, Stop
from tests.chaos.forks import Fork
from tests.chaos.kinds import Form, Mode, Moment, Side, Way
from tests.chaos.lanes import Lane
from tests.chaos.programs.setup import HOST
from tests.chaos.verdict import Difference, Witness

ORDERS = 20
#: The number of kills in every run, one on each side.
KILLS = 2
FORMS = (Form.MEMORY, Form.PLAIN, Form.SAME_DATABASE, Form.LAST_RESOURCE, Form.TWO_PHASE)
#: Seconds without progress after which a run with losses ends: after the client has finished and the server has
#: delivered what it has, and while one of them still waits, perhaps for a response that cannot come.
REST, LONG_REST = 1.5, 8.0
COMMAND = "python -m tests.chaos experiment"


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of one run."""

    form: Form
    seed: int
    mode: Mode = Mode.IN_ONLY

    @property
    def name(self) -> str:
        return f"seed {self.seed}, {self.form.value}, {self.mode.value}"

    @property
    def stops(self) -> dict[Side, Stop]:
        """The crash point of each side, the same for all forms."""
        chance = random.Random(self.seed)
        return {
            Side.CLIENT: ("send.store", Moment.BEFORE, chance.randint(2, ORDERS - 1)),
            Side.SERVER: ("invoke.insert", Moment.AFTER, chance.randint(1, ORDERS // 2)),
        }


@dataclass(slots=True)
class Outcome:
    """The result of one run."""

    plan: Plan
    kills: int = 0
    difference: Difference = field(default_factory=Difference)
    prepared: int = 0
    error: str = ""


def plans(seeds: Iterable[int]) -> list[Plan]:
    """The plans for every form and mode with every seed."""
    return [Plan(form, seed, mode) for seed in seeds for form in FORMS for mode in Mode]


def run(lane: Lane, plan: Plan) -> Outcome:
    """Run one plan. Losses are in the outcome, not raised."""
    outcome = _try(lane, plan, plan.stops)
    if outcome.kills < KILLS and not outcome.error:
        # So many orders were lost with the client that the server never reached its point.
        outcome = _try(lane, plan, plan.stops | {Side.SERVER: ("invoke.insert", Moment.AFTER, 1)})
    return outcome


def _try(lane: Lane, plan: Plan, stops: dict[Side, Stop]) -> Outcome:
    outcome = Outcome(plan)
    databases = lane.site.databases(plan.form)
    with Witness(databases, plan.mode) as witness:
        pair = Pair(lane.forks, databases, plan.form, plan.mode, Way.FETCHED)
        try:
            _play(plan, stops, pair, witness, outcome)
        except AssertionError as error:
            outcome.error = str(error)
        finally:
            pair.end()
        outcome.difference, outcome.prepared = witness.difference(), len(witness.prepared())
    return outcome


def _play(plan: Plan, stops: dict[Side, Stop], pair: Pair, witness: Witness, outcome: Outcome) -> None:
    running = {side: pair.start(side, stop) for side, stop in reversed(stops.items())}
    waiting = dict(running)
    rest = Rest(pair.ports.server, witness)

    def is_over() -> bool:
        return rest.lasts(running) if plan.form.separate else witness.is_over()

    while True:
        pair.comes_to(
            running[Side.CLIENT], lambda: any(map(is_at_point, waiting.values())) or is_over(), "the end", witness
        )
        stopped = [side for side, fork in waiting.items() if is_at_point(fork)]
        if not stopped:
            return
        for side in stopped:
            fork = waiting.pop(side)
            fork.stops()
            fork.kill()
            outcome.kills += 1
            running[side] = pair.start(side)


def is_at_point(fork: Fork) -> bool:
    """Whether the process has reached its crash point."""
    return "at " in fork.out


class Rest:
    """Detects that a run makes no progress any more although not everything has arrived."""

    def __init__(self, port: int, witness: Witness, clock: Callable[[], float] = time.monotonic) -> None:
        self._port = port
        self._clock = clock
        self._witness = witness
        self._seen: object = None
        self._since = 0.0

    def lasts(self, running: dict[Side, Fork]) -> bool:
        printed = running[Side.CLIENT].out
        if "sent\n" not in printed:
            return False
        sequences = self._sequences()
        if sequences is None:  # a server that starts again is no rest, however long it takes
            self._since = self._clock()
            return False
        seen = (sequences, self._witness.progress())
        if seen != self._seen:
            self._seen, self._since = seen, self._clock()
        is_done = "done\n" in printed and not any(waiting for _, _, waiting in sequences)
        return self._clock() - self._since > (REST if is_done else LONG_REST)

    def _sequences(self) -> list[tuple[Any, ...]] | None:
        """Each sequence of the server: its name, what it received, how much waits; ``None`` if it does not answer."""
        connection = http.client.HTTPConnection(HOST, self._port, timeout=5)
        try:
            connection.request("GET", "/mercury/status/sequences")
            status = json.loads(connection.getresponse().read())
            return [(each["identifier"], each["ranges"], each["waiting"]) for each in status]
        except (OSError, http.client.HTTPException, ValueError):
            return None
        finally:
            connection.close()


# --- the table -----------------------------------------------------------------------------------------------------


def table(outcomes: Sequence[Outcome], command: str) -> str:
    """The outcomes by form, as Markdown."""
    seeds = len({outcome.plan.seed for outcome in outcomes})
    lines = [
        f"`{command}`: {seeds} seeds, {ORDERS} messages a run; a lost or repeated response counts as its request does.",
        "",
        "| store and application | messages | runs | kills | lost | repeated | out of order | runs with any |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for form, mode in itertools.product(FORMS, Mode):
        mine = [outcome for outcome in outcomes if (outcome.plan.form, outcome.plan.mode) == (form, mode)]
        found = sum((outcome.difference for outcome in mine), Difference())
        wrong = sum(bool(outcome.difference) for outcome in mine)
        kills = sum(outcome.kills for outcome in mine)
        figures = (mode.value, len(mine), kills, found.lost, found.repeated, found.out_of_order, wrong)
        lines.append(f"| {form.value} | {' | '.join(map(str, figures))} |")
    return "\n".join(lines)


def wrong(outcomes: Iterable[Outcome]) -> list[str]:
    """Unexpected results: a loss with a form that forbids it, or no loss with one that does not."""
    found = []
    unsafe: dict[tuple[Form, Mode], bool] = {}
    for outcome in outcomes:
        plan = outcome.plan
        if outcome.error:
            found.append(f"{plan.name}: {outcome.error}")
        elif outcome.kills != KILLS:
            found.append(f"{plan.name}: {outcome.kills} kills, and not {KILLS}")
        if plan.form.separate:
            kind = plan.form, plan.mode
            unsafe[kind] = unsafe.get(kind, False) or bool(outcome.difference)
        elif outcome.difference or outcome.prepared:
            found.append(f"{plan.name}: {outcome.difference}, {outcome.prepared} left prepared")
    quiet = [(form, mode) for (form, mode), seen in unsafe.items() if not seen]
    return found + [f"{form.value}, {mode.value}: nothing was lost or repeated" for form, mode in quiet]


def as_json(outcomes: Iterable[Outcome]) -> list[dict[str, Any]]:
    """Every run as a JSON value."""
    return [
        {
            "form": outcome.plan.form.value,
            "mode": outcome.plan.mode.value,
            "seed": outcome.plan.seed,
            "kills": outcome.kills,
            "lost": outcome.difference.lost,
            "repeated": outcome.difference.repeated,
            "out_of_order": outcome.difference.out_of_order,
            "left_prepared": outcome.prepared,
            "error": outcome.error,
        }
        for outcome in outcomes
    ]
