"""The steps of a run: what is measured as a whole, in which order, and how long each takes.

What the targets compare comes first, so that a run which is bounded in time has it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import console_pages, costs, dev_start, growth, pairs, rival_packages, stage, ways
from benchmarks.brokers import Unavailable
from benchmarks.child import ChildEnded
from benchmarks.ledger import Ledger
from benchmarks.rounds import Bench, GivenUp, Record, one_round, progress
from benchmarks.targets import ways_of_targets
from benchmarks.ways import Kind, kinds

#: The part of a step that was left out, because the time was over.
LEFT_OUT = "left out"
#: Sequences, three messages each, of the target for many of them.
SEQUENCES = 1000


@dataclass(frozen=True, slots=True)
class Step:
    name: str
    measure: Callable[[], Iterable[Record]]
    #: Seconds that it takes as far as is known beforehand.
    guess: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a run shall measure."""

    parts: tuple[str, ...]
    rounds: int
    only: tuple[str, ...] = ()
    quick: bool = False
    #: The largest size of growth.
    largest: int | None = None
    console: console_pages.Asked = field(default_factory=console_pages.Asked)


def chosen_kinds(only: Iterable[str]) -> list[Kind]:
    """The ways whose names contain one of these texts; a text that is a whole name means that way only.

    Without a text these are all but the one with the metrics on, which the part ``metrics`` measures more closely.
    """
    every = kinds()
    names = {kind.name.lower() for kind in every}
    texts = [text.lower() for text in only]
    if not texts:
        return [kind for kind in every if kind.name != ways.METRICS]
    return [
        kind
        for kind in every
        if any(text == kind.name.lower() if text in names else text in kind.name.lower() for text in texts)
    ]


# --- the order -----------------------------------------------------------------------------------------------------


def all_steps(bench: Bench, wanted: Wanted, new_database: Callable[[str], str]) -> list[Step]:
    """The steps in their order.

    :param new_database: makes a database of a name, and returns its URL.
    """
    chosen, compared = chosen_kinds(wanted.only), ways_of_targets()
    first = _of_ways(bench, [kind for kind in chosen if kind.name in compared], wanted.rounds)
    others = _of_ways(bench, [kind for kind in chosen if kind.name not in compared], wanted.rounds)
    grown = list(_of_growth(bench, wanted))
    many = [step for step in grown if step.name == f"growth: sequences {SEQUENCES}"]
    late = [step for step in grown if step not in many]
    folder, quick = bench.folder, wanted.quick
    rows = 20_000 if quick else 1_000_000
    by_part: list[tuple[str, list[Step]]] = [
        ("ways", first),
        ("costs", [Step(f"costs: {each.__name__}", partial(each, bench), 20) for each in costs.COSTS]),
        ("growth", many),
        ("dev", [Step("dev", partial(dev_start.all_starts, folder), 20)]),
        ("reconcile", [Step(f"reconcile: {rows} rows", partial(costs.reconciled, rows), 60)]),
        ("console", _of_consoles(wanted.console, new_database, folder)),
        ("metrics", [_in_turns("metrics", bench, pairs.METRICS, quick=quick)]),
        ("processes", [_in_turns("processes", bench, pairs.PROCESSES, quick=quick)]),
        ("ways", others),
        ("growth", late),
        ("stage", [Step("stage", partial(stage.all_stages, new_database, folder, quick=quick), 240)]),
    ]
    return [step for part, steps in by_part if part in wanted.parts for step in steps]


def _of_ways(bench: Bench, chosen: list[Kind], rounds: int) -> list[Step]:
    """All ways in each round, in turns; one that cannot run is skipped with the reason, also in later rounds."""
    skipped: set[str] = set()
    guess = 20 + bench.rows / 500
    return [
        Step(f"ways: {kind.name}, round {number + 1}", partial(_one_way, bench, kind, number, skipped), guess)
        for number in range(rounds)
        for kind in chosen
    ]


def _one_way(bench: Bench, kind: Kind, number: int, skipped: set[str]) -> Iterable[Record]:
    if kind.name in skipped:
        raise GivenUp("skipped as in the round before")
    try:
        found = one_round(bench, kind, number)
    except (Unavailable, rival_packages.NotInstalled, GivenUp, ChildEnded):
        skipped.add(kind.name)
        raise
    speeds = (f"{record['phase']} {float(str(record['rows_per_second'])):.0f}/s" for record in found)
    progress(f"  {', '.join(speeds)}")
    return found


def _in_turns(name: str, bench: Bench, comparison: pairs.Comparison, *, quick: bool) -> Step:
    mine = replace(comparison, turns=3, rows=100) if quick else comparison
    return Step(f"{name}: {mine.turns} turns", partial(pairs.compared_in_turns, bench, mine), 600)


def _of_growth(bench: Bench, wanted: Wanted) -> Iterator[Step]:
    """The sizes of all that grows, the small ones first."""
    sizes = [
        (size, measure)
        for measure, small, whole in growth.GROWTH
        for size in (small if wanted.quick else whole)
        if wanted.largest is None or size <= wanted.largest
    ]
    for size, measure in sorted(sizes, key=lambda each: growth.guess(each[1], each[0])):
        name = f"growth: {measure.__name__} {size}"
        yield Step(name, partial(measure, bench, size), growth.guess(measure, size))


def _of_consoles(asked: console_pages.Asked, new_database: Callable[[str], str], folder: Path) -> list[Step]:
    return [
        Step(
            f"console: {kind}, {asked.messages} messages in {asked.sequences} sequences, {asked.requests} requests",
            partial(console_pages.one_console, kind, new_database, folder, asked),
            30 + asked.messages / 10_000,
        )
        for kind in asked.stores
    ]


# --- the run -------------------------------------------------------------------------------------------------------


@dataclass(kw_only=True)
class Course:
    """Runs steps, says how much is left, and leaves out what the time does not suffice for.

    :param known: the seconds that steps have taken before, by their names.
    :param minutes: of the whole run; ``None`` = as long as it takes.
    :param after: is called after each step that was measured.
    """

    ledger: Ledger
    known: dict[str, float]
    minutes: float | None = None
    after: Callable[[], None] = lambda: None
    clock: Callable[[], float] = time.monotonic

    def run(self, steps: list[Step]) -> list[str]:
        """Measure the steps that have not ended; those that were left out."""
        begun, todo, left = self.clock(), [step for step in steps if step.name not in self.ledger.ended], []
        about = f"{len(todo)} steps, about {_minutes(sum(map(self.expected, todo)))}"
        progress(f"{about}; {len(steps) - len(todo)} were measured before")
        for number, step in enumerate(todo, 1):
            now, expected = self.clock(), self.expected(step)
            if self.minutes is not None and now - begun + expected > 60 * self.minutes:
                left.append(step.name)
                continue
            rest = _minutes(sum(map(self.expected, todo[number - 1 :])))
            progress(f"[{number} of {len(todo)}, about {rest} left] {step.name}")
            self._measure(step)
            self.known[step.name] = self.clock() - now
            self.after()
        if left:
            progress(f"left out, because {self.minutes:g} minutes were not enough: {'; '.join(left)}")
        return left

    def expected(self, step: Step) -> float:
        """The seconds that a step will take, by itself or by another round of it before, else as guessed."""
        base = step.name.rpartition(", round ")[0]
        rounds = [seconds for name, seconds in self.known.items() if base and name.rpartition(", round ")[0] == base]
        return self.known.get(step.name) or (rounds[-1] if rounds else step.guess)

    def _measure(self, step: Step) -> None:
        """Keep what the step gives. One that cannot be measured has no end, so that it is tried again."""
        begun, whole = self.clock(), True
        try:
            for record in step.measure():
                whole = whole and record["part"] != "skipped"
                self.ledger.add(step.name, record)
        except FAILURES as error:
            progress(f"  skipped: {error}")
            self.ledger.add(step.name, {"part": "skipped", "way": step.name, "reason": str(error)})
            return
        if whole:
            self.ledger.end(step.name, self.clock() - begun)


#: What a measurement raises if it cannot be made.
FAILURES: tuple[type[Exception], ...] = (
    Unavailable,
    rival_packages.NotInstalled,
    GivenUp,
    ChildEnded,
    *costs.FAILURES,
)


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"


def left_out(names: list[str], minutes: float | None) -> list[dict[str, Any]]:
    """The records of steps that were left out, for the page of results."""
    return [{"part": LEFT_OUT, "way": name, "minutes": minutes} for name in names]
