"""The stores that the tests of storage run on, each named by its URL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import text

from mercury.storage.opening import open_engine, open_sql_store
from mercury.storage.sql.store import SqlStore
from mercury.storage.sql.versions import renew_id
from tests.acceptance.processes import Ended
from tests.storage.round_trips import Relay, relay
from tests.stores import EVERY, SQL, NewUrl, urls_of

if TYPE_CHECKING:
    from tests.storage.placed_orders import PairOf

#: Runs ``mercury`` with these arguments and variables.
Command = Callable[..., Ended]


def fill(url: str) -> None:
    """Mercury's tables in an empty database, without a session left in it."""
    open_sql_store(url).close()


def store_urls(kind: str, request: pytest.FixtureRequest, folder: Path) -> NewUrl:
    """The URLs of empty stores of a kind, each with an id of its own; those in a database have their tables."""
    copies = urls_of(kind, request, folder, fill)

    def create() -> str:
        url = copies()
        if kind in SQL:
            engine = open_engine(url)
            renew_id(engine)
            engine.dispose()
        return url

    return create


@pytest.fixture(params=EVERY)
def any_urls(request: pytest.FixtureRequest, tmp_path: Path) -> NewUrl:
    """The URLs of empty stores of one kind, for each kind."""
    return store_urls(request.param, request, tmp_path)


@pytest.fixture
def any_url(any_urls: NewUrl) -> str:
    """The URL of an empty store of each kind."""
    return any_urls()


@pytest.fixture(params=SQL)
def sql_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty store of each kind that is in a database."""
    return store_urls(request.param, request, tmp_path)()


@pytest.fixture
def postgres_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty store in PostgreSQL."""
    return store_urls("postgres", request, tmp_path)()


@pytest.fixture
def placing_store(postgres_url: str) -> Iterator[SqlStore]:
    """An open store in PostgreSQL, with the table ``placed`` of an application."""
    opened = open_sql_store(postgres_url)
    with opened.engine.begin() as connection:
        connection.execute(text("create table placed (id int primary key)"))
    yield opened
    opened.close()


@pytest.fixture
def far(placing_store: SqlStore, postgres_url: str) -> Iterator[tuple[SqlStore, Relay]]:
    """The same store behind a relay."""
    with relay(postgres_url) as between:
        opened = open_sql_store(between.url)
        yield opened, between
        opened.close()


@pytest.fixture(params=SQL)
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a database without tables, of each kind."""
    return urls_of(request.param, request, tmp_path)()


@pytest.fixture
def empty_postgres_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a PostgreSQL database without tables."""
    return urls_of("postgres", request, tmp_path)()


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs the command in this process, as a process of its own would: that takes a second each time."""
    from mercury.cli.main import run  # noqa: PLC0415  most tests need no command, and many run alone, for a mutant

    def run_it(*arguments: str, **environment: str) -> Ended:
        code: object = 0
        with monkeypatch.context() as patch:
            patch.setattr("sys.argv", ["mercury", *arguments])
            for name, value in {"MERCURY_STORE": "memory:", **environment}.items():
                patch.setenv(name, value)
            capsys.readouterr()
            try:
                run()
            except SystemExit as error:
                code = error.code
        said = capsys.readouterr()
        return Ended(int(str(code or 0)), said.out, said.err)

    return run_it


@pytest.fixture
def pair_of() -> Iterator[PairOf]:
    """Makes pairs whose server inserts orders."""
    from tests.storage.placed_orders import pairs  # noqa: PLC0415  most tests need no pair, and many run alone

    with pairs() as made:
        yield made
