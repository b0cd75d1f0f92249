"""The passwords in the URLs of databases, wherever such a URL is shown."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from types import MappingProxyType

import pytest
import typer
from sqlalchemy import create_engine

from mercury.cli.xa import _coordinator
from mercury.errors import MercuryError, StorageError
from mercury.masking import masked
from mercury.postgres.databases import Databases
from mercury.reconcile.source import connected
from mercury.storage.administration import Database
from mercury.storage.opening import open_store
from mercury.storage.sql.commit_markers import CommitMarkers
from mercury.storage.sql.postgres_dialect import Postgres
from mercury.storage.xa.names import checked_resource
from mercury.storage.xa.resources import Resource
from mercury.trial.deployment import _run

#: Nothing listens there.
SERVER = "127.0.0.1:1/orders?user=till&password=s3cret&sslpassword=s3cret&passfile=/s3cret"
URL = f"postgresql+psycopg://{SERVER}"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql+psycopg://joe:secret@db/orders", "postgresql+psycopg://joe:***@db/orders"),
        ("postgresql://:secret@db/orders", "postgresql://:***@db/orders"),
        ("postgresql://joe:@db/orders", "postgresql://joe:***@db/orders"),
        ("postgresql://joe:sec/ret@db/orders", "postgresql://joe:***@db/orders"),
        ("postgresql://joe:sec?ret@db/orders", "postgresql://joe:***@db/orders"),
        ("postgresql://joe:sec@ret@db/orders", "postgresql://joe:***@db/orders"),
        ("postgresql://joe:sec:ret@db/orders", "postgresql://joe:***@db/orders"),
        ("postgresql//joe:secret@db/orders", "postgresql//joe:***@db/orders"),
        ("postgresql:/joe:secret@db/orders", "postgresql:/joe:***@db/orders"),
        ("postgresql://joe:***@db/orders?passfile=/secret", "postgresql://joe:***@db/orders?passfile=***"),
        ("postgresql://db/orders?user=joe&password=secret", "postgresql://db/orders?user=joe&password=***"),
        ("postgresql://db/orders?sslPassword=secret&a=b", "postgresql://db/orders?sslPassword=***&a=b"),
        ("postgresql://joe@db:5432/orders", "postgresql://joe@db:5432/orders"),
        ("http://127.0.0.1:8080/services", "http://127.0.0.1:8080/services"),
        ("sqlite:///outbox.db", "sqlite:///outbox.db"),
        ("memory:", "memory:"),
        ("", ""),
    ],
)
def test_passwords_are_not_shown(text: str, shown: str) -> None:
    assert masked(text) == shown


def _asked_for_a_commit() -> None:
    engine = create_engine(URL)
    markers = CommitMarkers(engine, Postgres(), wait=lambda _: None)
    try:
        markers.was_committed(markers.new(), StorageError("the connection is lost"))
    finally:
        engine.dispose()


def _compared() -> None:
    with connected(URL):
        pass


#: What fails, with the URL of a database in the text of its error.
FAILURES = MappingProxyType(
    {
        "a store of no kind": lambda: open_store(f"mysql://{SERVER}"),
        "a store that is away": lambda: open_store(URL),
        "a store that is away for an administrator": lambda: Database(URL).status(),
        "a commit that was not answered": _asked_for_a_commit,
        "a database that is compared": _compared,
        "a server of no PostgreSQL": lambda: Databases(f"mysql://{SERVER}"),
        "a URL as the name of a database": lambda: checked_resource("postgresql://till:s3cret@db/orders?sslpassword"),
        "a command of a trial": lambda: asyncio.run(_run([sys.executable, "-c", "exit(3)", URL], dict(os.environ))),
    }
)


@pytest.mark.parametrize("fails", FAILURES.values(), ids=FAILURES)
def test_error_shows_the_url_of_a_database_without_its_passwords(fails: Callable[[], object]) -> None:
    with pytest.raises(MercuryError) as caught:
        fails()
    assert "***" in str(caught.value)
    assert "s3cret" not in str(caught.value)


def test_database_that_takes_part_is_named_without_its_passwords() -> None:
    engine = create_engine(URL)
    try:
        named = str(Resource("orders", engine))
    finally:
        engine.dispose()
    assert named.startswith("'orders' (postgresql+psycopg://127.0.0.1:1/orders?")
    assert "s3cret" not in named


def test_url_without_a_name_for_a_command_is_not_shown_with_its_password(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit), _coordinator("memory:", ["postgresql://till:s3cret@db/orders"], None, None):
        pass
    refused = capsys.readouterr().err
    assert "--resource 'postgresql://till:***@db/orders'" in refused.replace("\n", "")
    assert "s3cret" not in refused
