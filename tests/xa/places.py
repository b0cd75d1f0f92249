"""The databases of one test, and the construction of its Mercurys with them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from sqlalchemy import Engine, create_engine, make_url, text
from sqlalchemy.pool import NullPool

from mercury.postgres.databases import END_SESSIONS
from mercury.storage.api import Transaction
from mercury.storage.opening import open_sql_store
from mercury.storage.xa.coordinator import Coordinator
from mercury.storage.xa.resources import Resource
from mercury.storage.xa.timing import Timing
from mercury.testing.contract.builders import row

#: A process that gives no sign of life is given up at once.
AT_ONCE = Timing(interval=3600.0, lease=0.0, grace=0.0)

PREPARED = "select gid from pg_prepared_xacts where database = current_database()"
#: All tables but the one with the store's name, and the schema's version.
WRITTEN = """
    select tablename from pg_tables where schemaname = 'public'
    and tablename not in ('mercury_store', 'mercury_schema_version') order by tablename
"""
#: Seconds: a test does not wait long for a process that was stopped.
LOCK_TIMEOUT = 1.0


def work(tx: Transaction, number: int) -> None:
    """What an application does: an order of its own, and a message about it."""
    tx.connection("app").execute(text("insert into placed values (:number)"), {"number": number})
    send(tx, number)


def send(tx: Transaction, number: int) -> None:
    """Send the message about an order."""
    tx.rms.append(row(f"urn:message:{number}", correlation=str(number)))


def fill_store(url: str) -> None:
    """Mercury's tables, without a session left."""
    open_sql_store(url).close()


def fill_application(url: str) -> None:
    """The application's tables, without a session left."""
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(text("create table placed (id int primary key)"))
        connection.execute(text("create table parent (id int primary key)"))
        connection.execute(text("create table child (id int references parent deferrable initially deferred)"))
    engine.dispose()


@dataclass
class Places:
    """A store, an application's database, and perhaps a log."""

    store: str
    app: str
    log: str | None = None
    _names: Iterator[int] = field(default_factory=itertools.count)
    _engines: dict[str, Engine] = field(default_factory=dict)

    @contextmanager
    def process(self, *, timing: Timing = AT_ONCE, app: str | None = None) -> Iterator[Coordinator]:
        """What one process has: a store of its own and a coordinator. No thread of its own runs."""
        store = open_sql_store(self.store, lock_timeout=LOCK_TIMEOUT)
        log = open_sql_store(self.log, lock_timeout=LOCK_TIMEOUT) if self.log else None
        engine = create_engine(app or self.app)
        resources = {"app": Resource("app", engine)}
        name = f"process{next(self._names)}"
        coordinator = store.coordinator = Coordinator(store, resources, lambda: name, log=log, timing=timing)
        try:
            yield coordinator
        finally:
            engine.dispose()
            store.close()

    def engine(self, url: str | None = None) -> Engine:
        """For a look at a database from outside."""
        url = url or self.app
        if url not in self._engines:
            # A server may be killed between two looks.
            self._engines[url] = create_engine(url, poolclass=NullPool)
        return self._engines[url]

    def close(self) -> None:
        for engine in self._engines.values():
            engine.dispose()

    def clean(self) -> None:
        """Leave the databases as they were made, whatever a test has left going on in them."""
        for url in {self.app, self.store, self.log or self.store}:
            if make_url(url).get_backend_name() == "postgresql":
                with self.engine(url).execution_options(isolation_level="AUTOCOMMIT").connect() as connection:
                    connection.execute(text(END_SESSIONS))
                    for gid in connection.scalars(text(PREPARED)).all():
                        connection.exec_driver_sql(f"rollback prepared '{gid}'")
                    for table in connection.scalars(text(WRITTEN)).all():
                        connection.exec_driver_sql(f"delete from {table}")

    # --- what there is ---------------------------------------------------------------------------------------------

    def placed(self) -> list[int]:
        """What the application has committed."""
        with self.engine().connect() as connection:
            return list(connection.scalars(text("select id from placed order by id")))

    def sent(self) -> list[int]:
        """What the store has committed: the orders that messages are about."""
        with self.engine(self.store).connect() as connection:
            found = connection.scalars(text("select correlation from mercury_rms_message order by position"))
            return [int(each) for each in found]

    def prepared(self) -> list[str]:
        """What is in doubt, in every database."""
        found: list[str] = []
        for url in {self.app, self.store, self.log or self.store}:
            if make_url(url).get_backend_name() == "postgresql":
                with self.engine(url).connect() as connection:
                    found += connection.scalars(text(PREPARED))
        return sorted(found)

    def decisions(self) -> list[tuple[str, str]]:
        """The decision log: transaction and outcome."""
        with self.engine(self.log or self.store).connect() as connection:
            rows = connection.execute(text("select gtrid, outcome from mercury_decision order by gtrid"))
            return [(gtrid, outcome) for gtrid, outcome in rows]

    @property
    def state(self) -> tuple[list[int], list[int], list[str]]:
        """What the application has, what the store has, what is in doubt."""
        return self.placed(), self.sent(), self.prepared()


def fill_both(url: str) -> None:
    """All tables in one database, without a session left."""
    fill_application(url)
    fill_store(url)
