"""Compares the time of the reconciler with that of a SQL join of the same tables in PostgreSQL.

``python -m benchmarks.reconcile`` compares 1,000,000 equal rows: in two databases for the reconciler, and in one for
the join. ``--large`` adds 5,000,000 rows. ``--faults N`` plants N faults of every kind, and checks that exactly those
are found. The time to start Spark's session is not included. The first run, which starts Spark's workers, is printed
separately.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import statistics
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import sqlalchemy as sa
from pyspark.sql import SparkSession

from mercury.postgres.embedded import EmbeddedPostgres
from mercury.reconcile import Column, Config, Result, SparkSettings, Table, Verdict, reconcile
from mercury.reconcile.session import session

COMPARED = ("customer", "amount", "placed_at", "note")
#: The values of a row are computed from its number, so they are the same in every database.
ROWS = """
    i as id, 'customer ' || i % 9973 as customer, (i % 1000003)::numeric / 100 as amount,
    timestamptz '2026-01-01' + i * interval '1 second' as placed_at,
    case when i % 3 = 0 then null else md5(i::text) || md5((i + 1)::text) end as note
"""
ORDERS = f"create table orders as select {ROWS} from generate_series(1::bigint, %s) i"
RECEIVED = f"create table {{}} as select i as arrival, {ROWS} from generate_series(1::bigint, %s) i"
JOIN = f"""
    select coalesce(a.id, b.id), count(*) from orders a full outer join beside b on a.id = b.id
    where a.id is null or b.id is null or ({", ".join(f"a.{name}" for name in COMPARED)})
    is distinct from ({", ".join(f"b.{name}" for name in COMPARED)}) group by 1
"""
KINDS = (Verdict.MISSING, Verdict.DUPLICATED, Verdict.ALTERED, Verdict.OUT_OF_ORDER)
ROUNDS = 3


def connect(url: str) -> psycopg.Connection[tuple[object, ...]]:
    plain = sa.make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    return psycopg.connect(plain, autocommit=True)


def fill(postgres: EmbeddedPostgres, rows: int) -> Config:
    client, server = (postgres.create_database(f"{name}_{rows}") for name in ("client", "server"))
    with connect(client) as connection:
        connection.execute(ORDERS.replace("%s", str(rows)))
        connection.execute("alter table orders add primary key (id)")
        connection.execute(RECEIVED.format("beside").replace("%s", str(rows)))
        connection.execute("create index on beside (id)")
        connection.execute("vacuum analyze")
    with connect(server) as connection:
        connection.execute(RECEIVED.format("received").replace("%s", str(rows)))
        connection.execute("alter table received add primary key (arrival)")
        connection.execute("create index on received (id)")
        connection.execute("vacuum analyze")
    return Config(
        client=Table(url=client, name="orders", order="id"),
        server=Table(url=server, name="received", order="arrival"),
        key=(Column(client="id", server="id"),),
        compare=tuple(Column(client=name, server=name) for name in COMPARED),
        listed=1_000_000,
    )


def join(config: Config) -> int:
    """The number of differences that the SQL join finds; it does not compare the order."""
    with connect(config.client.url) as connection:
        return len(connection.execute(JOIN.encode()).fetchall())


# --- memory ----------------------------------------------------------------------------------------------------------


class Memory:
    """Measures the most memory that Spark uses, in MB: that of the JVM, and that of all Python workers together."""

    def __init__(self) -> None:
        self.jvm = self.workers = 0

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        ended = threading.Event()
        thread = threading.Thread(target=self._watch, args=(ended,))
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def _watch(self, ended: threading.Event) -> None:
        while not ended.wait(0.05):
            found: Counter[str] = Counter()
            for pid in _children(os.getpid()):
                with contextlib.suppress(OSError):
                    own = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20
                    found[Path(os.readlink(f"/proc/{pid}/exe")).name.rstrip(".0123456789")] += own
            self.jvm, self.workers = max(self.jvm, found["java"]), max(self.workers, found["python"])


def _children(parent: int) -> list[int]:
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    found, new = [], [parent]
    while new:
        new = [pid for pid, above in parents.items() if above in new]
        found += new
    return found


# --- runs ------------------------------------------------------------------------------------------------------------


def timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def measure(config: Config, rows: int, spark: SparkSession, cold: bool) -> None:
    def compare() -> Result:
        result = reconcile(config, spark=spark)
        assert result.reconciled
        assert result.delivered == rows
        return result

    def joined() -> None:
        assert join(config) == 0

    memory = Memory()
    with memory.watched():
        first = timed(compare)
        taken: dict[str, list[float]] = {"join": [], "reconcile": []}
        for _ in range(ROUNDS):
            taken["join"].append(timed(joined))
            taken["reconcile"].append(timed(compare))
    print(f"{rows:>9,} equal rows   plain SQL join        {statistics.median(taken['join']):6.2f} s")
    print(
        f"{rows:>9,} equal rows   mercury reconcile     {statistics.median(taken['reconcile']):6.2f} s"
        f"   JVM {memory.jvm} MB, Python workers {memory.workers} MB"
        + (f"   (first run {first:.2f} s)" if cold else "")
    )


def plant(config: Config, rows: int, each: int) -> dict[Verdict, set[str]]:
    """Plant faults of every kind in the server's table.

    :returns: the keys with each verdict. Of two swapped neighbours, the one that arrived late is out of order.
    """
    free = random.Random(1).sample(range(10, rows - 10, 4), len(KINDS) * each)
    found = {kind: free[index * each : (index + 1) * each] for index, kind in enumerate(KINDS)}
    with connect(config.server.url) as connection:
        connection.execute("delete from received where id = any(%s)", (found[Verdict.MISSING],))
        again = "insert into received select arrival + %s, id, customer, amount, placed_at, note from received "
        connection.execute(again + "where id = any(%s)", (2 * rows, found[Verdict.DUPLICATED]))
        for index, number in enumerate(found[Verdict.ALTERED]):
            change = ("customer = customer || ' '", "amount = amount + 0.01", "note = coalesce(note, '') || 'x'")[
                index % 3
            ]
            connection.execute(f"update received set {change} where id = {int(number)}".encode())
        swap = "update received set arrival = -arrival where id in (%s, %s)"
        back = "update received set arrival = case id when %s then %s else %s end where id in (%s, %s)"
        for one in found[Verdict.OUT_OF_ORDER]:
            connection.execute(swap, (one, one + 1))
            connection.execute(back, (one, one + 1, one, one, one + 1))
        connection.execute(
            "insert into received (arrival, id) select %s + i, %s + i from generate_series(1, %s) i",
            (4 * rows, 10 * rows, each),
        )
        connection.execute("vacuum analyze received")
    expected = {kind: {str(number) for number in numbers} for kind, numbers in found.items()}
    return {**expected, Verdict.UNEXPECTED: {str(10 * rows + number) for number in range(1, each + 1)}}


def check(config: Config, rows: int, each: int, spark: SparkSession) -> None:
    expected = plant(config, rows, each)
    started = time.perf_counter()
    result = reconcile(config, spark=spark)
    seconds = time.perf_counter() - started
    found = {verdict: {row.key for row in listed} for verdict, listed in result.listed.items()}
    assert found == expected, {verdict: len(found.get(verdict, set()) ^ keys) for verdict, keys in expected.items()}
    assert result.delivered == rows - len(KINDS) * each
    print(
        f"{rows:>9,} rows with {each} faults of each of {len(expected)} kinds: exactly those found   {seconds:6.2f} s"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--large", action="store_true", help="also compare five times as many rows")
    parser.add_argument("--faults", type=int, default=0, metavar="N", help="plant N faults of every kind, and check")
    given = parser.parse_args()
    with contextlib.ExitStack() as stack:
        folder = Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="mercury-bench-", ignore_cleanup_errors=True))
        )
        folder.chmod(0o755)
        postgres = stack.enter_context(EmbeddedPostgres(folder / "postgres", {"shared_buffers": "256MB"}))
        configs = [
            (fill(postgres, rows), rows) for rows in ([given.rows, 5 * given.rows] if given.large else [given.rows])
        ]
        started = time.perf_counter()
        spark = stack.enter_context(session(SparkSettings()))
        took = time.perf_counter() - started
        print(f"Spark's session: {took:.1f} s; {spark.sparkContext.defaultParallelism} processors")
        for number, (config, rows) in enumerate(configs):
            measure(config, rows, spark, cold=not number)
        if given.faults:
            check(configs[0][0], given.rows, given.faults, spark)


if __name__ == "__main__":
    main()
