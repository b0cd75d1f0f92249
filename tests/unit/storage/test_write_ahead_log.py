"""Several processes open a new SQLite file at once."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from mercury.storage.sql.sqlite_dialect import use_write_ahead_log


def test_a_file_that_another_process_has_locked_is_tried_again(tmp_path: Path) -> None:
    with (
        closing(sqlite3.connect(tmp_path / "a.db", isolation_level=None)) as other,
        closing(sqlite3.connect(tmp_path / "a.db", timeout=0)) as ours,
    ):
        other.execute("begin exclusive")
        use_write_ahead_log(ours, 5.0, lambda _seconds: other.rollback())
        assert ours.execute("pragma journal_mode").fetchone() == ("wal",)


def test_a_file_that_stays_locked_is_an_error_after_the_time_that_is_set(tmp_path: Path) -> None:
    slept: list[float] = []
    with (
        closing(sqlite3.connect(tmp_path / "a.db", isolation_level=None)) as other,
        closing(sqlite3.connect(tmp_path / "a.db", timeout=0)) as ours,
    ):
        other.execute("begin exclusive")
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            use_write_ahead_log(ours, 2.0, slept.append)
    assert 2.0 <= sum(slept) < 2.2
