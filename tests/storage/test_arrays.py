"""Many rows are passed to PostgreSQL as one array for each column, a single row as single values."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import create_engine

from mercury.storage.opening import open_sql_store
from mercury.storage.sql.postgres_values import as_array, single_values
from mercury.storage.sql.round_trips import Call
from mercury.storage.sql.schema import RMS_MESSAGE
from mercury.storage.sql.store import SqlStore
from mercury.storage.sql.store_connections import StoreConnection
from mercury.testing.contract.builders import row

NASTY = [
    "",
    " ",
    '"',
    "\\",
    '\\"',
    "{a,b}",
    "NULL",
    "null",
    "a\nb",
    "\t",
    "ärger",
    "\U0001f40d",
    "'",
    "%s",
    "a, b",
    "é" * 300,
]


def test_arrays_of_any_text_arrive_as_they_are(postgres_database: Callable[[], str]) -> None:
    engine = create_engine(postgres_database())
    ask = (
        "select %(texts)s::text[], %(plain)s::text[], %(none)s::text[], %(numbers)s::bigint[], "
        "%(times)s::double precision[], %(flags)s::boolean[]"
    )
    sent: dict[str, list[Any]] = {
        "texts": [*NASTY, None],
        "plain": ["a", None, "", "None", "{a,b}"],
        "none": [None, None],
        "numbers": [0, -1, 2**63 - 1, -(2**63), None],
        "times": [0.1, 1e300, -1.5, 1795310464.3222044, None],
        "flags": [True, False, None],
    }
    with engine.connect() as connection:
        (got,) = connection.exec_driver_sql(ask, {name: as_array(values) for name, values in sent.items()}).all()
    engine.dispose()
    assert list(got) == list(sent.values())


def test_bytes_are_the_drivers_business() -> None:
    assert as_array([b"{", None]) == [b"{", None]


def test_value_outside_the_range_of_its_column_is_refused() -> None:
    with pytest.raises(TypeError, match="list"):
        as_array([[1]])


def test_single_values_arrive_as_they_are(postgres_database: Callable[[], str]) -> None:
    engine = create_engine(postgres_database())
    table = "create temporary table t (key text, number bigint, time double precision, flag boolean, bytes bytea)"
    update = (
        "update t set number = %(number)s, time = %(time)s, flag = %(flag)s, bytes = %(bytes)b where key = %(key)s "
        "returning key, number, time, flag, bytes"
    )
    rows: list[dict[str, Any]] = [
        {"key": key, "number": number, "time": time, "flag": flag, "bytes": content}
        for key, number, time, flag, content in zip(
            NASTY,
            [0, -1, 2**63 - 1, -(2**63), None] * 4,
            [0.1, 1e300, -1.5, 1795310464.3222044, math.inf, -math.inf, None] * 3,
            [True, False, None] * 6,
            [b"", b"\x00\xff{", None] * 6,
            strict=False,
        )
    ]
    with engine.connect() as connection:
        connection.exec_driver_sql(table)
        connection.exec_driver_sql("insert into t (key) select unnest(%(keys)s::text[])", {"keys": NASTY})
        got = [connection.exec_driver_sql(update, single_values(row, row)).mappings().one() for row in rows]
    engine.dispose()
    assert [dict(each) for each in got] == rows


def test_a_row_with_other_nulls_is_the_same_statement_of_the_server(postgres_url: str) -> None:
    """A statement is prepared for each combination of its parameters' types: as numbers they would be hundreds."""
    store = open_sql_store(postgres_url)
    with store.transaction() as tx:
        tx.rms.append(row("urn:message:1"))
    prepared = "select count(*) from pg_prepared_statements where statement like 'update mercury_rms_message set%%'"
    assert isinstance(store, SqlStore)
    with store.engine.connect() as connection:
        driver = connection.connection.dbapi_connection
        assert isinstance(driver, StoreConnection)
        for expires_at in (None, 1.5, 2, 2**40, -math.inf):
            changed = {"message_id": "urn:message:1", "expires_at": expires_at, "answered": expires_at is None}
            assert driver.session.run([Call(*store.dialect.updating(RMS_MESSAGE, "message_id", [changed]))]) == [1]
        assert connection.exec_driver_sql(prepared).scalar_one() == 1
        connection.rollback()
    store.close()
