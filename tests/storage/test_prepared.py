"""Statements that are compiled once: their text does not depend on their values."""

from __future__ import annotations

import pytest
from sqlalchemy import create_engine, event, select
from sqlalchemy.orm import Session

from mercury.errors import TransientStorageError
from mercury.storage.opening import open_sql_store
from mercury.storage.sql.prepared import Prepared, among
from mercury.storage.sql.schema import RMS_MESSAGE
from mercury.storage.sql.store import SqlStore
from mercury.testing.contract.builders import row

ROW = RMS_MESSAGE
NAMED = Prepared(select(ROW.c.message_id, ROW.c.acknowledged).where(among(ROW.c.message_id, "names")))
PREPARED = "select count(*) from pg_prepared_statements where statement like 'SELECT mercury_rms_message%%'"
#: Names that a list written as text must quote.
ODD = ["urn:a", 'urn:"b"', "urn:\\c", "urn:{d},e", "", "NULL", "urn:'f'", "urn:ü"]


def filled(url: str) -> SqlStore:
    store = open_sql_store(url)
    with store.transaction() as tx:
        for name in ODD:
            tx.rms.append(row(name))
    return store


def test_a_list_has_every_text_that_a_name_may_be(sql_url: str) -> None:
    store = filled(sql_url)
    with store.transaction() as tx:
        found = tx.read(NAMED, {"names": [*ODD, "urn:another"]})
        assert {each["message_id"] for each in found} == set(ODD)
        assert all(each["acknowledged"] is False for each in found), "SQLite has no type for them"
        assert tx.read(NAMED, {"names": []}) == []
    store.close()


def test_lists_are_one_statement_of_the_server_and_single_texts_another(postgres_url: str) -> None:
    store = filled(postgres_url)
    prepared = []
    with store.transaction() as tx:
        for length in (2, 3, 5, 8, 400, 1, 1, 0):
            tx.read(NAMED, {"names": [str(number) for number in range(length)]})
            prepared.append(tx.connection().exec_driver_sql(PREPARED).scalar_one())
    store.close()
    assert prepared == [1, 1, 1, 1, 1, 2, 2, 2]


def test_somebody_who_listens_to_the_engine_sees_them(sql_url: str) -> None:
    store, seen = filled(sql_url), list[str]()
    event.listen(store.engine, "before_cursor_execute", lambda *about: seen.append(about[2]))
    with store.transaction() as tx:
        assert len(tx.read(NAMED, {"names": ODD})) == len(ODD)
    assert len(seen) == 1
    store.close()


def test_after_a_lost_connection_no_other_of_that_server_is_used(postgres_url: str) -> None:
    store = open_sql_store(postgres_url)
    with store.engine.connect() as one, store.engine.connect() as two:
        pids = [each.exec_driver_sql("select pg_backend_pid()").scalar_one() for each in (one, two)]
    killer = open_sql_store(postgres_url)
    with killer.connection() as connection:
        for pid in pids:
            connection.exec_driver_sql("select pg_terminate_backend(%(pid)s, 5000)", {"pid": pid})
    with pytest.raises(TransientStorageError), store.transaction() as tx:
        tx.read(NAMED, {"names": ["urn:a"]})
    with store.transaction() as tx:
        assert tx.read(NAMED, {"names": ["urn:a"]}) == []
    killer.close()
    store.close()


@pytest.mark.parametrize("statement", ["prepared", "savepoint"])
def test_application_can_roll_back_its_session_after_mercury_has_found_its_connection_lost(
    postgres_url: str, statement: str
) -> None:
    store = open_sql_store(postgres_url)
    engine = create_engine(store.url)
    with Session(engine) as session, store.join(session) as tx:
        pid = session.connection().exec_driver_sql("select pg_backend_pid()").scalar_one()
        with store.connection() as other:
            other.exec_driver_sql("select pg_terminate_backend(%(pid)s, 5000)", {"pid": pid})
        with pytest.raises(TransientStorageError):
            if statement == "prepared":
                tx.read(NAMED, {"names": ["urn:a"]})
            else:
                tx.begin_savepoint()
        session.rollback()
        assert session.connection().exec_driver_sql("select 1").scalar_one() == 1
    engine.dispose()
    store.close()
