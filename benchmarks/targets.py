"""The targets: what is compared, at least how much, and how much is aimed at."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product
from statistics import median
from typing import Any

from benchmarks import pairs, ways

Record = dict[str, Any]


class Results:
    """Looks figures up in records; a figure that was not measured is ``None``."""

    def __init__(self, records: list[Record]) -> None:
        self.records = records

    def all_of(self, figure: str, **about: object) -> list[float]:
        return [
            float(record[figure])
            for record in self.records
            if figure in record and all(record.get(name) == value for name, value in about.items())
        ]

    def one(self, figure: str, **about: object) -> float | None:
        """The median."""
        found = self.all_of(figure, **about)
        return median(found) if found else None

    def way(self, way: str, phase: str, figure: str = "rows_per_second") -> float | None:
        return self.one(figure, part="ways", way=way, phase=phase)


def ratio(one: float | None, other: float | None, factor: float = 1.0) -> float | None:
    return None if one is None or not other else factor * one / other


@dataclass(frozen=True, slots=True)
class Target:
    name: str
    at_least: float
    aim: float
    figure: Callable[[Results], float | None]
    unit: str = "x"
    #: The figure is an upper bound.
    below: bool = False

    def verdict(self, results: Results) -> tuple[float | None, str]:
        figure = self.figure(results)
        if figure is None:
            return None, "not measured"
        for limit, verdict in ((self.aim, "aim met"), (self.at_least, "met")):
            if (figure <= limit) if self.below else (figure >= limit):
                return figure, verdict
        return figure, "**not met**"


def _against(phase: str, one: str, other: str, figure: str = "rows_per_second") -> Callable[[Results], float | None]:
    return lambda results: ratio(results.way(one, phase, figure), results.way(other, phase, figure))


def _both_handlers(
    name: str,
    at_least: float,
    aim: float,
    phase: str,
    ordinary: str,
    lists: str,
    rival: str,
    figure: str = "rows_per_second",
) -> tuple[Target, Target]:
    """A line with the handler that is called for each row, as a plain rival's is, and one with that for lists of rows.

    :param ordinary: the way with the former.
    :param lists: the way with the latter.
    """
    below = figure != "rows_per_second"
    handlers = ((ordinary, "handler for one row"), (lists, "handler for lists"))
    one, several = (
        Target(f"{name}, {handler}", at_least, aim, _against(phase, way, rival, figure), below=below)
        for way, handler in handlers
    )
    return one, several


def _latencies() -> Iterator[Target]:
    """A line with the application that sends its messages itself, as a bare POST does, and one with another process
    that sends them."""
    bounds = {"p50": (2.0, 1.5), "p99": (5.0, 3.0), "max": (20.0, 10.0)}
    senders = {ways.BY_APPLICATION: "the application sends", ways.SAME: "another process sends"}
    for (quantile, (at_least, aim)), (way, sender) in product(bounds.items(), senders.items()):
        name = f"{quantile} at low load, as a multiple of one bare POST + two commits, {sender}"
        yield Target(name, at_least, aim, partial(_latency, way, quantile), below=True)


def _latency(way: str, quantile: str, results: Results) -> float | None:
    return ratio(results.way(way, "latency", quantile), results.way(ways.BARE_POST, "latency", "p50"))


def _commit(what: str) -> Callable[[Results], float | None]:
    return lambda results: ratio(
        results.one("cpu_us", part="commit", what=what), results.one("cpu_us", part="commit", what="two inserts")
    )


def _sequences(results: Results) -> float | None:
    """Of the measured number of sequences that is nearest to 1,000."""
    counts = {record["sequences"] for record in results.records if record.get("part") == "sequences"} - {1}
    if not counts:
        return None
    count = min(counts, key=lambda each: abs(each - 1000))
    return ratio(
        results.one("cpu_per_1000", part="sequences", sequences=count),
        results.one("cpu_per_1000", part="sequences", sequences=1, messages=3 * count),
    )


def _large(results: Results) -> float | None:
    found = results.all_of("peak_mb", part="large")
    return max(found) if found else None


def _console(results: Results) -> float | None:
    """The slowest request of any page, in any database; the first one of each page loads its template."""
    found = results.all_of("max_ms", part="console", messages=1_000_000)
    return max(found) if found else None


TARGETS = (
    *_both_handlers(
        "drain, one message a row, against outbox + RabbitMQ plain",
        3.0,
        4.5,
        "drain",
        ways.SINGLE,
        ways.SINGLE_LISTS,
        ways.RABBIT,
    ),
    *_both_handlers(
        "drain, one message a row, against outbox + RabbitMQ tuned, whose consumer inserts 50 rows at once",
        0.7,
        1.0,
        "drain",
        ways.SINGLE,
        ways.SINGLE_LISTS,
        ways.RABBIT_TUNED,
    ),
    *_both_handlers(
        "drain, one message a row, against outbox + HTTP, one row a request",
        5.0,
        8.0,
        "drain",
        ways.SINGLE,
        ways.SINGLE_LISTS,
        ways.HTTP,
    ),
    Target(
        "drain with batches, handler for lists, against outbox + HTTP with 50 rows a request, inserted at once",
        0.5,
        0.8,
        _against("drain", ways.LISTS, ways.HTTP_50),
    ),
    *_both_handlers("stream, against outbox + RabbitMQ plain", 1.5, 2.0, "stream", ways.SAME, ways.LISTS, ways.RABBIT),
    *_both_handlers(
        "CPU seconds per 1,000 rows, drain, against RabbitMQ tuned, whose consumer inserts 50 rows at once",
        1.5,
        1.0,
        "drain",
        ways.SAME,
        ways.LISTS,
        ways.RABBIT_TUNED,
        "cpu_per_1000",
    ),
    *_latencies(),
    *(
        Target(
            "CPU of an application's commit with one send, against its own commit with an insert more by SQLAlchemy"
            f"{form}",
            2.0,
            1.3,
            _commit(what),
            below=True,
        )
        for form, what in (
            (", its own insert by execute_later", "one insert that may wait and a send"),
            (", its own insert by SQLAlchemy too", "one insert and a send"),
        )
    ),
    Target("1,000 sequences of 3 messages, CPU a message against one sequence", 2.0, 1.3, _sequences, below=True),
    Target("memory for 8 messages of 7.9 MB in flight, each side", 160, 100, _large, unit=" MB", below=True),
    Target(
        "XA on both sides, against PREPARE + COMMIT PREPARED on one connection",
        0.4,
        0.6,
        lambda results: ratio(results.way(ways.TWO_PHASE, "drain"), results.one("rows_per_second", part="prepared")),
    ),
    Target(
        "in-out drain, messages (requests + responses) against in-only",
        0.6,
        0.8,
        lambda results: ratio(results.way(ways.IN_OUT, "drain"), results.way(ways.SAME, "drain"), 2.0),
    ),
    Target(
        "memory store, messages/s against bare POSTs of the same envelope to the same endpoint",
        0.4,
        0.6,
        lambda results: ratio(results.way(ways.MEMORY, "drain"), results.one("rows_per_second", part="posts")),
    ),
    Target(
        "rows/s, drains in turns, with the metrics on, against the same with them off",
        0.97,
        0.99,
        lambda results: results.one("rows_ratio", part="pairs", what=pairs.ON),
    ),
    Target(
        "CPU seconds of Mercury per 1,000 rows, drains in turns, with the metrics on, against the same with them off",
        1.03,
        1.01,
        lambda results: results.one("cpu_ratio", part="pairs", what=pairs.ON),
        below=True,
    ),
    Target(
        "mercury dev: seconds from its first start to a message in the console",
        10.0,
        5.0,
        lambda results: results.one("message_seconds", part="dev", start="first"),
        unit=" s",
        below=True,
    ),
    Target(
        "two processes a side on two cores, against one",
        1.2,
        1.5,
        _against("drain", ways.TWO_PROCESSES, ways.KEYS),
    ),
    Target(
        "the same, drains in turns",
        1.2,
        1.5,
        lambda results: results.one("rows_ratio", part="pairs", what=pairs.TWO),
    ),
    Target(
        "simulation, CPU seconds a seed of 100 messages",
        0.12,
        0.06,
        lambda results: results.one("cpu_per_seed", part="simulation"),
        unit=" s",
        below=True,
    ),
    Target(
        "`mercury reconcile` 1M rows, session up",
        2.0,
        1.3,
        lambda results: results.one("seconds", part="reconcile", rows=1_000_000),
        unit=" s",
        below=True,
    ),
    Target("console page, 1,000,000 messages, the slowest request", 200, 100, _console, unit=" ms", below=True),
    Target(
        "lines a user writes",
        15,
        10,
        lambda results: results.one("lines", part="ways", way=ways.SAME),
        unit="",
        below=True,
    ),
)


class _Asked(Results):
    """Notes the ways that are looked up; none was measured."""

    def __init__(self) -> None:
        super().__init__([])
        self.ways: set[str] = set()

    def way(self, way: str, phase: str, figure: str = "rows_per_second") -> float | None:
        self.ways.add(way)
        return super().way(way, phase, figure)


def ways_of_targets() -> set[str]:
    """The names of the ways that a target compares."""
    asked = _Asked()
    for target in TARGETS:
        target.figure(asked)
    return asked.ways
