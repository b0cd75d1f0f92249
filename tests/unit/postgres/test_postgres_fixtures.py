"""The fixtures that give tests a PostgreSQL: one test does not see the databases of another one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from mercury.errors import ConfigurationError
from mercury.postgres.embedded import EmbeddedPostgres
from tests.acceptance.processes import eventually
from tests.postgres import VARIABLE, PostgresServer, embedded_postgres, postgres_folder, shared_postgres

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def one_of_the_user() -> Iterator[EmbeddedPostgres]:
    with embedded_postgres() as server:
        yield server


@pytest.fixture
def users_own(one_of_the_user: EmbeddedPostgres) -> EmbeddedPostgres:
    """A server that is not the fixtures'."""
    return one_of_the_user.start()


def ask(url: str, *statements: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(url.replace("+psycopg", ""), autocommit=True, connect_timeout=10) as connection:
        for statement in statements:
            cursor = connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


def _gone(url: str, question: str) -> None:
    """A server notices the end of a session a little after it."""
    eventually(lambda: ask(url, question) == [], "the session ends")


def databases(url: str) -> set[str]:
    return {name for (name,) in ask(url, "select datname from pg_database where not datistemplate")}


def test_every_database_is_another_one(postgres_database: Callable[..., str]) -> None:
    first, second = postgres_database(), postgres_database()
    ask(first, "create table kept (id int)")
    assert ask(second, "select 1 from pg_tables where tablename = 'kept'") == []


def test_template_is_filled_once_and_its_copies_are_independent(postgres_database: Callable[..., str]) -> None:
    filled: list[str] = []

    def fill(url: str) -> None:
        filled.append(url)
        ask(url, "create table kept as select 1 as id")

    first, second = postgres_database(fill), postgres_database(fill)
    ask(first, "insert into kept values (2)")
    assert ask(second, "select id from kept") == [(1,)]
    assert len(filled) == 1
    assert filled[0] not in (first, second)


def test_a_template_that_cannot_be_filled_is_removed(postgres_server: PostgresServer) -> None:
    def fail(url: str) -> None:
        ask(url, "select * from nothing")

    url = postgres_server.create()
    before = databases(url)
    for _ in range(2):
        with pytest.raises(psycopg.errors.UndefinedTable):
            postgres_server.create(fail)
    assert databases(url) == before
    postgres_server.drop(url)


def test_databases_are_gone_afterwards_with_what_was_in_doubt(users_own: EmbeddedPostgres) -> None:
    own = users_own.url()
    before = databases(own)
    with shared_postgres(own) as server:
        url = server.create(lambda url: None)
        ask(url, "create table kept (id int)", "begin; insert into kept values (1); prepare transaction 'mercury:1'")
        session = psycopg.connect(url.replace("+psycopg", ""))
        server.drop(server.create())
        assert len(databases(own) - before) == 2  # the database and its template
    assert databases(own) == before
    session.close()
    assert users_own.pid is not None


#: Sessions that have created or dropped a database, and do nothing now.
IDLE = "select pid from pg_stat_activity where state = 'idle' and query ~ '^(create|drop) database'"


def test_databases_are_made_and_dropped_by_one_session_that_ends_with_the_server(users_own: EmbeddedPostgres) -> None:
    with shared_postgres(users_own.url()) as server:
        url = server.create()
        first = ask(users_own.url(), IDLE)
        server.drop(url)
        server.create(lambda url: None)
        assert ask(users_own.url(), IDLE) == first
        assert len(first) == 1
    _gone(users_own.url(), IDLE)


def test_a_restarted_server_gets_another_session(users_own: EmbeddedPostgres) -> None:
    with shared_postgres(users_own.url()) as server:
        before = server.create()
        users_own.stop()
        users_own.start()
        assert ask(server.create(), "select 1") == [(1,)]
        server.drop(before)


def test_a_test_may_kill_a_server_of_its_own(
    own_postgres: EmbeddedPostgres, postgres_database: Callable[..., str]
) -> None:
    theirs, shared = own_postgres.create_database("mine"), postgres_database()
    ask(theirs, "create table kept as select 1 as id")
    own_postgres.kill()
    assert ask(shared, "select 1") == [(1,)]
    own_postgres.start()
    assert ask(theirs, "select id from kept") == [(1,)]


def test_a_database_that_was_not_created_here_is_not_dropped(
    postgres_server: PostgresServer, users_own: EmbeddedPostgres
) -> None:
    with pytest.raises(ConfigurationError, match="not created here"):
        postgres_server.drop(users_own.url())


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"max_prepared_transactions": "0"}, "max_prepared_transactions"),
        ({"fsync": "off"}, "fsync"),
        ({"synchronous_commit": "off"}, "synchronous_commit"),
    ],
)
def test_a_server_of_the_users_that_proves_nothing_is_refused(
    users_own: EmbeddedPostgres, settings: dict[str, str], why: str
) -> None:
    users_own.stop()
    weak = EmbeddedPostgres(users_own.folder, settings)
    with weak, pytest.raises(pytest.fail.Exception, match=why), shared_postgres(weak.url()):
        pass


@pytest.mark.parametrize("url", ["nonsense", "sqlite:///a", "postgresql+psycopg://me@/a?host=/nowhere"])
def test_a_url_that_leads_to_no_server_is_refused(url: str) -> None:
    with pytest.raises(pytest.fail.Exception, match=VARIABLE), shared_postgres(url):
        pass


STORIES = """
import os, tempfile

def test_nothing_is_started_before_it_is_needed():
    assert os.listdir(tempfile.gettempdir()) == []

def test_the_variable_is_only_the_fixtures():
    assert not any(name.startswith("MERCURY_") for name in os.environ)

def test_the_server_is_this(postgres_database):
    assert {part!r} in postgres_database()
"""


def test_a_variable_names_the_users_own_server(users_own: EmbeddedPostgres, tmp_path: Path) -> None:
    before = databases(users_own.url())
    assert _run(tmp_path, str(users_own.folder), {VARIABLE: users_own.url()}) == (0, "3 passed")
    assert databases(users_own.url()) == before


def test_without_it_a_server_is_started_when_needed_and_removed(tmp_path: Path) -> None:
    with postgres_folder() as temporary:
        temporary.chmod(0o755)
        assert _run(tmp_path, f"host={temporary}", {"TMPDIR": str(temporary)}) == (0, "3 passed")
        assert os.listdir(temporary) == []


def _run(folder: Path, part: str, variables: dict[str, str]) -> tuple[int, str]:
    """Run the tests as those of another project; returns the exit code and the last lines of the output."""
    (folder / "test_stories.py").write_text(STORIES.format(part=part))
    (folder / "tmp").mkdir()
    command = [sys.executable, "-m", "pytest", "-p", "tests.postgres", "-p", "no:cacheprovider", "-c", os.devnull]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MERCURY_")}
    done = subprocess.run(
        [*command, "--rootdir", str(folder), "-q", str(folder)],
        cwd=ROOT,
        env={**kept, "TMPDIR": str(folder / "tmp"), **variables},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout, done.stderr
    return done.returncode, done.stdout.splitlines()[-1].partition(" in ")[0]
