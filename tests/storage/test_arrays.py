"""Many rows are passed to PostgreSQL at once: as one array for each column."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import create_engine

from mercury.storage.sql.postgres_dialect import _array

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
    ask = "select %(texts)s::text[], %(numbers)s::bigint[], %(times)s::double precision[], %(flags)s::boolean[]"
    sent: dict[str, list[Any]] = {
        "texts": [*NASTY, None],
        "numbers": [0, -1, 2**63 - 1, -(2**63), None],
        "times": [0.1, 1e300, -1.5, 1795310464.3222044, None],
        "flags": [True, False, None],
    }
    with engine.connect() as connection:
        (got,) = connection.exec_driver_sql(ask, {name: _array(values) for name, values in sent.items()}).all()
    engine.dispose()
    assert list(got) == list(sent.values())


def test_bytes_are_the_drivers_business() -> None:
    assert _array([b"{", None]) == [b"{", None]


def test_value_outside_the_range_of_its_column_is_refused() -> None:
    with pytest.raises(TypeError, match="list"):
        _array([[1]])
