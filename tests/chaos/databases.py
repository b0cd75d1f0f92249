"""The databases of one experiment: clones of templates, on a server that may be killed."""

from __future__ import annotations

import threading
import time
import uuid
from dataclasses import dataclass

import psycopg
from psycopg import sql
from sqlalchemy import create_engine, make_url

from mercury.postgres.databases import Databases
from mercury.postgres.embedded import EmbeddedPostgres
from mercury.storage.opening import open_engine
from mercury.storage.sql.versions import upgrade
from tests.chaos.kinds import Form
from tests.chaos.programs import tables

#: Milliseconds after which the server ends a transaction whose process does nothing: it may stand still.
IDLE = 700
MEMORY = "memory:"

END_OTHERS = """
    select pg_terminate_backend(pid) from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'
"""
PREPARED_HERE = "select gid from pg_prepared_xacts where database = current_database()"
#: What a database has but for its schema's version and its store's name.
FILLED = """
    select tablename from pg_tables
    where schemaname = 'public' and tablename not in ('mercury_store', 'mercury_schema_version')
"""


@dataclass(frozen=True, slots=True)
class Urls:
    """Where one program keeps what it has. What it does not have is empty."""

    store: str
    app: str
    log: str = ""


@dataclass(frozen=True, slots=True)
class Ground:
    """Where both programs of an experiment keep what they have."""

    client: Urls
    server: Urls

    @property
    def names(self) -> list[str]:
        """The databases, each once."""
        urls = (url for side in (self.client, self.server) for url in (side.store, side.app, side.log))
        return list(dict.fromkeys(str(make_url(url).database) for url in urls if url not in ("", MEMORY)))


class Site:
    """One server with the databases of one experiment after the other.

    They are emptied between two: to drop one takes a checkpoint, longer than most experiments.

    :param orders: how many orders a client has to send.
    :param making: held while tables are made: Alembic does that once at a time in a process.
    :param idle: milliseconds after which the server ends a transaction whose process does nothing.
    """

    def __init__(self, server: EmbeddedPostgres, orders: int, making: threading.Lock, idle: int = IDLE) -> None:
        self.server = server
        self.orders = orders
        self._making = making
        self._idle = idle
        self._databases = Databases(server.url())
        self._grounds: dict[Form, Ground] = {}
        self._made = 0

    def ground(self, form: Form) -> Ground:
        """Fresh databases. Nobody may use those of the experiment before any more: its sessions are ended."""
        if form in self._grounds:
            self._empty(self._grounds[form])
        else:
            self._grounds[form] = Ground(self.side(form), self.side(form))
        return self._grounds[form]

    def side(self, form: Form) -> Urls:
        """Fresh databases of one program."""
        if form is Form.SAME_DATABASE:
            both = self._make()
            return Urls(both, both)
        app = self._make(store=False)
        if form is Form.MEMORY:
            return Urls(MEMORY, app)
        log = self._make(app=False) if form is Form.TWO_PHASE else ""
        return Urls(self._make(app=False), app, log)

    def _make(self, *, store: bool = True, app: bool = True) -> str:
        self._made += 1
        url = self._databases.create(f"chaos_{self._made}")
        if store:
            engine = open_engine(url)
            with self._making:
                upgrade(engine)
            engine.dispose()
        if app:
            engine = create_engine(url)
            tables.make(engine, self.orders)
            engine.dispose()
        # A process that stands still loses its transaction after a moment.
        return f"{url}&options=--idle_in_transaction_session_timeout%3D{self._idle}"

    def _empty(self, ground: Ground) -> None:
        for urls in (ground.client, ground.server):
            for url in dict.fromkeys((urls.store, urls.app, urls.log)):
                if url not in ("", MEMORY):
                    with connect(url) as connection:
                        _empty(connection, self.orders)


def _empty(connection: psycopg.Connection, orders: int) -> None:
    """Leave a database as it was made."""
    while connection.execute(END_OTHERS).fetchall():
        time.sleep(0.005)  # until they are gone
    for (gid,) in connection.execute(PREPARED_HERE).fetchall():
        connection.execute(sql.SQL("rollback prepared {}").format(sql.Literal(gid)))
    names = [name for (name,) in connection.execute(FILLED).fetchall()]
    if names:
        which = sql.SQL(", ").join(map(sql.Identifier, names))
        connection.execute(sql.SQL("truncate {} restart identity").format(which))
    if "orders" in names:
        rows = [tuple(row.values()) for row in tables.orders(orders)]
        connection.cursor().executemany("insert into orders (id, item, quantity) values (%s, %s, %s)", rows)
    if any(name.startswith("mercury_") for name in names):
        # A copy of a store, or one that begins anew, has another id: branches are named by it.
        connection.execute("update mercury_store set id = %s", (uuid.uuid4().hex[:12],))


def connect(url: str) -> psycopg.Connection:
    """A connection to look with, each statement in a transaction of its own."""
    address = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    return psycopg.connect(address, autocommit=True, connect_timeout=5)
