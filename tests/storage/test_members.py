"""The claim of the active member in a database: what its check costs, and transactions of the application."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from sqlalchemy import create_engine, event, text
from sqlalchemy.orm import Session

from mercury.errors import NotActive
from mercury.storage.claims import ACTIVE_MEMBER, Claim
from mercury.storage.opening import open_sql_store, open_store
from mercury.storage.sql.store import SqlStore
from mercury.testing.contract.builders import KEY, row

LEASE = 0.0  # over at once: another member takes it when it asks


@pytest.fixture
def store(sql_url: str) -> Iterator[SqlStore]:
    opened = open_store(sql_url)
    assert isinstance(opened, SqlStore)
    yield opened
    opened.close()


def active(store: SqlStore, owner: str) -> Claim:
    taken = store.claim(ACTIVE_MEMBER, owner, store.clock(), LEASE)
    assert taken is not None
    return taken


def backlog(store: SqlStore) -> int:
    with store.transaction() as tx:
        return tx.rms.backlog(KEY)


def statements_of_a_send(store: SqlStore, message_id: str) -> list[str]:
    found: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        found.append(statement)

    event.listen(store.engine, "before_cursor_execute", note)
    try:
        with store.transaction() as tx:
            tx.rms.append(row(message_id))
    finally:
        event.remove(store.engine, "before_cursor_execute", note)
    return [statement for statement in found if "mercury_claim" in statement]


def test_the_check_is_one_statement_and_there_is_none_without_a_standby(store: SqlStore) -> None:
    assert statements_of_a_send(store, "a") == []
    store.guard_all(active(store, "me"))
    assert len(statements_of_a_send(store, "b")) == 1


def test_an_application_that_joins_mercury_commits_nothing_after_the_claim_is_lost(store: SqlStore) -> None:
    with store.engine.begin() as connection:
        connection.execute(text("create table placed (id int primary key)"))
    store.guard_all(active(store, "me"))
    active(store, "another")
    with Session(store.engine) as session, pytest.raises(NotActive), session.begin():
        session.execute(text("insert into placed values (1)"))
        with store.join(session) as tx:
            tx.rms.append(row("a"))
    with store.engine.connect() as connection:
        assert connection.scalar(text("select count(*) from placed")) == 0
    assert backlog(store) == 0


def test_application_that_joins_mercury_and_stops_before_its_commit_does_not_keep_the_claim(postgres_url: str) -> None:
    """Its host freezes: without a limit of the application's own, no standby would become active until it goes on."""
    with closing(open_sql_store(postgres_url)) as store:
        store.guard_all(active(store, "me"))
        engine = create_engine(postgres_url)
        with Session(engine) as session:
            with store.join(session) as tx:
                tx.rms.append(row("a"))
            idle = session.scalar(text("select current_setting('idle_in_transaction_session_timeout')"))
            assert idle == "30s"
            session.commit()
            assert session.scalar(text("select current_setting('idle_in_transaction_session_timeout')")) == "0"
        engine.dispose()


def test_handlers_that_write_only_their_own_tables_are_under_the_claim(store: SqlStore) -> None:
    with store.engine.begin() as connection:
        connection.execute(text("create table handled (id int primary key)"))
    store.guard_all(active(store, "me"))
    active(store, "another")
    with pytest.raises(NotActive), store.transaction() as tx:
        tx.connection().execute(text("insert into handled values (1)"))
    with store.engine.connect() as connection:
        assert connection.scalar(text("select count(*) from handled")) == 0
