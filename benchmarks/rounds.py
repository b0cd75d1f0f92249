"""One round of a way: a stream, a drain, and lone messages, each measured."""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from benchmarks import brokers
from benchmarks.child import Child
from benchmarks.machine import busy_seconds, cpu_seconds, forget_peak, peak_memory
from benchmarks.ways import Kind, Running, Way, arrivals_of, connect
from mercury.postgres.embedded import EmbeddedPostgres

#: Seconds between two looks for arrived rows.
LOOK = 0.01
#: Rows in a transaction of a committed backlog.
PER_TRANSACTION = 100
#: CPUs that foreign processes may use before a round counts as disturbed.
DISTURBED = 0.2
Record = dict[str, object]


class GivenUp(Exception):
    """A run has not ended in time, or its rows are wrong."""


@dataclass(kw_only=True)
class Bench:
    """What all measurements share."""

    postgres: EmbeddedPostgres
    folder: Path
    rows: int
    #: Lone messages of the latency run, and seconds between two.
    lone: int = 100
    pause: float = 0.05
    #: Seconds between the last arrival and a pause of the processes.
    settle: float = 1.0
    #: How often a disturbed round is repeated, and how many repetitions a whole run has at most.
    repeats: int = 1
    spare: int = 10
    #: Seconds after which a run is given up.
    patience: float = 300.0
    runs: int = field(default=0, init=False)

    def new_run(self) -> str:
        """A name for the databases of a run."""
        self.runs += 1
        return f"run_{self.runs}"

    @property
    def postmaster(self) -> int:
        pid = self.postgres.pid
        assert pid is not None
        return pid

    def checkpoint(self) -> None:
        """Write PostgreSQL's buffers, so that no measured phase pays for the one before."""
        with connect(self.postgres.url(), autocommit=True) as connection:
            connection.execute("checkpoint")

    def drop(self, run: str) -> None:
        """Drop the databases of a run."""
        with connect(self.postgres.url(), autocommit=True) as connection:
            query = "select datname from pg_database where datname like %s"
            names = [row[0] for row in connection.execute(query, (f"{run}\\_%",)).fetchall()]
        for name in names:
            self.postgres.drop_database(name)


def progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def quantile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, round(share * (len(ordered) - 1)))]


# --- processes -----------------------------------------------------------------------------------------------------


@contextmanager
def started(way: Way, application: Child, *, sends: bool = True) -> Iterator[Running]:
    """Run the processes of a way until the end of the block.

    :param sends: start the application too, if it carries the rows.
    """
    with ExitStack() as stack:
        running = Running(application, {"client": [], "server": []})
        for side in ("server", "client"):
            for command in way.processes[side]:
                child = Child(command, way.environment, obeys=way.obeys)
                stack.callback(child.stop)
                running.sides[side].append(child)
            if side == "server" and not way.obeys and "HTTP_PORT" in way.environment and running.sides[side]:
                _wait_for_port(int(way.environment["HTTP_PORT"]), way)
        if way.together and sends:
            application.ask("start")
        yield running


def _wait_for_port(port: int, way: Way) -> None:
    """Wait a moment for an HTTP server; ways with a broker have none."""
    if not set(HTTP_MODULES) & set(way.application):
        return
    until = time.monotonic() + 30
    while time.monotonic() < until:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)


HTTP_MODULES = ("http_rows", "soap_floor", "bare_post")


def wait_for(way: Way, running: Running, rows: int, patience: float) -> int:
    """Wait until so many rows have arrived; how many have.

    :raises GivenUp: they do not arrive in time.
    :raises ChildEnded: a process has ended.
    """
    until = time.monotonic() + patience
    with way.arrivals(running) as arrived:
        while (there := arrived(rows)) < rows:
            if time.monotonic() > until:
                raise GivenUp(f"{there} of {rows} rows came within {patience:g} s")
            for child in (running.application, *running.sides["client"], *running.sides["server"]):
                child.check()
            time.sleep(LOOK)
        return there


# --- usage ---------------------------------------------------------------------------------------------------------


class Usage:
    """Measures from its making to `end`."""

    def __init__(self, bench: Bench, running: Running, broker: int | None, *, commits: bool) -> None:
        self._children = [running.application, *running.sides["client"], *running.sides["server"]]
        self._groups = {side: [child.pid for child in children] for side, children in running.sides.items()}
        self._groups["PostgreSQL"] = [bench.postmaster]
        if broker is not None:
            self._groups["broker"] = [broker]
        if not self._groups["client"]:
            self._groups["client"] = [running.application.pid]
        elif commits:
            self._groups["application"] = [running.application.pid]
        self._own = [os.getpid(), bench.postmaster, *([broker] if broker is not None else [])]
        self._sides = {side: self._groups[side] for side in ("client", "server")}
        for pids in self._sides.values():
            forget_peak(pids)
        self._cpu = self._now()
        self._busy, self._used = busy_seconds(), cpu_seconds(self._own)
        self._begun = time.perf_counter()

    def _now(self) -> dict[str, float]:
        return {name: cpu_seconds(pids) for name, pids in self._groups.items()}

    def end(self, rows: int) -> Record:
        """Rows a second, CPU seconds for 1,000 rows, the most memory in MB, and the CPUs of foreign processes.

        :raises ChildEnded: a process has ended, so what it used is not known.
        :raises GivenUp: no row was measured, or the memory of a side with processes cannot be read.
        """
        seconds = time.perf_counter() - self._begun
        if rows < 1:
            raise GivenUp("all rows had arrived before the measurement began")
        for child in self._children:
            child.check()
        foreign = (busy_seconds() - self._busy) - (cpu_seconds(self._own) - self._used)
        cpu = {name: 1000 * (used - self._cpu[name]) / rows for name, used in self._now().items()}
        memory = {side: peak_memory(pids) / 2**20 for side, pids in self._sides.items() if pids}
        if not all(memory.values()):
            raise GivenUp(f"the memory of a side cannot be read: {memory}")
        return {
            "rows": rows,
            "rows_per_second": rows / seconds,
            "cpu": {name: round(seconds, 4) for name, seconds in cpu.items()},
            "cpu_per_1000": sum(cpu.values()),
            "peak_mb": memory,
            "foreign_cpus": max(0.0, foreign / seconds),
        }


# --- the phases ----------------------------------------------------------------------------------------------------


class Round:
    """The phases of one way, whose rows are numbered through."""

    def __init__(self, bench: Bench, way: Way, broker: int | None) -> None:
        self._bench = bench
        self._way = way
        self._broker = broker
        self._next = 1

    def _take(self, rows: int) -> tuple[int, int]:
        first = self._next
        self._next += rows
        return first, first + rows - 1

    @contextmanager
    def _application(self) -> Iterator[Child]:
        application = Child(self._way.application, self._way.environment)
        try:
            yield application
        finally:
            application.stop()

    def _wait_for(self, running: Running, rows: int) -> None:
        there = wait_for(self._way, running, rows, self._bench.patience)
        if there != rows:
            raise GivenUp(f"{there} rows came instead of {rows}")

    def _arrived_before(self) -> int:
        """Rows that arrived in earlier phases: those in memory count anew in each process."""
        return self._next - 1 if self._way.server or self._way.file else 0

    def _carry_first(self, application: Child, running: Running, before: int) -> int:
        """Carry rows until all processes have worked, one in each sequence; returns how many.

        :param before: the rows that have arrived already.
        """
        rows = self._way.first_rows
        first, last = self._take(rows)
        application.ask(f"{first} {last} {rows} 0")
        self._wait_for(running, before + rows)
        return rows

    def stream(self) -> Record:
        """The application commits rows one by one while they are carried."""
        self._bench.checkpoint()
        before = self._arrived_before()
        with self._application() as application, started(self._way, application) as running:
            before += self._carry_first(application, running, before)
            usage = Usage(self._bench, running, self._broker, commits=True)
            low, high = self._take(self._bench.rows)
            application.ask(f"{low} {high} 1 0")
            self._wait_for(running, before + self._bench.rows)
            return usage.end(self._bench.rows)

    def drain(self) -> Record:
        """A committed backlog is carried, after one row in each sequence.

        The processes that carry it are paused while it is committed; a store in memory gets it before it sends.
        """
        before, rows = self._arrived_before(), self._bench.rows
        with self._application() as application, started(self._way, application, sends=False) as running:
            carriers = running.sides["client"]
            if carriers:
                before += self._carry_first(application, running, before)
                time.sleep(self._bench.settle)  # until what follows the arrival is stored
            for child in carriers:
                child.pause()
            low, high = self._take(rows)
            application.ask(f"{low} {high} {PER_TRANSACTION} 0")
            self._bench.checkpoint()
            usage = Usage(self._bench, running, self._broker, commits=False)
            for child in carriers:
                child.resume()
            if self._way.together:
                application.ask("start")
            self._wait_for(running, before + rows)
            return usage.end(rows)

    def latency(self) -> Record:
        """Milliseconds from the client's commit to the server's, of lone messages."""
        before = self._arrived_before()
        with self._application() as application, started(self._way, application) as running:
            before += self._carry_first(application, running, before)
            usage = Usage(self._bench, running, self._broker, commits=True)
            low, high = self._take(self._bench.lone)
            took = application.ask(f"{low} {high} 1 {self._bench.pause}")
            self._wait_for(running, before + self._bench.lone)
            found = usage.end(self._bench.lone)
        waits = commit_to_commit(self._way, low) if self._way.moves_backlog else [float(each) for each in took]
        milliseconds = [1000 * seconds for seconds in waits]
        return {**found, **{name: quantile(milliseconds, share) for name, share in QUANTILES.items()}}

    def check(self) -> None:
        """:raises GivenUp: the rows have not arrived exactly once, or not in order, or are not whole."""
        check_rows(self._way, self._next - 1)


def check_rows(way: Way, last: int, length: int = 300) -> None:
    """Check the rows of the ways that have tables.

    :param last: the number of the last row; the first has 1.
    :param length: the characters of each row.
    :raises GivenUp: the rows have not arrived exactly once, or not in order, or are not whole.
    """
    for ids, lengths in arrivals_of(way):
        if (ids if way.ordered else sorted(ids)) != list(range(1, last + 1)):
            raise GivenUp(f"the rows 1 to {last} did not come once and in order: {len(ids)} came")
        if wrong := {found for found in lengths if found != length}:
            raise GivenUp(f"rows of {length} characters came with {sorted(wrong)[:5]}")


QUANTILES = {"p50": 0.5, "p99": 0.99, "max": 1.0}


def commit_to_commit(way: Way, first: int) -> list[float]:
    """Seconds from the client's commit of a row to the server's, by PostgreSQL's clock.

    :raises GivenUp: a row has not arrived.
    """
    times = []
    for url, table in ((way.client, "orders"), (way.server, "received")):
        query = f"select id, extract(epoch from pg_xact_commit_timestamp(xmin)) from {table} where id >= %s"
        with connect(url) as connection:
            times.append(
                {int(row[0]): float(row[1]) for row in connection.execute(query.encode(), (first,)).fetchall()}
            )
    committed, received = times
    if not committed or committed.keys() != received.keys():
        raise GivenUp(f"{len(received)} of {len(committed)} rows have a time of arrival")
    return [received[number] - committed[number] for number in committed]


def one_round(bench: Bench, kind: Kind, number: int) -> list[Record]:
    """The records of a way in one round. A disturbed round is repeated, and marked if it stays disturbed.

    It is repeated `Bench.repeats` times at most, and as long as `Bench.spare` is not used up.

    :raises Unavailable: its broker is not installed.
    :raises NotInstalled: its packages cannot be installed.
    :raises GivenUp: it does not carry its rows.
    """
    attempt = 0
    while True:
        attempt += 1
        records = _measure(bench, kind)
        foreign = max(float(str(record["foreign_cpus"])) for record in records)
        if foreign <= DISTURBED or attempt > bench.repeats or bench.spare <= 0:
            break
        bench.spare -= 1
        progress(f"  foreign processes used {foreign:.2f} CPUs: again ({bench.spare} more repetitions in this run)")
    about = {"part": "ways", "way": kind.name, "round": number, "attempt": attempt, "lines": kind.lines}
    return [{**about, **record, "disturbed": foreign > DISTURBED} for record in records]


def _measure(bench: Bench, kind: Kind) -> list[Record]:
    run = bench.new_run()
    bench = replace(bench, rows=max(1, round(bench.rows * kind.share)))
    with ExitStack() as stack:
        broker = stack.enter_context(brokers.running(kind.broker, bench.folder)) if kind.broker else None
        way = kind.make(bench.postgres, bench.folder, run)
        stack.callback(bench.drop, run)
        if broker is not None:
            way.environment.update(broker.environment)
        steps = Round(bench, way, broker.pid if broker is not None else None)
        phases: dict[str, Callable[[], Record]] = {"stream": steps.stream}
        if way.moves_backlog:
            phases["drain"] = steps.drain
        if way.server:
            phases["latency"] = steps.latency
        records = [{"phase": name, **phase()} for name, phase in phases.items()]
        steps.check()
        return records
