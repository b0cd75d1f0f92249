"""A database, its role or the environment may set what Mercury's connections must not have."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sqlalchemy import create_engine, event, make_url, text

from mercury import Mercury
from mercury.storage.opening import open_sql_store
from mercury.storage.sql.store import SqlStore
from mercury.testing.contract.builders import row
from tests.acceptance.processes import eventually

from .shop import STRICT, Order, Shop, settings

#: A time with more digits than fifteen.
TIME = 1_764_446_840.1234567


@pytest.fixture
def few_digits(postgres_url: str) -> str:
    """The URL of a store in a database that shows floats with fifteen digits, as programs of old expect them."""
    engine = create_engine(postgres_url)
    with engine.begin() as connection:
        connection.execute(text(f'alter database "{make_url(postgres_url).database}" set extra_float_digits = 0'))
    engine.dispose()
    return postgres_url


def test_with_few_digits_of_floats_no_message_counts_as_damaged(few_digits: str) -> None:
    shop = Shop(policy=replace(STRICT, in_order=False))
    with shop.open(few_digits) as (server, url), Mercury("memory:", settings=settings()) as client:
        sender = client.to(url)
        for number in range(5):
            sender.send(Order(number), operation="put")
        eventually(lambda: len(shop.handled) + len(server.dead_letters()) == 5, "each is handled or dead")
        assert server.dead_letters() == []


def test_with_few_digits_of_floats_a_joined_session_appends_a_message_that_is_not_damaged(few_digits: str) -> None:
    store = open_sql_store(few_digits)
    engine = create_engine(few_digits)
    with engine.begin() as connection, store.join(connection) as tx:
        tx.rms.append(row("urn:message:1", created_at=TIME))
    engine.dispose()
    event.listen(store.engine, "before_cursor_execute", lambda *_: None)  # then all rows are received as texts
    with store.transaction() as tx:
        found = tx.rms.row("urn:message:1")
        assert found is not None
        assert (found.created_at, found.damaged) == (TIME, False)
    store.close()


@pytest.fixture
def noting(placing_store: SqlStore) -> SqlStore:
    with placing_store.engine.begin() as connection:
        connection.execute(text("create table noted (value text)"))
    return placing_store


def test_texts_are_stored_as_they_are_whatever_encoding_the_environment_has(
    noting: SqlStore, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    store = open_sql_store(postgres_url)
    with store.transaction() as tx:
        tx.execute_later("insert into noted values ('Müller')")
        tx.execute_later("insert into noted values (:name)", {"name": "Łódź"})
    store.close()
    with noting.engine.connect() as connection:
        assert connection.execute(text("select value from noted")).scalars().all() == ["Müller", "Łódź"]
