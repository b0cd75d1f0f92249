"""Costs that are not a throughput: commits, bare posts, idle processes, large messages."""

from __future__ import annotations

import http.client
import json
import re
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from functools import partial

import sqlalchemy as sa

from benchmarks import rival_packages
from benchmarks.child import ROOT, Child
from benchmarks.machine import cpu_seconds
from benchmarks.mercury_processes import Row
from benchmarks.recorder import Recorder
from benchmarks.rounds import Bench, GivenUp, Record, Usage, quantile, started, wait_for
from benchmarks.statement_log import NothingLogged, logged_statements
from benchmarks.ways import arrivals_of, connect, make_tables, mercury_way, plain
from mercury import Mercury

TEXT = "x" * 300
#: Seconds that idle processes are watched.
IDLE = 5.0
#: The body of a large message: with its envelope it is just below the largest that is accepted by default.
LARGE, LARGE_MESSAGES = 7_900_000, 8
#: The messages of a seed of the simulation.
SEED = 100
#: The command line of Mercury, with this interpreter.
MERCURY = [sys.executable, "-c", "from mercury.cli.main import run; run()"]


def expect(what: str, found: object, expected: object) -> None:
    """:raises GivenUp: the work that was measured is not what should have been done."""
    if found != expected:
        raise GivenUp(f"{what}: {found} instead of {expected}")


def _rows_of(url: str, table: str) -> int:
    with connect(url) as connection:
        ((count,),) = connection.execute(f"select count(*) from {table}".encode()).fetchall()
    return int(count)


def commit(bench: Bench) -> Iterable[Record]:
    """CPU microseconds of an application's commit, by what it has beside its own insert by SQLAlchemy."""
    url = bench.postgres.create_database(f"{bench.new_run()}_client")
    make_tables(url, url)
    mercury = Mercury(url)
    sender = mercury.to("http://127.0.0.1:9/services/rows")
    order = "insert into orders values (:id, :text)"
    insert = sa.text(order)
    more = sa.text("insert into received(id, text) values (:id, :text)")
    engine = sa.create_engine(url)
    numbers = iter(range(1, 10**9))

    def own(*, further: bool) -> None:
        values = {"id": next(numbers), "text": TEXT}
        with engine.begin() as connection:
            connection.execute(insert, values)
            if further:
                connection.execute(more, values)

    def send(*, later: bool) -> None:
        values = {"id": next(numbers), "text": TEXT}
        with mercury.transaction() as tx:
            if later:
                tx.execute_later(order, values)
            else:
                tx.connection().execute(insert, values)
            sender.send(Row(**values), operation="Put", tx=tx)  # type: ignore[arg-type]

    ways: dict[str, Callable[[], None]] = {
        "one insert": partial(own, further=False),
        "two inserts": partial(own, further=True),
        "one insert and a send": partial(send, later=False),
        "one insert that may wait and a send": partial(send, later=True),
    }
    used: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    block = max(10, bench.rows // 20)
    turns = 6
    for turn in range(turns):  # the first warms up
        for name, once in ways.items():
            database, begun = cpu_seconds([bench.postmaster]), time.process_time()
            for _ in range(block):
                once()
            own_cpu = time.process_time() - begun
            if turn:
                used[name].append((own_cpu, cpu_seconds([bench.postmaster]) - database))
    mercury.stop()
    engine.dispose()
    for table, blocks in (("orders", len(ways)), ("received", 1), ("mercury_rms_message", 2)):
        expect(f"rows of {table}", _rows_of(url, table), turns * blocks * block)
    for name, found in used.items():
        application = 1e6 * quantile([own_cpu for own_cpu, _ in found], 0.5) / block
        postgres = 1e6 * sum(theirs for _, theirs in found) / (len(found) * block)  # the clock of a process is coarse
        yield {"part": "commit", "what": name, "cpu_us": application, "postgres_us": postgres, "commits": 5 * block}


def prepared(bench: Bench) -> Iterable[Record]:
    """Rows a second with PREPARE TRANSACTION and COMMIT PREPARED on one connection."""
    url = bench.postgres.create_database(f"{bench.new_run()}_server")
    make_tables(url, url)
    command = [rival_packages.python(), "-m", "benchmarks.rivals.prepared"]
    process = Child(command, {"SERVER_DATABASE": plain(url)}, greets=False)
    try:
        process.ask("50")
        for turn in range(3):
            seconds = float(process.ask(str(bench.rows)))
            expect("rows of received", _rows_of(url, "received"), 50 + (turn + 1) * bench.rows)
            yield {"part": "prepared", "round": turn, "rows_per_second": bench.rows / seconds, "rows": bench.rows}
    finally:
        process.stop()


def bare_posts(bench: Bench) -> Iterable[Record]:
    """Posts a second of one envelope of Mercury to Mercury's endpoint, whose store is in memory, one at a time.

    After the first, each is a duplicate: it is decoded, found to be one, and acknowledged.
    """
    way = mercury_way(bench.postgres, bench.folder, bench.new_run(), store="memory")
    server = Child(way.processes["server"][0])
    try:
        port = json.loads(way.processes["server"][0][-1])["ports"][0]
        with Recorder(port) as recorder:
            mercury = Mercury("memory:")
            mercury.start()
            mercury.to(f"http://127.0.0.1:{recorder.port}/services/rows").send(Row(1, TEXT), operation="Put")
            until = time.monotonic() + bench.patience
            while not server.ask("count") and time.monotonic() < until:
                time.sleep(0.01)
            mercury.stop()
            expect("calls of the handler", server.ask("count"), 1)
        path, headers, body = recorder.request(b"<id>1</id>")
        connection = http.client.HTTPConnection("127.0.0.1", port)
        for turn in range(3):
            own, begun = time.process_time(), time.perf_counter()
            there = cpu_seconds([server.pid])
            for _ in range(bench.rows):
                connection.request("POST", path, body, headers)
                response = connection.getresponse()
                answer = response.read()
                if response.status != 200 or b"SequenceAcknowledgement" not in answer:
                    raise GivenUp(f"the endpoint answered {response.status} {answer[:500]!r}")
            seconds = time.perf_counter() - begun
            cpu = time.process_time() - own + cpu_seconds([server.pid]) - there
            expect("calls of the handler", server.ask("count"), 1)
            yield {
                "part": "posts",
                "round": turn,
                "rows_per_second": bench.rows / seconds,
                "cpu_per_1000": 1000 * cpu / bench.rows,
                "rows": bench.rows,
            }
        connection.close()
    finally:
        server.stop()


def idle(bench: Bench) -> Iterable[Record]:
    """Statements a second of a client and a server with nothing to do, and the statements of a lone message."""
    run = bench.new_run()
    way = mercury_way(bench.postgres, bench.folder, run)
    application = Child(way.application)
    try:
        with started(way, application) as running:
            application.ask("1 1 1 0")
            wait_for(way, running, 1, bench.patience)
            time.sleep(2.0)  # until the acknowledgement, and what follows it, is stored
            cpu = cpu_seconds(child.pid for children in running.sides.values() for child in children)
            with logged_statements(bench.postgres, way.server) as found:
                time.sleep(IDLE)
            used = cpu_seconds(child.pid for children in running.sides.values() for child in children) - cpu
            wait_for(way, running, 1, bench.patience)  # the processes still run
            for side in ("client", "server"):
                count = found[side].total()
                yield {"part": "idle", "side": side, "statements_per_second": count / IDLE, "seconds": IDLE}
            yield {"part": "idle", "side": "both", "cpu_percent": 100 * used / IDLE, "seconds": IDLE}
            polls = sum(each.total() for each in found.values()) / IDLE
            begun = time.perf_counter()
            with logged_statements(bench.postgres, way.server) as found:
                application.ask("2 2 1 0")
                wait_for(way, running, 2, bench.patience)
                time.sleep(1.0)
                seconds = time.perf_counter() - begun
            if not all(each.total() for each in found.values()):
                raise GivenUp("a side carried a message without a statement in the log")
            statements = sum(each.total() for each in found.values())
            detail = {side: dict(each) for side, each in found.items()}
            yield {
                "part": "lone",
                "statements": statements - polls * seconds,
                "with_polls": statements,
                "detail": detail,
            }
    finally:
        application.stop()
        bench.drop(run)


def large(bench: Bench) -> Iterable[Record]:
    """The most memory of each side while large messages are in flight, in MB, and how much more it is than before."""
    run = bench.new_run()
    way = mercury_way(bench.postgres, bench.folder, run, body=LARGE)
    application = Child(way.application)
    small = Child([*way.application[:-1], re.sub(rf'"body": {LARGE}', '"body": 300', way.application[-1])])
    try:
        with started(way, application) as running:
            small.ask("1 1 1 0")
            wait_for(way, running, 1, bench.patience)
            before = Usage(bench, running, None, commits=False).end(1)["peak_mb"]
            usage = Usage(bench, running, None, commits=False)
            application.ask(f"2 {LARGE_MESSAGES + 1} {LARGE_MESSAGES} 0")
            wait_for(way, running, LARGE_MESSAGES + 1, bench.patience)
            found = usage.end(LARGE_MESSAGES)
        for ids, lengths in arrivals_of(way):
            expect("rows of large messages", ids, list(range(1, LARGE_MESSAGES + 2)))
            expect("their characters", set(lengths), {300, LARGE})
        assert isinstance(before, dict)
        assert isinstance(found["peak_mb"], dict)
        for side, peak in found["peak_mb"].items():
            yield {
                "part": "large",
                "side": side,
                "messages": LARGE_MESSAGES,
                "body_bytes": LARGE,
                "peak_mb": peak,
                "more_mb": peak - before[side],
                "rows_per_second": found["rows_per_second"],
            }
    finally:
        application.stop()
        small.stop()
        bench.drop(run)


def simulation(bench: Bench) -> Iterable[Record]:
    """CPU seconds of `mercury simulate` for a seed of 100 messages, with the start of the command."""
    seeds = max(2, bench.rows // 100)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    options = ["--seeds", str(seeds), "--messages", str(SEED), "--processes", "1", "--output", "json"]
    done = subprocess.run([*MERCURY, "simulate", *options], cwd=ROOT, capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    check_simulation(done.stdout, done.stderr, seeds)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    yield {"part": "simulation", "seeds": seeds, "cpu_per_seed": cpu / seeds}


def check_simulation(output: str, errors: str, seeds: int) -> None:
    """:raises GivenUp: the output does not say that these seeds ran with all their messages, and without violations."""
    try:
        value = json.loads(output)
    except ValueError:
        raise GivenUp(f"no result of the simulation: {(output + errors)[-500:]!r}") from None
    expect("seeds and violations", (value["seeds"], value["violations"]), (seeds, 0))
    if min(value["messages"], value["requests"]) < SEED * seeds:
        raise GivenUp(f"only {value['messages']} messages and {value['requests']} requests in {seeds} seeds")


def reconciled(rows: int) -> Iterable[Record]:
    """Seconds of `mercury reconcile` for equal tables, with Spark's session up, and of a SQL join of the same."""
    command = [sys.executable, "-m", "benchmarks.reconcile", "--rows", str(rows)]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    figures = dict(re.findall(r"equal rows +(plain SQL join|mercury reconcile) +([0-9.]+) s", done.stdout))
    if done.returncode or len(figures) != 2:
        yield {"part": "skipped", "way": "reconcile", "reason": f"ended with {done.returncode}: {done.stdout[-500:]}"}
        return
    yield {
        "part": "reconcile",
        "rows": rows,
        "seconds": float(figures["mercury reconcile"]),
        "join_seconds": float(figures["plain SQL join"]),
    }


#: The costs that need the shared server.
COSTS: tuple[Callable[[Bench], Iterable[Record]], ...] = (commit, prepared, bare_posts, idle, large, simulation)
#: What is raised if one of them cannot be measured, besides what all measurements raise.
FAILURES = (NothingLogged, LookupError)
