"""The databases of one experiment: clones of templates, on a server that may be killed."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import psycopg
from sqlalchemy import create_engine, make_url

from mercury.storage.opening import open_engine
from mercury.storage.postgres.databases import Databases
from mercury.storage.postgres.embedded import EmbeddedPostgres
from mercury.storage.sql.versions import upgrade
from tests.chaos.kinds import Form
from tests.chaos.programs import tables

#: Milliseconds after which the server ends a transaction whose process does nothing: it may stand still.
IDLE = 700
MEMORY = "memory:"


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
    """One server and the databases that were made there.

    :param orders: how many orders a client has to send.
    """

    def __init__(self, server: EmbeddedPostgres, orders: int) -> None:
        self.server = server
        self.orders = orders
        self._databases = Databases(server.url())
        self._templates: dict[str, str] = {}
        self._made = 0

    @contextlib.contextmanager
    def ground(self, form: Form) -> Iterator[Ground]:
        """Fresh databases for one experiment; they go with the block."""
        ground = Ground(self._side(form), self._side(form))
        try:
            yield ground
        finally:
            for name in ground.names:
                self._databases.drop(name)

    def _side(self, form: Form) -> Urls:
        if form is Form.SAME_DATABASE:
            both = self._clone("both", self._fill_both)
            _rename_store(both)
            return Urls(both, both)
        app = self._clone("app", self._fill_app)
        if form is Form.MEMORY:
            return Urls(MEMORY, app)
        store = self._clone("store", _fill_store)
        _rename_store(store)
        return Urls(store, app, self._clone("log", lambda _: None) if form is Form.TWO_PHASE else "")

    def _clone(self, kind: str, fill: Callable[[str], None]) -> str:
        if kind not in self._templates:
            url = self._databases.create(f"template_{kind}")
            fill(url)
            self._templates[kind] = f"template_{kind}"
        self._made += 1
        url = self._databases.create(f"{kind}_{self._made}", self._templates[kind])
        return f"{url}&options=--idle_in_transaction_session_timeout%3D{IDLE}"

    def _fill_app(self, url: str) -> None:
        engine = create_engine(url)
        tables.make(engine, self.orders)
        engine.dispose()

    def _fill_both(self, url: str) -> None:
        _fill_store(url)
        self._fill_app(url)


def _fill_store(url: str) -> None:
    engine = open_engine(url)
    upgrade(engine)
    engine.dispose()


def _rename_store(url: str) -> None:
    """A copy of a store gets an id of its own before it runs."""
    with connect(url) as connection:
        connection.execute("update mercury_store set id = %s", (uuid.uuid4().hex[:12],))


def connect(url: str) -> psycopg.Connection:
    """A connection to look with, each statement in a transaction of its own."""
    address = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    return psycopg.connect(address, autocommit=True, connect_timeout=5)
