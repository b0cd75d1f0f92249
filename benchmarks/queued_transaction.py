"""Rows from one database to another, exactly once and in order: by Mercury, and by a hand-written outbox with HTTP.

``python -m benchmarks.queued_transaction [--rows N] [--rounds R]`` measures each way in every round, on one PostgreSQL,
and prints medians: rows a second while the client commits row by row (stream), rows a second of a committed backlog
(drain), CPU seconds for 1,000 rows of the drain (all processes, with PostgreSQL's), and the time from the client's
commit of a row to the server's at low load, by PostgreSQL's commit timestamps. Only the ratios within a run are
comparable.

``--mode in-out`` compares two ways of Mercury instead: rows without responses, and rows with a response each. The
client inserts each response into a table, and a row counts as arrived when its response is there.

Each way has the same processes: the application that commits, the sender (the relay, or Mercury's workers), and the
server. Mercury has the settings `TUNING`, for many small rows; the outbox, too, posts one row in each request.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
import sqlalchemy as sa
from psycopg.rows import TupleRow

from benchmarks import carried, outbox
from mercury import Mercury, Sender
from mercury.postgres.embedded import EmbeddedPostgres

TEXT = "x" * 300
ORDERS = "create table orders(id bigint primary key, text text not null)"
RECEIVED = "create table received(arrival bigserial primary key, id bigint not null, text text not null)"
CONFIRMED = "create table confirmed(arrival bigserial primary key, id bigint not null)"
#: Rows of the latency run, and seconds between two of them.
LONE, PAUSE = 100, 0.05
#: Seconds after which a run that has not ended is given up.
PATIENCE = 300.0
#: Settings for two applications of one owner with short handlers: more concurrent exchanges than the defaults.
TUNING = {"MERCURY_RUNTIME_SENDERS": "64", "MERCURY_SOURCE_WINDOW": "128", "MERCURY_ENGINE_INVOKE_BATCH": "200"}


@dataclass
class Way:
    """One way to carry rows, with its databases and processes."""

    name: str
    client: str
    server: str
    roles: dict[str, list[str]]
    prepare: Callable[[Way], None]
    #: Returns a function that commits the rows of a range in one transaction.
    committer: Callable[[Way], Callable[[range], None]]
    stores: dict[str, str] = field(default_factory=dict)
    #: Whether a row counts as arrived only when the client has inserted its confirmation.
    confirms: bool = False
    children: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)


def connect(url: str, *, autocommit: bool = False) -> psycopg.Connection[TupleRow]:
    return psycopg.connect(plain(url), autocommit=autocommit)


def plain(url: str) -> str:
    """The URL in the form of psycopg."""
    return sa.make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)


# --- the ways ------------------------------------------------------------------------------------------------------


def by_outbox(postgres: EmbeddedPostgres, run: str) -> Way:
    client, server = postgres.create_database(f"outbox_client_{run}"), postgres.create_database(f"outbox_server_{run}")
    port = str(free_port())
    roles = {
        "server": ["benchmarks.outbox", "serve", plain(server), port],
        "carrier": ["benchmarks.outbox", "relay", plain(client), port],
    }

    def prepare(way: Way) -> None:
        with connect(way.client) as connection:
            connection.execute(outbox.CLIENT_TABLES)
        with connect(way.server) as connection:
            connection.execute(outbox.SERVER_TABLES)

    def committer(way: Way) -> Callable[[range], None]:
        connection = connect(way.client)

        def commit(numbers: range) -> None:
            with connection.transaction():
                for number in numbers:
                    connection.execute("insert into orders values (%s, %s)", (number, TEXT))
                    outbox.enqueue(connection, number, TEXT)

        return commit

    return Way("outbox and HTTP", client, server, roles, prepare, committer)


def by_mercury(postgres: EmbeddedPostgres, run: str, *, same: bool, asks: bool = False) -> Way:
    name = ("same" if same else "xa") + ("_asks" if asks else "")
    client, server = postgres.create_database(f"{name}_client_{run}"), postgres.create_database(f"{name}_server_{run}")
    stores = {"client": client, "server": server}
    if not same:
        stores = {side: postgres.create_database(f"{name}_store_{side}_{run}") for side in stores}
    port = str(free_port())
    roles = {
        "server": ["benchmarks.carried", "serve", stores["server"], server, port],
        "carrier": ["benchmarks.carried", "carry", stores["client"], client, port],
    }

    def committer(way: Way) -> Callable[[range], None]:
        mercury = Mercury(stores["client"], resources={"app": way.client})
        mercury.callback(carried.CONFIRMED)(_confirmed)
        sender = mercury.to(f"http://127.0.0.1:{port}/services/rows")
        insert = sa.text("insert into orders values (:id, :text)")
        return lambda numbers: send(mercury, sender, insert, numbers, asks=asks)

    def prepare(_way: Way) -> None:
        for url in stores.values():
            Mercury(url).stop()  # creates the tables

    label = f"Mercury, {'same database' if same else 'XA'}{', in-out' if asks else ''}"
    return Way(label, client, server, roles, prepare, committer, stores, confirms=asks)


def _confirmed(_: carried.Done) -> None:
    """A placeholder: this process needs only the callback's name, and the carrier's process calls the callback."""


def send(mercury: Mercury, sender: Sender, insert: sa.TextClause, numbers: range, *, asks: bool) -> None:
    with mercury.transaction() as tx:
        for number in numbers:
            tx.connection("app").execute(insert, {"id": number, "text": TEXT})
            row = carried.Row(number, TEXT)
            if asks:
                sender.request_with_callback(row, carried.CONFIRMED, operation="Ask", tx=tx)
            else:
                sender.send(row, operation="Put", tx=tx)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


# --- running -------------------------------------------------------------------------------------------------------


@contextmanager
def started(way: Way, *names: str) -> Iterator[None]:
    """Run these processes of a way until the end of the block."""
    for name in names:
        way.children[name] = subprocess.Popen([sys.executable, "-m", *way.roles[name]], env=dict(os.environ))
    try:
        yield
    finally:
        for name in names:
            child = way.children.pop(name)
            child.send_signal(signal.SIGTERM)
            try:
                child.wait(10)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()


def wait_for(way: Way, rows: int) -> None:
    """Wait until so many rows have arrived."""
    until = time.monotonic() + PATIENCE
    with connect(way.client if way.confirms else way.server, autocommit=True) as connection:
        while (came := _count(way, connection)) < rows:
            if time.monotonic() > until:
                raise SystemExit(f"{way.name}: {came} of {rows} rows came within {PATIENCE:g} s")
            time.sleep(0.01)


def _count(way: Way, connection: psycopg.Connection[TupleRow]) -> int:
    table = "confirmed" if way.confirms else "received"
    row = connection.execute(f"select coalesce(max(arrival), 0) from {table}").fetchone()
    assert row is not None
    return int(row[0])


def stream(way: Way, commit: Callable[[range], None], first: int, rows: int) -> float:
    """Rows a second while the application commits them one by one."""
    with started(way, "server", "carrier"):
        commit(range(first, first + 1))
        wait_for(way, first)  # all processes are running
        begun = time.perf_counter()
        for number in range(first + 1, first + rows):
            commit(range(number, number + 1))
        wait_for(way, first + rows - 1)
        return (rows - 1) / (time.perf_counter() - begun)


def drain(way: Way, commit: Callable[[range], None], first: int, rows: int, postmaster: int) -> tuple[float, float]:
    """Rows a second of a committed backlog, from the first arrival on; CPU seconds for 1,000 rows."""
    for low in range(first, first + rows, 100):
        commit(range(low, min(low + 100, first + rows)))
    with started(way, "server", "carrier"):
        wait_for(way, first)
        pids = [postmaster, *(child.pid for child in way.children.values())]
        begun, cpu = time.perf_counter(), cpu_seconds(pids)
        with connect(way.client if way.confirms else way.server, autocommit=True) as connection:
            there = _count(way, connection)
        wait_for(way, first + rows - 1)
        left = first + rows - 1 - there
        seconds = time.perf_counter() - begun
        return left / seconds, 1000 * (cpu_seconds(pids) - cpu) / left


def latency(way: Way, commit: Callable[[range], None], first: int) -> list[float]:
    """Seconds from the client's commit to the server's, of single rows."""
    with started(way, "server", "carrier"):
        commit(range(first, first + 1))
        wait_for(way, first)
        for number in range(first + 1, first + 1 + LONE):
            commit(range(number, number + 1))
            time.sleep(PAUSE)
        wait_for(way, first + LONE)
    times = []
    for url, table in ((way.client, "orders"), (way.server, "received")):
        query = f"select id, extract(epoch from pg_xact_commit_timestamp(xmin)) from {table} where id > %s"
        with connect(url) as connection:
            times.append({int(row[0]): float(row[1]) for row in connection.execute(query, (first,)).fetchall()})
    committed, received = times
    return [received[number] - committed[number] for number in committed]


def check(way: Way, rows: int) -> None:
    """Check that each row arrived once and in order."""
    for url, table in [(way.server, "received"), *([(way.client, "confirmed")] if way.confirms else [])]:
        with connect(url) as connection:
            got = [row[0] for row in connection.execute(f"select id from {table} order by arrival").fetchall()]
        if got != list(range(1, rows + 1)):
            raise SystemExit(f"{way.name}: the rows of {table} did not come once and in order")


def cpu_seconds(pids: list[int]) -> float:
    """CPU seconds of processes and all their descendants, those that have ended included."""
    parents: dict[int, list[int]] = {}
    used: dict[int, float] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents.setdefault(int(fields[1]), []).append(int(entry.name))
        used[int(entry.name)] = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    todo, total = list(pids), 0.0
    while todo:
        pid = todo.pop()
        total += used.get(pid, 0.0)
        todo += parents.get(pid, [])
    return total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2000, help="number of rows of each stream and each drain")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--mode", choices=("in-only", "in-out"), default="in-only")
    options = parser.parse_args()
    results: dict[str, dict[str, list[float]]] = {}
    os.environ.update(TUNING)  # the window is that of the application that sends, in this process
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mercury-bench-")))
        folder.chmod(0o755)  # if this process is root, the server runs as another user
        postgres = EmbeddedPostgres(folder / "pg", {"track_commit_timestamp": "on"}).start()
        stack.callback(postgres.stop)
        assert postgres.pid is not None
        for turn in range(options.rounds):
            run = str(turn)
            if options.mode == "in-out":
                ways = [by_mercury(postgres, run, same=True, asks=asks) for asks in (False, True)]
            else:
                ways = [
                    by_outbox(postgres, run),
                    by_mercury(postgres, run, same=True),
                    by_mercury(postgres, run, same=False),
                ]
            for way in ways:
                one_round(way, options.rows, postgres.pid, results.setdefault(way.name, {}))
                print(f"round {turn + 1} of {options.rounds}: {way.name} done", file=sys.stderr)
    tell(results)


def one_round(way: Way, rows: int, postmaster: int, into: dict[str, list[float]]) -> None:
    for url, table in ((way.client, ORDERS), (way.client, CONFIRMED), (way.server, RECEIVED)):
        with connect(url) as connection:
            connection.execute(table)
    way.prepare(way)
    commit = way.committer(way)
    into.setdefault("stream", []).append(stream(way, commit, 1, rows))
    speed, cpu = drain(way, commit, rows + 1, rows, postmaster)
    into.setdefault("drain", []).append(speed)
    into.setdefault("cpu", []).append(cpu)
    into.setdefault("latency", []).extend(latency(way, commit, 2 * rows + 1))
    check(way, 2 * rows + 1 + LONE)


def tell(results: dict[str, dict[str, list[float]]]) -> None:
    base = statistics.median(next(iter(results.values()))["drain"])  # ratios are relative to the first way
    print(f"{'way':30} {'stream/s':>9} {'drain/s':>9} {'ratio':>6} {'CPU s/1000':>11} {'p50 ms':>8} {'p99 ms':>8}")
    for name, found in results.items():
        waits = sorted(1000 * seconds for seconds in found["latency"])
        middle, late = waits[len(waits) // 2], waits[int(len(waits) * 0.99)]
        speed = statistics.median(found["drain"])
        print(
            f"{name:30} {statistics.median(found['stream']):9.0f} {speed:9.0f} {speed / base:6.2f} "
            f"{statistics.median(found['cpu']):11.2f} {middle:8.1f} {late:8.1f}"
        )


if __name__ == "__main__":
    main()
