"""All ways to move rows that are compared: Mercury's, the rivals', and the bases of some ratios."""

from __future__ import annotations

import re
import sqlite3
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import sqlalchemy as sa
from psycopg.rows import TupleRow

from benchmarks import rival_packages
from benchmarks.brokers import free_port
from benchmarks.child import ROOT, Child
from benchmarks.mercury_spec import Spec
from mercury import Mercury
from mercury.postgres.embedded import EmbeddedPostgres

ORDERS = "create table orders(id bigint primary key, text text not null)"
RECEIVED = "create table received(arrival bigserial primary key, id bigint not null, text text not null)"
CONFIRMED = "create table confirmed(arrival bigserial primary key, id bigint not null)"
SQLITE_RECEIVED = RECEIVED.replace("bigserial", "integer")
MERCURY = "benchmarks/mercury_processes.py"
OUTBOX = "benchmarks/rivals/outbox_table.py"
#: How many rows have arrived, for the number that is waited for.
Count = Callable[[int], int]


@dataclass(kw_only=True)
class Way:
    """One way to carry rows, ready to run: its databases exist."""

    name: str
    #: The commands of its processes by side, "client" and "server", and whether they obey lines (Mercury's do).
    processes: dict[str, list[list[str]]]
    application: list[str]
    #: Opens what tells how many rows have arrived, with the processes that run: exactly if it is as many as asked for,
    #: or more.
    arrivals: Callable[[Running], AbstractContextManager[Count]]
    environment: dict[str, str] = field(default_factory=dict)
    obeys: bool = True
    #: The databases; "" = the way has no PostgreSQL database, so that there are no times of commits.
    client: str = ""
    server: str = ""
    #: The server's SQLite file; "" = it has none.
    file: str = ""
    #: The table of arrived rows in the client's database; "" = the server's table counts.
    confirmed: str = ""
    #: The application is the carrier too.
    together: bool = False
    #: It has phases of a stream and a drain; the base for latency has neither.
    moves_backlog: bool = True
    #: After so many rows all its processes have carried something.
    first_rows: int = 1
    #: All rows have one order; with several keys each key has its own.
    ordered: bool = True


@dataclass
class Running:
    """The processes of a way."""

    application: Child
    sides: dict[str, list[Child]]


@dataclass(frozen=True, slots=True)
class Kind:
    """A way before its databases are made."""

    name: str
    #: Makes its databases for one round, whose name is given.
    make: Callable[[EmbeddedPostgres, Path, str], Way]
    #: The files with its user code.
    files: tuple[str, ...] = ()
    broker: str | None = None
    #: The marked part of the files that belongs to this way only.
    part: str = ""
    #: The share of the rows that a slow way gets; how many it had is stated with its figures.
    share: float = 1.0

    @property
    def lines(self) -> int | None:
        """Lines that a user writes; ``None`` = none are marked."""
        return sum(count_lines((ROOT / name).read_text(), self.part) for name in self.files) or None


def count_lines(source: str, part: str = "") -> int:
    """The lines of user code in a file: between the marks, and those that end in one; blank and comments not.

    :param part: the name in the marks of a part that counts too; parts with other names do not.
    """
    regions = re.findall(r"# --- user code begin(?:: (\w+))?\n(.*?)# --- user code end", source, re.DOTALL)
    lines = [line.strip() for name, region in regions if name in ("", part) for line in region.splitlines()]
    inside = sum(bool(line) and not line.startswith("#") for line in lines)
    return inside + sum(line.endswith("  # user code") for line in source.splitlines())


def connect(url: str, *, autocommit: bool = False) -> psycopg.Connection[TupleRow]:
    return psycopg.connect(plain(url), autocommit=autocommit)


def plain(url: str) -> str:
    """The URL in the form of psycopg."""
    return sa.make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)


@contextmanager
def _in_postgres(url: str, table: str, _running: Running) -> Iterator[Count]:
    """Looks by one connection: to start a session for each took more of the machine than many a way itself."""
    with connect(url, autocommit=True) as connection:

        def arrived(asked: int) -> int:
            for figure in ("coalesce(max(arrival), 0)", "count(*)"):  # a rolled back insert has used a number too
                ((there,),) = connection.execute(f"select {figure} from {table}".encode()).fetchall()
                if there < asked:
                    break
            return int(there)

        yield arrived


@contextmanager
def _in_sqlite(path: str, _running: Running) -> Iterator[Count]:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=10)) as connection:
        query = "select coalesce(max(arrival), 0) from received"
        yield lambda _asked: int(connection.execute(query).fetchone()[0])


@contextmanager
def _in_memory(asks: bool, running: Running) -> Iterator[Count]:
    child = running.application if asks else running.sides["server"][0]
    yield lambda _asked: int(child.ask("count"))


def arrivals_of(way: Way) -> Iterator[tuple[list[int], list[int]]]:
    """The ids and the lengths of the rows that have arrived, in order, by table; in memory there are none."""
    query = "select id, length(text) from received order by arrival"
    if way.server:
        with connect(way.server) as connection:
            yield _columns(connection.execute(query.encode()).fetchall())
    if way.confirmed:
        with connect(way.client) as connection:
            yield _columns(connection.execute(f"select id from {way.confirmed} order by arrival".encode()).fetchall())
    if way.file:
        with closing(sqlite3.connect(f"file:{way.file}?mode=ro", uri=True, timeout=10)) as connection_to_file:
            yield _columns(connection_to_file.execute(query).fetchall())


def _columns(rows: Sequence[Sequence[int]]) -> tuple[list[int], list[int]]:
    return [row[0] for row in rows], [row[1] for row in rows if len(row) > 1]


# --- Mercury -------------------------------------------------------------------------------------------------------


def _own_command(role: str, spec: Spec) -> list[str]:
    return [sys.executable, "-m", "benchmarks.mercury_processes", role, spec.json()]


def mercury_way(
    postgres: EmbeddedPostgres,
    folder: Path,
    run: str,
    *,
    store: str = "same",
    processes: int = 1,
    metrics: bool = False,
    together: bool = False,
    **options: Any,
) -> Way:
    """A way of Mercury.

    :param store: "same" database as the application's tables, another ("xa-last", "xa-two-phase"), "sqlite", "memory".
    :param processes: on each side.
    :param metrics: all processes count and measure.
    :param together: the application's process sends.
    :param options: of `Spec`.
    """
    run = re.sub(r"\W", "_", run)
    ports = [free_port() for _ in range(processes)]
    template = Spec(store="memory:", ports=ports, **options)
    client, server = template, template
    way = Way(name=run, processes={}, application=[], arrivals=partial(_in_memory, template.asks))
    way.ordered, way.first_rows = template.keys == 1, template.keys
    if metrics:
        way.environment["MERCURY_METRICS_ENABLED"] = "true"
    way.together = together or store == "memory"
    if store == "sqlite":
        files = {side: str(folder / f"{run}_{side}.db") for side in ("client", "server")}
        client, server = (replace(template, store=f"sqlite:///{path}") for path in files.values())
        for spec, path, table in ((client, files["client"], ORDERS), (server, files["server"], SQLITE_RECEIVED)):
            Mercury(spec.store).stop()  # makes Mercury's tables
            with closing(sqlite3.connect(path)) as connection:
                connection.execute(table)
        way.file = files["server"]
        way.arrivals = partial(_in_sqlite, way.file)
    elif store != "memory":
        way.client, way.server = (postgres.create_database(f"{run}_{side}") for side in ("client", "server"))
        make_tables(way.client, way.server)
        client, server = replace(template, store=way.client), replace(template, store=way.server)
        if store != "same":
            stores = [postgres.create_database(f"{run}_{side}_store") for side in ("client", "server")]
            logs: list[str | None] = [None, None]
            if store == "xa-two-phase":
                logs = [postgres.create_database(f"{run}_{side}_decisions") for side in ("client", "server")]
            client = replace(template, store=stores[0], database=way.client, decision_log=logs[0])
            server = replace(template, store=stores[1], database=way.server, decision_log=logs[1])
        for spec in (client, server):
            Mercury(spec.store).stop()
        way.confirmed = "confirmed" if template.asks else ""
        place = (way.client, "confirmed") if template.asks else (way.server, "received")
        way.arrivals = partial(_in_postgres, *place)
    way.application = _own_command("application", client)
    servers = [_own_command("server", replace(server, ports=[port])) for port in ports]
    carriers = [] if way.together else [_own_command("carrier", client)] * processes
    way.processes = {"server": servers, "client": carriers}
    return way


def make_tables(client: str, server: str) -> None:
    for url, tables in ((client, (ORDERS, CONFIRMED)), (server, (RECEIVED,))):
        with connect(url) as connection:
            for table in tables:
                connection.execute(table.encode())


# --- rivals --------------------------------------------------------------------------------------------------------


def rival_way(
    postgres: EmbeddedPostgres, _folder: Path, run: str, *, module: str, batch: int = 1, relays: bool = True
) -> Way:
    """A way of `benchmarks.rivals`.

    :raises NotInstalled: its packages cannot be installed.
    """
    run = re.sub(r"\W", "_", run)
    python = rival_packages.python()
    client, server = (postgres.create_database(f"{run}_{side}") for side in ("client", "server"))
    make_tables(client, server)
    environment = {
        "CLIENT_DATABASE": plain(client),
        "SERVER_DATABASE": plain(server),
        "HTTP_PORT": str(free_port()),
        "BATCH": str(batch),
        "QUEUE": run,
    }
    command = [python, "-m", "benchmarks.rivals.role", module]
    sides = {"server": [[*command, "server"]], "client": [[*command, "relay"]] if relays else []}
    if module == "procrastinate_jobs":
        sides["server"] = []  # its worker runs the task, which writes into the server's database
        Child([*command, "tables"], environment, obeys=False).wait()
    _make_rival_tables(client, server, module)
    return Way(
        name=run,
        processes=sides,
        application=[python, "-m", "benchmarks.rivals.application", module],
        arrivals=partial(_in_postgres, server, "received"),
        environment=environment,
        obeys=False,
        client=client,
        server=server,
        moves_backlog=relays,
    )


def _rival_files(module: str) -> tuple[str, ...]:
    """The files with the user code of a rival."""
    own = f"benchmarks/rivals/{module}.py"
    return (own, OUTBOX) if "rivals.outbox_table" in (ROOT / own).read_text() else (own,)


def _make_rival_tables(client: str, server: str, module: str) -> None:
    """Run the statements that the user code has as constants, without importing it: its packages are not here."""
    for name in _rival_files(module):
        for constant, url in (("CLIENT_TABLES", client), ("SERVER_TABLES", server)):
            form = rf'^{constant} = ("""(.*?)"""|"(.*?)")$'
            found = re.search(form, (ROOT / name).read_text(), re.DOTALL | re.MULTILINE)
            if found is not None:
                with connect(url) as connection:
                    connection.execute((found[2] or found[3]).encode())


# --- the lists -----------------------------------------------------------------------------------------------------


def _mercury(name: str, store: str = "same", *, processes: int = 1, share: float = 1.0, **options: Any) -> Kind:
    make = partial(mercury_way, store=store, processes=processes, **options)
    return Kind(name, make, (MERCURY,), part="lists" if options.get("lists") else "one", share=share)


def _rival(
    name: str, module: str, *, batch: int = 1, broker: str | None = None, relays: bool = True, share: float = 1.0
) -> Kind:
    make = partial(rival_way, module=module, batch=batch, relays=relays)
    return Kind(name, make, _rival_files(module), broker, share=share)


SAME = "Mercury, same database"
BY_APPLICATION = "Mercury, same database, sent by the application"
METRICS = "Mercury, same database, metrics on"
SINGLE = "Mercury, same database, single messages"
LISTS = "Mercury, same database, list handler"
SINGLE_LISTS = "Mercury, same database, single messages, list handler"
IN_OUT = "Mercury, same database, in-out"
TWO_PHASE = "Mercury, XA two-phase"
MEMORY = "Mercury, memory"
KEYS = "Mercury, same database, 8 keys"
TWO_PROCESSES = "Mercury, same database, 8 keys, two processes a side"
RABBIT, RABBIT_TUNED = "outbox + RabbitMQ", "outbox + RabbitMQ, tuned"
HTTP, HTTP_50 = "outbox + HTTP, one row a request", "outbox + HTTP, 50 rows a request"
BARE_POST = "bare POST + two commits"


def kinds() -> list[Kind]:
    """All ways, in the order of the table."""
    return [
        _mercury(SAME),
        _mercury(BY_APPLICATION, together=True),
        _mercury(METRICS, metrics=True),
        _mercury(LISTS, lists=True),
        _mercury(SINGLE, single=True),
        _mercury(SINGLE_LISTS, single=True, lists=True),
        _mercury("Mercury, memory, single messages", "memory", single=True),
        _mercury("Mercury, same database, RM 1.0", rm="1.0"),
        _mercury("Mercury, same database, RM 1.0, single messages", rm="1.0", single=True),
        _mercury("Mercury, same database, single messages, each statement at once", single=True, at_once=True),
        _mercury(IN_OUT, asks=True),
        _mercury("Mercury, XA last-resource", "xa-last", share=0.5),
        _mercury(TWO_PHASE, "xa-two-phase", share=0.5),
        _mercury("Mercury, SQLite outbox", "sqlite"),
        _mercury(MEMORY, "memory"),
        _mercury("Mercury, memory, in-out", "memory", asks=True),
        _mercury(KEYS, keys=8),
        _mercury(TWO_PROCESSES, processes=2, keys=8),
        _rival(RABBIT, "rabbit", broker="rabbit"),
        _rival(RABBIT_TUNED, "rabbit_tuned", batch=50, broker="rabbit"),
        _rival(HTTP, "http_rows"),
        _rival(HTTP_50, "http_rows", batch=50),
        _rival("SOAP floor", "soap_floor"),
        _rival("procrastinate", "procrastinate_jobs", share=0.2),
        _rival("outbox + NATS JetStream", "nats_stream", broker="nats"),
        _rival(BARE_POST, "bare_post", relays=False),
    ]
