"""Savepoints are plain SQL statements, with the same effect as SQLAlchemy's own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import event, text

from mercury.storage.opening import open_sql_store
from mercury.storage.sql.store import SqlStore


class Undo(Exception):
    """Leaves a savepoint."""


@pytest.fixture
def store(sql_url: str) -> Iterator[SqlStore]:
    opened = open_sql_store(sql_url)
    with opened.engine.begin() as connection:
        connection.execute(text("create table done (id int)"))
    yield opened
    opened.close()


INSERT = text("insert into done values (:id)")


def done(store: SqlStore) -> list[int]:
    with store.connection() as connection:
        return list(connection.scalars(text("select id from done order by id")))


def test_released_savepoint_stays_when_a_later_one_is_rolled_back(store: SqlStore) -> None:
    with store.transaction() as tx:
        for number in range(1, 6):
            try:
                with tx.savepoint():
                    tx.connection().execute(INSERT, {"id": number})
                    if number % 2 == 0:
                        raise Undo
            except Undo:
                continue
    assert done(store) == [1, 3, 5]


def test_one_within_another_is_undone_with_it(store: SqlStore) -> None:
    with store.transaction() as tx:
        tx.connection().execute(INSERT, {"id": 1})
        with pytest.raises(Undo), tx.savepoint():
            with tx.savepoint():
                tx.connection().execute(INSERT, {"id": 2})
            with pytest.raises(Undo), tx.savepoint():
                tx.connection().execute(INSERT, {"id": 3})
                raise Undo
            tx.connection().execute(INSERT, {"id": 4})
            raise Undo
        with tx.savepoint():
            tx.connection().execute(INSERT, {"id": 5})
    assert done(store) == [1, 5]


@pytest.mark.parametrize("left", [1, 2])
@pytest.mark.parametrize("undone", [True, False])
def test_savepoints_that_the_application_left_open_end_with_ours(store: SqlStore, undone: bool, left: int) -> None:
    with store.transaction() as tx:
        connection = tx.connection()
        connection.execute(INSERT, {"id": 1})
        try:
            with tx.savepoint():
                for _ in range(left):
                    connection.begin_nested()
                connection.execute(INSERT, {"id": 2})
                if undone:
                    raise Undo
        except Undo:
            pass
        assert not connection.in_nested_transaction()
        with tx.savepoint():
            connection.execute(INSERT, {"id": 3})
    assert done(store) == ([1, 3] if undone else [1, 2, 3])


def test_a_statement_that_fails_spoils_only_its_savepoint(store: SqlStore) -> None:
    with store.transaction() as tx:
        tx.connection().execute(INSERT, {"id": 1})
        with pytest.raises(Exception, match="no_such_table"), tx.savepoint():
            tx.connection().execute(text("insert into no_such_table values (1)"))
        with tx.savepoint():
            tx.connection().execute(INSERT, {"id": 2})
    assert done(store) == [1, 2]


def test_in_postgresql_each_costs_one_statement(postgres_url: str) -> None:
    store = open_sql_store(postgres_url)
    said: list[str] = []
    with store.engine.begin() as connection:
        connection.execute(text("create table done (id int)"))
    with store.transaction() as tx:
        tx.connection()
        event.listen(store.engine, "before_cursor_execute", lambda *about: said.append(about[2]))
        for number in range(10):
            with tx.savepoint():
                tx.connection().execute(INSERT, {"id": number})
    assert len([each for each in said if "savepoint" in each]) == 10
    store.close()
