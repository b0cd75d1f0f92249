"""A run of the benchmarks can be cut short and continued: nothing is measured twice, and nothing counts in part."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from benchmarks import costs, growth, rounds, steps, ways
from benchmarks.ledger import NAME, Ledger, lines_of, measured_commit, seconds_of
from benchmarks.rounds import Bench, GivenUp, Record
from benchmarks.steps import Course, Step, Wanted, all_steps
from benchmarks.targets import ways_of_targets
from mercury.postgres.embedded import EmbeddedPostgres

NOW = {"commit": "abc1234", "rows": 100, "quick": False}


class Clock:
    """Time that passes by measuring only."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def step(self, name: str, seconds: float, found: Iterable[Record] = ({"part": "found"},)) -> Step:
        def measure() -> Iterator[Record]:
            self.now += seconds
            yield from found

        return Step(name, measure, guess=10.0)


def course(folder: Path, clock: Clock, *, resume: bool = False, minutes: float | None = None) -> Course:
    return Course(ledger=Ledger(folder / NAME, NOW, resume=resume), known={}, minutes=minutes, clock=clock)


def names(records: list[dict[str, Any]]) -> list[str]:
    return [record["step"] for record in records]


def failing() -> Iterator[Record]:
    yield {"part": "found"}
    raise GivenUp("a row is missing")


# --- continued -----------------------------------------------------------------------------------------------------


def test_step_that_has_ended_is_not_measured_again(tmp_path: Path) -> None:
    clock = Clock()
    first, again = course(tmp_path, clock), course(tmp_path, clock)
    with first.ledger:
        first.run([clock.step("one", 5)])
    again.ledger = Ledger(tmp_path / NAME, NOW, resume=True)
    with again.ledger:
        again.run([clock.step("one", 5), clock.step("two", 7)])
    assert clock.now == 12
    assert names(again.ledger.records) == ["one", "two"]
    assert seconds_of([tmp_path / NAME]) == {"one": 5.0, "two": 7.0}


@pytest.mark.parametrize("other", [{"commit": "fffffff"}, {"rows": 200}, {"quick": True}])
def test_figures_of_other_conditions_are_not_taken(tmp_path: Path, other: dict[str, object]) -> None:
    with Ledger(tmp_path / NAME, NOW | other, resume=False) as ledger:
        ledger.add("one", {"part": "found"})
        ledger.end("one", 1.0)
    assert Ledger(tmp_path / NAME, NOW, resume=True).ended == set()


def test_step_that_was_interrupted_is_measured_in_full(tmp_path: Path) -> None:
    with Ledger(tmp_path / NAME, NOW, resume=False) as ledger:
        ledger.add("one", {"part": "found", "attempt": "interrupted"})
    with (tmp_path / NAME).open("a") as file:
        file.write('{"step": "one", "par')  # the machine lost its power
    clock = Clock()
    continued = course(tmp_path, clock, resume=True)
    with continued.ledger:
        continued.run([clock.step("one", 5)])
    assert [record.get("attempt") for record in continued.ledger.records] == [None]


def test_without_resume_nothing_of_before_counts(tmp_path: Path) -> None:
    with Ledger(tmp_path / NAME, NOW, resume=False) as ledger:
        ledger.end("one", 1.0)
    with Ledger(tmp_path / NAME, NOW, resume=False):
        pass
    assert lines_of(tmp_path / NAME) == []


@pytest.mark.parametrize(
    "step",
    [
        Step("one", failing, 1.0),
        Step("one", lambda: [{"part": "skipped", "way": "one", "reason": "no package"}], 1.0),
    ],
    ids=["raises", "says so"],
)
def test_step_that_was_skipped_is_tried_again(tmp_path: Path, step: Step) -> None:
    tried = course(tmp_path, Clock())
    with tried.ledger:
        tried.run([step])
    assert [record["part"] for record in tried.ledger.records][-1] == "skipped"
    assert Ledger(tmp_path / NAME, NOW, resume=True).ended == set()


def git(folder: Path, *arguments: str) -> None:
    author = ("-c", "user.name=somebody", "-c", "user.email=somebody@example.org")
    subprocess.run(["git", *author, *arguments], cwd=folder, check=True, capture_output=True)


def test_commit_of_results_alone_does_not_change_what_is_measured(tmp_path: Path) -> None:
    files = [tmp_path / "mercury/engine.py", tmp_path / "benchmarks/RESULTS.md", tmp_path / f"benchmarks/{NAME}"]
    for file in files:
        file.parent.mkdir(exist_ok=True)
        file.write_text("")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "all")
    measured = measured_commit(tmp_path)
    assert measured is not None
    for file in files[1:]:
        file.write_text("figures")
    assert measured_commit(tmp_path) == measured
    git(tmp_path, "commit", "-qam", "figures")
    assert measured_commit(tmp_path) == measured
    files[0].write_text("changed")
    assert measured_commit(tmp_path) is None
    git(tmp_path, "commit", "-qam", "changed")
    assert measured_commit(tmp_path) not in (None, measured)


# --- bounded -------------------------------------------------------------------------------------------------------


def test_no_step_begins_that_would_end_too_late(tmp_path: Path) -> None:
    clock = Clock()
    bounded = course(tmp_path, clock, minutes=1)
    bounded.known = {"long": 300.0}
    with bounded.ledger:
        left = bounded.run([clock.step("one", 45), clock.step("long", 300), clock.step("short", 5)])
    assert left == ["long"]
    assert names(bounded.ledger.records) == ["one", "short"]


def test_round_takes_as_long_as_the_one_before(tmp_path: Path) -> None:
    clock = Clock()
    rounds_of_one = [clock.step(f"ways: one, round {number}", 30) for number in (1, 2, 3)]
    bounded = course(tmp_path, clock, minutes=1)
    assert bounded.expected(rounds_of_one[0]) == 10.0
    with bounded.ledger:
        left = bounded.run(rounds_of_one)
    assert bounded.expected(rounds_of_one[2]) == 30.0
    assert left == ["ways: one, round 3"]


# --- the order -----------------------------------------------------------------------------------------------------


def planned(**options: Any) -> list[str]:
    bench = Bench(postgres=EmbeddedPostgres(Path("unused")), folder=Path("unused"), rows=10_000)
    wanted = Wanted(**{"parts": ("ways", "costs", "growth", "stage"), "rounds": 3} | options)
    return [step.name for step in all_steps(bench, wanted, str)]


def test_ways_of_targets_are_measured_first() -> None:
    found = planned()
    compared = ways_of_targets()
    first = [f"ways: {kind.name}, round 1" for kind in ways.kinds() if kind.name in compared]
    assert found[: len(first)] == first
    last = max(
        index for index, name in enumerate(found) if name.partition(", round")[0].removeprefix("ways: ") in compared
    )
    assert last == 3 * len(first) - 1
    assert found[last + 1 : last + 1 + len(costs.COSTS)] == [f"costs: {each.__name__}" for each in costs.COSTS]
    assert found[last + 1 + len(costs.COSTS)] == f"growth: sequences {steps.SEQUENCES}"


def test_every_way_of_a_target_exists() -> None:
    assert ways_of_targets() <= {kind.name for kind in ways.kinds()}


def test_all_sizes_are_measured_once_and_the_longest_last() -> None:
    found = [name for name in planned() if name.startswith("growth")]
    assert len(found) == len(set(found)) == sum(len(whole) for _, _, whole in growth.GROWTH)
    assert found[-1] == "growth: outstanding 1000000"


def test_way_that_cannot_run_is_skipped_in_later_rounds_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    tried: list[int] = []

    def unable(_bench: Bench, _kind: ways.Kind, number: int) -> list[Record]:
        tried.append(number)
        raise GivenUp("rows are missing")

    monkeypatch.setattr(steps, "one_round", unable)
    bench = Bench(postgres=EmbeddedPostgres(tmp_path), folder=tmp_path, rows=10)
    wanted = Wanted(parts=("ways",), rounds=3, only=(ways.SAME,))
    run = course(tmp_path, Clock())
    with run.ledger:
        run.run(all_steps(bench, wanted, str))
    assert tried == [0]
    assert [record["part"] for record in run.ledger.records] == ["skipped"] * 3


def test_slow_way_gets_its_share_of_the_rows(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[int] = []

    class Phases:
        def __init__(self, bench: Bench, way: ways.Way, broker: int | None) -> None:
            del way, broker
            asked.append(bench.rows)

        def stream(self) -> Record:
            return {}

        def check(self) -> None:
            pass

    made = ways.Way(
        name="slow", processes={}, application=[], arrivals=partial(ways._in_memory, False), moves_backlog=False
    )
    monkeypatch.setattr(rounds, "Round", Phases)
    monkeypatch.setattr(Bench, "drop", lambda *_: None)
    bench = Bench(postgres=EmbeddedPostgres(tmp_path), folder=tmp_path, rows=10_000)
    rounds._measure(bench, ways.Kind("slow", lambda *_: made, share=0.2))
    assert asked == [2000]
