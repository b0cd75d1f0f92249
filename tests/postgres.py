"""PostgreSQL for tests. A server starts when the first test needs it.

- `postgres_database` creates databases on one server that all tests share; they are dropped after the test.
- `postgres_server` is that server, which runs until the end of the test session.
- `own_postgres` is a server for one test, which may kill and restart it.

With ``MERCURY_TEST_POSTGRES``, the URL of a database whose role may create databases, the shared server is an existing
one. All servers flush to disk, as servers in production do.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator

import pytest

from mercury.errors import ConfigurationError
from mercury.postgres.embedded import EmbeddedPostgres
from mercury.testing.postgres import Fill, PostgresServer, embedded_postgres, postgres_folder
from mercury.testing.postgres import postgres_server as shared_server

__all__ = ["EmbeddedPostgres", "PostgresServer", "embedded_postgres", "postgres_folder"]

VARIABLE = "MERCURY_TEST_POSTGRES"
URL = pytest.StashKey[str]()


def pytest_configure(config: pytest.Config) -> None:
    # Mercury's settings refuse a variable they do not know, and children of tests are not to know it either.
    config.stash[URL] = os.environ.pop(VARIABLE, "")


def pytest_unconfigure(config: pytest.Config) -> None:
    if config.stash.get(URL, ""):
        os.environ[VARIABLE] = config.stash[URL]


@contextlib.contextmanager
def shared_postgres(url: str) -> Iterator[PostgresServer]:
    """The user's own server, or an embedded one if the URL is empty."""
    with contextlib.ExitStack() as stack:
        try:
            server = stack.enter_context(shared_server(url))
        except ConfigurationError as error:
            pytest.fail(f"{VARIABLE}: {error}", pytrace=False)
        yield server


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
