"""A database that has lost its last commits is noticed by new connections."""

from __future__ import annotations

import math
from pathlib import Path
from unittest.mock import Mock

import pytest
import sqlalchemy as sa

from mercury.storage.opening import open_sql_store, read_url
from mercury.storage.sql.history import History
from tests.stores import urls_of


def test_another_history_is_noticed_by_the_connection_that_meets_it(caplog: pytest.LogCaptureFixture) -> None:
    seen = iter(["1 A", "1 A", None, "1 B", "1 B", "1 A"])
    dialect = Mock(history=lambda _driver: next(seen))
    times = iter([10.0, 20.0])
    engine = sa.create_engine("sqlite://", poolclass=sa.NullPool)
    history, since = History(engine, dialect, lambda: next(times)), []
    for _ in range(6):
        engine.connect().close()
        since.append(history.since)
    assert since == [-math.inf, -math.inf, -math.inf, 10.0, 10.0, 20.0]
    assert [record.message.partition(":")[0] for record in caplog.records] == [
        "the database has failed over or was restored (1 B)",
        "the database has failed over or was restored (1 A)",
    ]


def test_connections_to_one_database_meet_one_history(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    url = urls_of("postgres", request, tmp_path)()
    _, dialect = read_url(url)
    store = open_sql_store(url)
    try:
        met = set()
        for _ in range(2):
            store.engine.dispose()
            with store.connection() as connection:
                met.add(dialect.history(connection.connection.dbapi_connection))
        assert len(met) == 1
        assert None not in met
        assert store.history_since == -math.inf
    finally:
        store.close()
