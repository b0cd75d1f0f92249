"""The same drain in two ways, many times in turns: what a small difference makes.

One way alone differs by tens of percent from round to round on a small machine. The drains of a turn follow each other
at once, their order changes from turn to turn, and each turn gives one ratio. A third way, which is the second one
again, gives the ratio that no difference has: what the measurement cannot see.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace

from benchmarks import ways
from benchmarks.rounds import Bench, Record, Round, progress, quantile

ON, OFF, AGAIN = "metrics on", "metrics off", "metrics off, again"
TWO, ONE, ONE_AGAIN = "two processes", "one process", "one process, again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Ways that are compared."""

    #: Each with its name in the records; the second one is what the others are compared with.
    ways: Mapping[str, str]
    #: A multiple of six has each of the six orders of three ways equally often.
    turns: int
    rows: int


METRICS = Comparison(ways={ON: ways.METRICS, OFF: ways.SAME, AGAIN: ways.SAME}, turns=12, rows=3000)
PROCESSES = Comparison(ways={TWO: ways.TWO_PROCESSES, ONE: ways.KEYS, ONE_AGAIN: ways.KEYS}, turns=12, rows=10_000)
#: What is added up: the processes of Mercury, without PostgreSQL.
MERCURY = ("client", "server")
#: The shares of the ratios that are below the figures, by the end of their names.
SHARES = {"": 0.5, "_quarter": 0.25, "_three_quarters": 0.75}


def compared_in_turns(bench: Bench, comparison: Comparison) -> Iterator[Record]:
    """Drains of all ways in turns: a record of each turn and way, against the second way, and one for all turns."""
    mine = replace(bench, rows=comparison.rows, settle=min(bench.settle, 0.3))
    mine.runs = bench.runs + 1000  # names of databases that no other part has
    kinds = {kind.name: kind for kind in ways.kinds()}
    _, base, *_ = comparison.ways
    others = [name for name in comparison.ways if name != base]
    with ExitStack() as stack:
        rounds = {}
        for name, kind in comparison.ways.items():
            run = mine.new_run()
            way = kinds[kind].make(mine.postgres, mine.folder, run)
            stack.callback(mine.drop, run)
            rounds[name] = Round(mine, way, None)
        found: list[Record] = []
        for number, of_turn in in_turns({name: each.drain for name, each in rounds.items()}, comparison.turns):
            for name in others:
                ratios = compared(of_turn[name], of_turn[base])
                progress(f"turn {number}: {name}: CPU {ratios['cpu_ratio']:.3f}, rows/s {ratios['rows_ratio']:.3f}")
                found.append({"part": "pair", "what": name, "turn": number, "rows": comparison.rows, **ratios})
                yield found[-1]
        for each in rounds.values():
            each.check()
        for name in others:
            mine_only = [each for each in found if each["what"] == name]
            size = {"turns": comparison.turns, "rows": comparison.rows}
            yield {"part": "pairs", "what": name, "against": base, **size, **summary(mine_only)}


def in_turns(runs: Mapping[str, Callable[[], Record]], turns: int) -> Iterator[tuple[int, dict[str, Record]]]:
    """Each turn with what it gave, after one turn that does not count. Every run is the first one equally often."""
    names = list(runs)
    for number in range(-1, turns):
        first = number % len(names)
        order = names[first:] + names[:first]
        found = {name: runs[name]() for name in (order if number % 2 else [order[0], *reversed(order[1:])])}
        if number >= 0:
            yield number, found


def compared(one: Record, other: Record) -> dict[str, float]:
    """The ratios of the CPU seconds of Mercury's processes for 1,000 rows, and of the rows a second."""
    speeds = [float(str(each["rows_per_second"])) for each in (one, other)]
    return {
        "cpu": _cpu(one),
        "cpu_of_other": _cpu(other),
        "cpu_ratio": _cpu(one) / _cpu(other),
        "rows_ratio": speeds[0] / speeds[1],
    }


def summary(found: list[Record]) -> Record:
    """The median and the quartiles of the ratios of all turns."""
    values = {name: [float(str(each[name])) for each in found] for name in ("cpu_ratio", "rows_ratio")}
    return {
        f"{name}{ending}": round(quantile(each, share), 4)
        for name, each in values.items()
        for ending, share in SHARES.items()
    }


def _cpu(record: Record) -> float:
    cpu = record["cpu"]
    assert isinstance(cpu, dict)
    return sum(float(cpu[side]) for side in MERCURY)
