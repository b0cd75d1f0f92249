"""The stores that the tests of storage run on, each named by its URL."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from mercury.cli.main import run
from tests.acceptance.processes import Ended

#: Runs ``mercury`` with these arguments and variables.
Command = Callable[..., Ended]
#: Those in a database, and all.
SQL = ("sqlite", "postgres")
EVERY = ("memory", *SQL)


def _url(kind: str, folder: Path, request: pytest.FixtureRequest) -> str:
    if kind == "memory":
        return "memory:"
    if kind == "sqlite":
        return f"sqlite:///{folder}/store.db"
    create: Callable[[], str] = request.getfixturevalue("postgres_database")
    return create()


@pytest.fixture(params=EVERY)
def any_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty store of each kind."""
    return _url(request.param, tmp_path, request)


@pytest.fixture(params=SQL)
def sql_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty store of each kind that is in a database."""
    return _url(request.param, tmp_path, request)


@pytest.fixture
def postgres_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty PostgreSQL database."""
    return _url("postgres", tmp_path, request)


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs the command in this process, as a process of its own would: that takes a second each time."""

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
