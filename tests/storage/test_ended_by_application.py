"""A connection of PostgreSQL tells whose transaction it is in when the application ends that by itself."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import text

from mercury.errors import StorageError
from mercury.storage.opening import open_sql_store
from mercury.storage.sql.store import SqlStore
from mercury.storage.sql.store_connections import StoreConnection
from mercury.testing.contract.builders import row


@pytest.fixture
def store(postgres_url: str) -> Iterator[SqlStore]:
    opened = open_sql_store(postgres_url)
    with opened.transaction() as tx:
        tx.connection().execute(text("create table placed (id int)"))
    yield opened
    opened.close()


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_an_end_by_the_driver_is_noticed_as_one_by_sqlalchemy(store: SqlStore, end: str) -> None:
    with pytest.raises(StorageError), store.transaction() as tx:
        tx.connection().execute(text("insert into placed values (1)"))
        tx.rms.append(row("urn:message:1"))
        getattr(tx.connection().connection, end)()
    with store.transaction() as tx:
        assert tx.connection().execute(text("select count(*) from placed")).scalar_one() == 0
        assert tx.rms.row("urn:message:1") is None


def test_a_connection_that_is_returned_reports_to_no_transaction(store: SqlStore) -> None:
    with store.transaction() as tx:
        tx.connection()
    with store.engine.connect() as connection:
        driver = connection.connection.dbapi_connection
        assert isinstance(driver, StoreConnection)
        assert driver.owner is None


def test_mercury_listens_to_no_events_of_its_engine(store: SqlStore) -> None:
    """With a listener SQLAlchemy makes its dispatchers for each transaction, and calls them for each statement."""
    assert not store.engine._has_events
