"""The schema: created by migrations, identified by its version, and changed only by the command that upgrades it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, inspect, text

from mercury import ConfigurationError, Mercury, Settings, StorageError
from mercury.storage.administration import Database
from mercury.storage.opening import open_sql_store, open_store
from mercury.storage.sql import rmd, rms
from mercury.storage.sql.schema import METADATA
from mercury.storage.sql.versions import HEAD, KNOWN, VERSION_TABLE
from tests.acceptance.processes import mercury

from .conftest import Command


def say(url: str, version: str) -> None:
    """Pretend that the schema is of another version."""
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(text(f"update {VERSION_TABLE} set version_num = :version"), {"version": version})
    engine.dispose()


def tables(url: str) -> list[str]:
    engine = create_engine(url)
    found = inspect(engine).get_table_names()
    engine.dispose()
    return sorted(found)


def test_the_migrations_make_what_the_code_works_with(empty_url: str) -> None:
    open_store(empty_url).close()
    engine = create_engine(empty_url)
    with engine.connect() as connection:
        options = {"compare_type": True, "compare_server_default": True, "version_table": VERSION_TABLE}
        context = MigrationContext.configure(connection, opts=options)
        assert compare_metadata(context, METADATA) == []
    engine.dispose()


def test_the_last_migration_is_the_version_that_this_mercury_knows() -> None:
    scripts = ScriptDirectory(str(files("mercury.storage.sql") / "migrations"))
    assert scripts.get_heads() == [HEAD]
    assert tuple(script.revision for script in reversed(list(scripts.walk_revisions()))) == KNOWN


@pytest.mark.parametrize(
    ("query", "index"),
    [(rms.FETCHABLE, "mercury_rms_sequence_fetched"), (rmd.FETCHABLE, "mercury_rmd_sequence_fetched")],
)
def test_make_connection_finds_by_an_index(tmp_path: Path, query: Any, index: str) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    open_sql_store(url).close()
    engine = create_engine(url)
    with engine.connect() as connection:
        asked = query.statement.params(name="a", limit=4)
        said = asked.compile(connection, compile_kwargs={"literal_binds": True, "render_postcompile": True})
        plan = [row[-1] for row in connection.execute(text(f"explain query plan {said}"))]
    engine.dispose()
    assert any(index in step for step in plan), plan
    assert not any(step.startswith("SCAN") for step in plan), plan


def test_processes_that_find_an_empty_database_at_once_make_one_schema(empty_postgres_url: str) -> None:
    with ThreadPoolExecutor(4) as pool:
        stores = list(pool.map(lambda _: open_sql_store(empty_postgres_url), range(4)))
    assert len({store.id for store in stores}) == 1
    for store in stores:
        store.close()
    assert set(tables(empty_postgres_url)) == {*METADATA.tables, VERSION_TABLE}


def test_processes_that_find_an_empty_file_at_once_make_one_schema(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    with ThreadPoolExecutor(4) as pool:
        stores = list(pool.map(lambda _: open_sql_store(url), range(4)))
    assert len({store.id for store in stores}) == 1
    for store in stores:
        store.close()


def test_threads_that_make_the_schemas_of_several_databases_at_once_do_not_mix_them_up(tmp_path: Path) -> None:
    urls = [f"sqlite:///{tmp_path}/{number}.db" for number in range(6)]
    with ThreadPoolExecutor(6) as pool:
        stores = list(pool.map(open_sql_store, urls))
    assert len({store.id for store in stores}) == 6
    for store, url in zip(stores, urls, strict=True):
        store.close()
        assert set(tables(url)) == {*METADATA.tables, VERSION_TABLE}


@pytest.mark.parametrize(
    ("version", "advice"), [("0000", "run 'mercury db upgrade'"), ("9999", "upgrade Mercury")], ids=["old", "new"]
)
def test_a_process_refuses_a_schema_that_it_does_not_know_and_says_what_to_run(
    empty_url: str, version: str, advice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_store(empty_url).close()
    monkeypatch.setattr("mercury.storage.sql.versions.KNOWN", ("0000", HEAD))
    say(empty_url, version)
    with pytest.raises(ConfigurationError, match=f"schema {version}.*{advice}"):
        Mercury(empty_url)


def test_a_newer_schema_is_refused_by_every_command_and_left_as_it_is(tmp_path: Path, command: Command) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    open_store(url).close()
    say(url, "9999")
    before = (tmp_path / "store.db").read_bytes()
    status = command("db", "status", "--store", url, "-o", "json")
    assert (status.code, status.value["schema"], status.value["usable"]) == (1, "9999", False)
    assert "upgrade Mercury" in status.value["advice"]
    command("db", "upgrade", "--store", url).refused("9999", "newer Mercury", "upgrade Mercury")
    command("db", "renew-id", "--store", url).refused("mercury db status", code=1)
    command("dlq", "list", "--store", url).refused("9999", "upgrade Mercury")
    assert (tmp_path / "store.db").read_bytes() == before


def test_an_empty_database_is_left_empty_by_status_and_filled_by_upgrade(empty_url: str, command: Command) -> None:
    engine = create_engine(empty_url)
    engine.connect().close()  # the file is there now
    engine.dispose()
    status = mercury("db", "status", MERCURY_STORE=empty_url)
    assert (status.code, status.err) == (0, "")
    assert "empty" in status.out
    assert tables(empty_url) == []
    first = command("db", "upgrade", "--store", empty_url, "-o", "json")
    assert (first.code, first.value["before"], first.value["after"]) == (0, None, HEAD)
    second = command("db", "upgrade", "--store", empty_url, "-o", "json")
    assert second.value == {**first.value, "before": HEAD}
    assert command("db", "status", "--store", empty_url, "-o", "json").value["id"] == first.value["id"]
    store = open_sql_store(empty_url)
    assert store.id == first.value["id"]
    store.close()


def test_a_copy_gets_an_id_of_its_own(tmp_path: Path, command: Command) -> None:
    original, copy = tmp_path / "original.db", tmp_path / "copy.db"
    store = open_sql_store(f"sqlite:///{original}")
    name = store.id
    store.close()
    copy.write_bytes(original.read_bytes())
    renewed = command("db", "renew-id", "--store", f"sqlite:///{copy}", "-o", "json").value
    assert renewed["before"] == name
    assert renewed["after"] != name
    for file, expected in ((original, name), (copy, renewed["after"])):
        with Database(f"sqlite:///{file}") as database:
            assert database.id == expected


NOWHERE = "postgresql+psycopg://somebody:secret@127.0.0.1:1/orders"


@pytest.mark.parametrize("words", [("db", "status"), ("db", "upgrade"), ("db", "renew-id"), ("dlq", "list")], ids=str)
def test_a_store_that_is_not_reachable_is_named_without_its_password(words: tuple[str, str], command: Command) -> None:
    ended = command(*words, "--store", NOWHERE)
    ended.refused("somebody:***@127.0.0.1:1/orders", "refused", code=1)
    assert "secret" not in ended.err


def test_a_program_gets_the_same_answer() -> None:
    with pytest.raises(StorageError, match=r"somebody:\*\*\*@127\.0\.0\.1:1/orders cannot be opened: .*refused"):
        Mercury(NOWHERE, settings=Settings(store_wait=0))


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("mysql://localhost/orders", "not a store"),
        ("orders.db", "not a store"),
        ("sqlite://", "sqlite:///FILE"),
        ("memory:", "memory:"),
    ],
)
def test_a_wrong_url_is_distinguished_from_an_unreachable_store(url: str, why: str, command: Command) -> None:
    command("db", "status", "--store", url).refused(why, code=2)


def test_a_file_that_is_no_database_is_left_alone(tmp_path: Path, command: Command) -> None:
    file = tmp_path / "letter.txt"
    file.write_text("Dear Sir or Madam, this is not a database at all.\n" * 100)
    before = file.read_bytes()
    command("db", "upgrade", "--store", f"sqlite:///{file}").refused("not a database", code=1)
    assert file.read_bytes() == before
    command("db", "upgrade", "--store", f"sqlite:///{tmp_path}/none/store.db").refused("unable to open", code=1)
