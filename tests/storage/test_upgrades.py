"""A schema is upgraded while processes use it, and an older Mercury goes on with a newer schema that says it may."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, create_engine, event, inspect, text

from mercury import ConfigurationError, TransientStorageError
from mercury.storage.opening import open_engine, open_sql_store
from mercury.storage.sql import indexes, upgrades, versions
from mercury.storage.sql.dialects import dialect_of
from mercury.storage.sql.postgres_dialect import INDEX_LOCK
from mercury.storage.sql.schema import METADATA
from mercury.storage.sql.versions import HEAD, OLDEST, VERSION_TABLE
from tests.acceptance.processes import PATIENCE, eventually

from .conftest import Command

NEWER = "9999"
#: An index of a large table.
INDEX = "mercury_rms_message_number"


@contextmanager
def opened(url: str) -> Iterator[Engine]:
    engine = open_engine(url)
    yield engine
    engine.dispose()


def make_oldest(url: str) -> None:
    """Give a database the schema of the version before, as its Mercury has made it."""
    with opened(url) as engine, engine.begin() as connection:
        upgrades.migrate(connection, OLDEST)
        versions.name(connection)


def become_newer(url: str, oldest: str) -> None:
    """Pretend that a newer Mercury has upgraded the schema."""
    open_sql_store(url).close()
    with opened(url) as engine, engine.begin() as connection:
        connection.execute(text(f"update {VERSION_TABLE} set version_num = :version"), {"version": NEWER})
        connection.execute(
            text("insert into mercury_compatibility values (:version, :oldest)"), {"version": NEWER, "oldest": oldest}
        )


@contextmanager
def executed(engine: Engine) -> Iterator[list[str]]:
    found: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_more: Any) -> None:
        found.append(" ".join(statement.split()))

    event.listen(engine, "before_cursor_execute", note)
    yield found
    event.remove(engine, "before_cursor_execute", note)


def test_an_older_schema_is_refused_with_the_command_and_upgraded_by_it(empty_url: str, command: Command) -> None:
    make_oldest(empty_url)
    with pytest.raises(ConfigurationError, match=f"schema {OLDEST}, this Mercury needs {HEAD}.*go on meanwhile"):
        open_sql_store(empty_url)
    status = command("db", "status", "--store", empty_url, "-o", "json")
    assert (status.code, status.value["schema"], status.value["usable"]) == (1, OLDEST, False)
    assert "processes may use the store meanwhile" in status.value["advice"]
    done = command("db", "upgrade", "--store", empty_url, "-o", "json").value
    assert (done["before"], done["after"], done["id"]) == (OLDEST, HEAD, status.value["id"])
    status = command("db", "status", "--store", empty_url, "-o", "json")
    assert (status.code, status.value["oldest"], status.value["advice"]) == (0, OLDEST, "up to date")
    open_sql_store(empty_url).close()


def test_an_upgraded_database_has_the_schema_of_a_new_one(empty_url: str) -> None:
    make_oldest(empty_url)
    with opened(empty_url) as engine:
        upgrades.upgrade(engine)
        dialect = dialect_of(engine)
        assert dialect is not None
        with engine.connect() as connection:
            assert indexes.missing(connection, dialect) == []
            found = inspect(connection)
            for table in METADATA.sorted_tables:
                assert {each["name"] for each in found.get_columns(table.name)} == set(table.columns.keys()), table
            said = connection.execute(text("select version, oldest from mercury_compatibility")).all()
    assert [tuple(row) for row in said] == [(HEAD, OLDEST)]


def test_a_newer_schema_that_names_this_version_is_used_as_it_is(empty_url: str, command: Command) -> None:
    become_newer(empty_url, oldest=HEAD)
    store = open_sql_store(empty_url)
    identifier = store.id
    store.close()
    status = command("db", "status", "--store", empty_url, "-o", "json")
    assert (status.code, status.value["schema"], status.value["usable"]) == (0, NEWER, True)
    assert (status.value["id"], status.value["oldest"]) == (identifier, HEAD)
    assert "which can use it too" in status.value["advice"]
    assert command("db", "upgrade", "--store", empty_url, "-o", "json").value["after"] == NEWER
    assert command("dlq", "list", "--store", empty_url).code == 0
    assert command("db", "renew-id", "--store", empty_url).code == 0


@pytest.mark.parametrize("oldest", ["0003", None], ids=["it names a later one", "it does not say"])
def test_a_newer_schema_that_does_not_name_this_version_is_refused(empty_url: str, oldest: str | None) -> None:
    become_newer(empty_url, oldest or HEAD)
    if oldest is None:
        with opened(empty_url) as engine, engine.begin() as connection:
            connection.execute(text("delete from mercury_compatibility"))
    with pytest.raises(ConfigurationError, match=f"schema {NEWER} is of a newer Mercury.*upgrade Mercury"):
        open_sql_store(empty_url)
    with opened(empty_url) as engine, pytest.raises(ConfigurationError, match="upgrade Mercury"):
        upgrades.upgrade(engine)


def test_an_older_schema_that_lost_something_is_upgraded_only_without_processes(
    empty_url: str, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_oldest(empty_url)
    monkeypatch.setattr("mercury.storage.sql.versions.OLDEST", HEAD)
    with pytest.raises(ConfigurationError, match="stop what uses it, then run 'mercury db upgrade'"):
        open_sql_store(empty_url)
    assert "stop all processes" in command("db", "status", "--store", empty_url, "-o", "json").value["advice"]


@pytest.fixture
def step(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step that also adds a column to a table that every process uses."""
    migrate = upgrades.migrate

    def with_column(connection: Connection, target: str = "head") -> None:
        if target == "head":
            connection.execute(text("alter table mercury_claim add column note text"))
        migrate(connection, target)

    monkeypatch.setattr(upgrades, "migrate", with_column)


CLAIM = "insert into mercury_claim values ('a', 'b', 1, 0)"


def test_an_upgrade_waits_for_a_long_transaction_and_lets_others_pass(empty_postgres_url: str, step: None) -> None:
    make_oldest(empty_postgres_url)
    others = create_engine(empty_postgres_url, connect_args={"options": "-c lock_timeout=2000"})
    pauses: list[float] = []
    with opened(empty_postgres_url) as engine, others.connect() as long, others.connect() as other:
        long.execute(text(CLAIM))

        def pause(seconds: float) -> None:
            pauses.append(seconds)
            other.execute(text("select count(*) from mercury_claim"))
            other.rollback()
            long.rollback()

        assert upgrades.upgrade(engine, pause).current
        assert pauses == [upgrades.PAUSE]
        other.execute(text("select note from mercury_claim"))
    others.dispose()


WAITS = "select count(*) from pg_locks where not granted and mode = 'AccessExclusiveLock'"


def test_an_upgrade_lets_a_reader_pass_while_it_waits(empty_postgres_url: str, step: None) -> None:
    make_oldest(empty_postgres_url)
    others = create_engine(empty_postgres_url, connect_args={"options": "-c lock_timeout=5000"})
    ended = threading.Event()
    with opened(empty_postgres_url) as engine, others.connect() as long, others.connect() as other:
        long.execute(text(CLAIM))

        def wait(_seconds: float) -> None:
            ended.wait(PATIENCE)

        with ThreadPoolExecutor(1) as pool:
            upgrading = pool.submit(upgrades.upgrade, engine, wait)
            try:
                eventually(lambda: other.execute(text(WAITS)).scalar_one(), "the upgrade waits for the table")
                other.execute(text("select count(*) from mercury_claim"))
                other.rollback()
            finally:
                long.rollback()
                ended.set()
            assert upgrading.result(PATIENCE).current
    others.dispose()


def test_an_upgrade_that_never_gets_the_locks_changes_nothing(
    empty_postgres_url: str, step: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_oldest(empty_postgres_url)
    monkeypatch.setattr(upgrades, "ATTEMPTS", 2)
    others = create_engine(empty_postgres_url)
    pauses: list[float] = []
    with opened(empty_postgres_url) as engine, others.connect() as long:
        long.execute(text(CLAIM))
        with pytest.raises(TransientStorageError, match=r"in 2 attempts.*nothing is changed.*pg_stat_activity"):
            upgrades.upgrade(engine, pauses.append)
        assert len(pauses) == 1
        assert versions.status(engine).version == OLDEST
        long.rollback()
        assert upgrades.upgrade(engine, pauses.append).current
    others.dispose()


def has(url: str, index: str) -> bool:
    question = "select exists (select from pg_index where indisvalid and indexrelid = to_regclass(:index))"
    with opened(url) as engine, engine.connect() as connection:
        return bool(connection.execute(text(question), {"index": index}).scalar_one())


def drop(connection: Connection) -> None:
    connection.execute(text(f"drop index {INDEX}"))


def interrupt(connection: Connection) -> None:
    """Leave the index as an interrupted CREATE INDEX CONCURRENTLY does."""
    connection.execute(text(f"update pg_index set indisvalid = false where indexrelid = '{INDEX}'::regclass"))


@pytest.mark.parametrize("damage", [drop, interrupt], ids=["missing", "interrupted"])
def test_an_index_of_a_table_in_use_is_created_without_keeping_writers_waiting(
    empty_postgres_url: str, damage: Callable[[Connection], None]
) -> None:
    open_sql_store(empty_postgres_url).close()
    with opened(empty_postgres_url) as engine, engine.begin() as connection:
        damage(connection)
    assert not has(empty_postgres_url, INDEX)
    with opened(empty_postgres_url) as engine, executed(engine) as statements:
        upgrades.upgrade(engine)
    assert has(empty_postgres_url, INDEX)
    made = [each for each in statements if "INDEX" in each.split()[:3]]
    assert any(each.startswith(f"CREATE INDEX CONCURRENTLY {INDEX} ON mercury_rms_message") for each in made), made
    assert all("CONCURRENTLY" in each for each in made), made


def test_an_index_that_another_process_creates_is_left_to_it(empty_postgres_url: str) -> None:
    open_sql_store(empty_postgres_url).close()
    with opened(empty_postgres_url) as engine, engine.connect() as another:
        drop(another)
        another.commit()
        another.execute(text(f"select pg_advisory_lock({INDEX_LOCK})"))
        upgrades.upgrade(engine)
        assert not has(empty_postgres_url, INDEX)
        another.execute(text(f"select pg_advisory_unlock({INDEX_LOCK})"))
        upgrades.upgrade(engine)
    assert has(empty_postgres_url, INDEX)


def test_an_index_that_is_missing_in_a_file_is_created_with_the_step(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    make_oldest(url)
    with opened(url) as engine:
        with engine.begin() as connection:
            drop(connection)
        upgrades.upgrade(engine)
        assert INDEX in {each["name"] for each in inspect(engine).get_indexes("mercury_rms_message")}


def test_alembic_says_nothing_of_a_new_schema_and_names_the_steps_of_an_upgrade(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def said() -> list[str]:
        return [each.getMessage() for each in caplog.records if each.name.startswith("alembic")]

    caplog.set_level("INFO")
    caplog.set_level("INFO", "alembic")  # a command that has run in this process has its own
    open_sql_store(f"sqlite:///{tmp_path}/new.db").close()
    assert said() == []
    url = f"sqlite:///{tmp_path}/old.db"
    make_oldest(url)
    assert said() == []
    with opened(url) as engine:
        upgrades.upgrade(engine)
    assert len(said()) == 1
    assert said()[0].startswith(f"Running upgrade {OLDEST} -> {HEAD}")
