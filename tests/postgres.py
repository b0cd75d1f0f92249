"""PostgreSQL for tests.

Nothing is started before a test asks for it. What there is:

- `postgres_database`: makes databases on one server that all tests share; they are gone after the test.
- `postgres_server`: that server, for its whole life one session of tests.
- `own_postgres`: a server of the test's own, which it may kill and start again.

With ``MERCURY_TEST_POSTGRES``, the URL of a database whose role may create databases, the shared server is the user's
own one. All flush to disk: what is proved here is proved with the settings that it is used with.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import make_url

from mercury.errors import ConfigurationError
from mercury.storage.postgres.databases import Databases
from mercury.storage.postgres.embedded import EmbeddedPostgres
from tests.guard import guard

VARIABLE = "MERCURY_TEST_POSTGRES"
URL = pytest.StashKey[str]()

#: Settings that a user's own server may not have: no two-phase commit, or commits that may be lost.
UNUSABLE = """
    select name, setting from pg_settings
    where name = 'max_prepared_transactions' and setting::int < 16 or name in ('fsync', 'synchronous_commit')
    and setting = 'off'
"""

#: Fills a database, whose URL it is given.
Fill = Callable[[str], None]


def pytest_configure(config: pytest.Config) -> None:
    # Mercury's settings refuse a variable they do not know, and children of tests are not to know it either.
    config.stash[URL] = os.environ.pop(VARIABLE, "")


def pytest_unconfigure(config: pytest.Config) -> None:
    if config.stash.get(URL, ""):
        os.environ[VARIABLE] = config.stash[URL]


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
        """Remove a database that `create` made, whatever is still going on in it."""
        name = make_url(url).database
        assert name in self._made, f"{name} was not made here"
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
from mercury.storage.postgres.embedded import EmbeddedPostgres
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
    """A server that runs, in a folder of its own; nothing is left of it."""
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
def shared_postgres(url: str) -> Iterator[PostgresServer]:
    """The user's own server, or an embedded one if the URL is empty."""
    with contextlib.ExitStack() as stack:
        if url:
            refuse_unusable(url)
        else:
            url = stack.enter_context(embedded_postgres()).url()
        server = PostgresServer(url)
        stack.callback(server.close)
        yield server


def refuse_unusable(url: str) -> None:
    """Fail with a clear text if tests can not work with the server that the user named."""
    try:
        Databases(url)
        uri = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
        with psycopg.connect(uri, connect_timeout=10) as connection:
            wrong = connection.execute(UNUSABLE).fetchall()
    except (ConfigurationError, psycopg.Error) as error:
        pytest.fail(f"{VARIABLE}: {error}", pytrace=False)
    if wrong:
        pytest.fail(f"{VARIABLE}: the server's settings do not do: {wrong}", pytrace=False)


@pytest.fixture(scope="session")
def postgres_server(pytestconfig: pytest.Config) -> Iterator[PostgresServer]:
    """The server that all tests share. Nobody may stop it or change its settings."""
    with shared_postgres(pytestconfig.stash[URL]) as server:
        yield server


@pytest.fixture
def postgres_database(postgres_server: PostgresServer) -> Iterator[Callable[..., str]]:
    """Makes databases, empty or filled (see `PostgresServer.create`), and returns their URLs. They go with the test,
    with their sessions and prepared transactions.
    """
    made: list[str] = []

    def create(fill: Fill | None = None) -> str:
        made.append(postgres_server.create(fill))
        return made[-1]

    yield create
    for url in made:
        postgres_server.drop(url)


@pytest.fixture
def own_postgres() -> Iterator[EmbeddedPostgres]:
    """A server of the test's own that runs: ``kill()`` it (as with kill -9), ``stop()`` it, ``start()`` it again.

    Always an embedded one.
    """
    with embedded_postgres() as server:
        yield server
