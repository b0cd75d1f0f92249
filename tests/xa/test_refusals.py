"""Work that cannot be atomic is refused before anything is written, and the error names the remedy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.orm import Session

from mercury import Mercury
from mercury.errors import CapabilityError, ConfigurationError, StorageError
from mercury.postgres.databases import Databases
from mercury.postgres.embedded import EmbeddedPostgres
from mercury.storage.opening import open_sql_store
from tests.postgres import postgres_folder

from .places import Places


@pytest.fixture
def bare_server() -> Iterator[EmbeddedPostgres]:
    """A server as it is by default: without prepared transactions."""
    with postgres_folder() as folder:
        server = EmbeddedPostgres(folder, {"max_prepared_transactions": "0"})
        try:
            yield server.start()
        finally:
            server.kill()


def test_a_server_without_prepared_transactions_is_refused_at_the_start(
    bare_server: EmbeddedPostgres, tmp_path: Path
) -> None:
    app = Databases(bare_server.url()).create("app")
    with (
        pytest.raises(CapabilityError, match="max_prepared_transactions = 64"),
        Mercury(f"sqlite:///{tmp_path}/store.db", resources={"app": app}),
    ):
        pytest.fail("it has started")
    # Without a start, no later than when it is first asked for.
    unstarted = Mercury(f"sqlite:///{tmp_path}/store.db", resources={"app": app})
    with pytest.raises(CapabilityError, match="max_prepared_transactions"), unstarted.transaction() as tx:
        tx.connection("app")
    unstarted.stop()


def test_a_store_that_cannot_be_prepared_is_refused_at_the_start(
    bare_server: EmbeddedPostgres, tmp_path: Path, databases: Callable[[str], str]
) -> None:
    store = Databases(bare_server.url()).create("store")
    with (
        pytest.raises(CapabilityError, match="the server of the store"),
        Mercury(store, resources={"app": databases("app")}, decision_log=f"sqlite:///{tmp_path}/log.db"),
    ):
        pytest.fail("it has started")


def test_the_stores_own_database_needs_no_prepared_transactions(bare_server: EmbeddedPostgres) -> None:
    store = Databases(bare_server.url()).create("store")
    with Mercury(store, resources={"app": store}) as mercury, mercury.transaction() as tx:
        tx.connection("app").execute(text("create table placed (id int)"))
    assert tx.outcome.gtrid is None


def test_an_unnamed_database_is_refused(any_places: Places) -> None:
    with any_places.process() as coordinator:
        with pytest.raises(CapabilityError, match=r"resources=\{'other': engine\}"), coordinator.transaction() as tx:
            tx.connection("other")
        assert any_places.state == ([], [], [])


def test_memory_can_neither(databases: Callable[[str], str]) -> None:
    with pytest.raises(CapabilityError, match="memory: cannot take part"):
        Mercury("memory:", resources={"app": databases("app")})


def test_a_sqlite_store_cannot_be_prepared(databases: Callable[[str], str], tmp_path: Path) -> None:
    with pytest.raises(CapabilityError, match="leave out decision_log"):
        Mercury(f"sqlite:///{tmp_path}/s.db", resources={"app": databases("app")}, decision_log=databases("log"))


def test_the_store_is_no_log_beside_itself(databases: Callable[[str], str]) -> None:
    with pytest.raises(ConfigurationError, match="decision_log: this is the store itself"):
        Mercury(databases("store"), resources={"app": databases("app")}, decision_log=databases("store"))


@pytest.mark.parametrize("url", ["mysql+pymysql://user:secret@host/db", "oracle://user:secret@host"])
def test_a_database_of_another_kind_is_refused(url: str, tmp_path: Path) -> None:
    with pytest.raises(CapabilityError, match="only PostgreSQL") as raised:
        Mercury(f"sqlite:///{tmp_path}/s.db", resources={"app": url})
    assert "secret" not in str(raised.value)


def test_another_sqlite_file_is_refused_and_the_stores_own_is_not(tmp_path: Path) -> None:
    store, other = f"sqlite:///{tmp_path}/s.db", f"sqlite:///{tmp_path}/other.db"
    with pytest.raises(CapabilityError, match="only PostgreSQL"), Mercury(store, resources={"app": other}):
        pytest.fail("it has started")
    with Mercury(store, resources={"app": store}) as mercury, mercury.transaction() as tx:
        tx.connection("app").execute(text("create table placed (id int)"))
    assert tx.outcome.gtrid is None


@pytest.mark.parametrize("name", ["", "a:b", "1a", "a'b", "x" * 41, "store", "ä"])
def test_a_name_that_cannot_be_part_of_a_gid_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="resources: "):
        Mercury(f"sqlite:///{tmp_path}/s.db", resources={name: "postgresql://x"})


def test_an_engine_that_commits_each_statement_is_refused(places: Places) -> None:
    engine = create_engine(places.app, isolation_level="AUTOCOMMIT")
    with pytest.raises(CapabilityError, match="AUTOCOMMIT"), Mercury(places.store, resources={"app": engine}):
        pytest.fail("it has started")
    engine.dispose()


# --- transactions of the application's own ---------------------------------------------------------------------------


def test_a_session_that_coordinates_by_itself_is_refused(databases: Callable[[str], str]) -> None:
    store = open_sql_store(databases("store"))
    engine = create_engine(databases("store"))
    with Session(engine, twophase=True) as session:
        with pytest.raises(CapabilityError, match=r"twophase=True.*resources"), store.join(session):
            pytest.fail("it was joined")
        session.rollback()
    with engine.connect() as connection:
        begun = connection.begin_twophase()
        with pytest.raises(CapabilityError, match="two-phase"), store.join(connection):
            pytest.fail("it was joined")
        begun.rollback()
    engine.dispose()
    store.close()


def test_a_transaction_of_the_applications_own_takes_no_other_database_in(places: Places) -> None:
    if places.store.startswith("sqlite"):
        pytest.skip("a session on the file would lock it")
    with places.process() as coordinator:
        engine = create_engine(places.store)
        with Session(engine) as session, coordinator.store.join(session) as tx:
            with pytest.raises(CapabilityError, match="use Mercury's"):
                tx.connection("app")
            with pytest.raises(StorageError, match="no database is named"):
                tx.connection("other")
        engine.dispose()
