"""The databases of an experiment, on a server that may be killed."""

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
from mercury.storage.sql.upgrades import upgrade
from tests.chaos.kinds import Form
from tests.chaos.programs import tables

#: Milliseconds after which the server ends the transaction of an idle session, whose process may be stopped.
IDLE = 700
MEMORY = "memory:"

END_OTHERS = """
    select pg_terminate_backend(pid) from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'
"""
PREPARED_HERE = "select gid from pg_prepared_xacts where database = current_database()"
#: All tables of a database except those with its schema's version and its store's id.
FILLED = """
    select tablename from pg_tables
    where schemaname = 'public' and tablename not in ('mercury_store', 'mercury_schema_version')
"""


@dataclass(frozen=True, slots=True)
class Urls:
    """The URLs of one program's databases; empty = it has no such database."""

    store: str
    app: str
    log: str = ""


@dataclass(frozen=True, slots=True)
class ExperimentDatabases:
    """The databases of both programs of an experiment."""

    client: Urls
    server: Urls

    @property
    def names(self) -> list[str]:
        """The names of the databases, each once."""
        urls = (url for side in (self.client, self.server) for url in (side.store, side.app, side.log))
        return list(dict.fromkeys(str(make_url(url).database) for url in urls if url not in ("", MEMORY)))


class Site:
    """One server with the databases of successive experiments.

    The databases are emptied between two experiments and reused: dropping one needs a checkpoint, which takes longer
    than most experiments.

    :param orders: the number of orders that a client has to send.
    :param making: a lock that is held while tables are created, because Alembic is not thread-safe.
    :param idle: milliseconds after which the server ends the transaction of an idle session.
    """

    def __init__(self, server: EmbeddedPostgres, orders: int, making: threading.Lock, idle: int = IDLE) -> None:
        self.server = server
        self.orders = orders
        self._making = making
        self._idle = idle
        self._databases = Databases(server.url())
        self._by_form: dict[Form, ExperimentDatabases] = {}
        self._made = 0

    def databases(self, form: Form) -> ExperimentDatabases:
        """Empty databases for both programs. Sessions of the experiment before are ended."""
        if form in self._by_form:
            self._empty(self._by_form[form])
        else:
            self._by_form[form] = ExperimentDatabases(self.side(form), self.side(form))
        return self._by_form[form]

    def side(self, form: Form) -> Urls:
        """Empty databases for one program."""
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
        # The transaction of a stopped process is ended after this timeout.
        return f"{url}&options=--idle_in_transaction_session_timeout%3D{self._idle}"

    def _empty(self, databases: ExperimentDatabases) -> None:
        for urls in (databases.client, databases.server):
            for url in dict.fromkeys((urls.store, urls.app, urls.log)):
                if url not in ("", MEMORY):
                    with connect(url) as connection:
                        _empty(connection, self.orders)


def _empty(connection: psycopg.Connection, orders: int) -> None:
    """Restore the initial content of a database."""
    while connection.execute(END_OTHERS).fetchall():
        time.sleep(0.005)  # until the sessions have ended
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
        # A reused store needs a new id, because prepared branches are named by it.
        connection.execute("update mercury_store set id = %s", (uuid.uuid4().hex[:12],))


def connect(url: str) -> psycopg.Connection:
    """A connection for queries, in autocommit mode."""
    address = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    return psycopg.connect(address, autocommit=True, connect_timeout=5)
