"""The differences between PostgreSQL and SQLite are in one place, and the checker finds a second one."""

from __future__ import annotations

from pathlib import Path

import pytest

from .databases import ALLOWED, questions

ROOT = Path(__file__).resolve().parents[2]


def plant(root: Path, path: str, text: str) -> None:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def test_only_the_dialects_ask_which_database_it_is() -> None:
    assert questions(ROOT) == []


@pytest.mark.parametrize("path", ALLOWED)
def test_every_place_that_is_allowed_is_there(path: str) -> None:
    assert list(ROOT.glob(path)) != []


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("if connection.dialect.name == NAME:\n    pass\n", "connection.dialect.name"),
        ("kind = engine.dialect.driver\n", "engine.dialect.driver"),
        ("if kind == 'postgresql':\n    pass\n", "'postgresql'"),
        ("if kind in ('mysql', 'sqlite'):\n    pass\n", "'sqlite'"),
        ("match url.drivername:\n    case 'postgresql+psycopg':\n        pass\n", "'postgresql+psycopg'"),
        ("late = url.startswith('sqlite')\n", "'sqlite'"),
        ("late = isinstance(dialect, Postgres)\n", "isinstance(dialect, Postgres)"),
        ("late = isinstance(dialect, (int, dialects.Sqlite))\n", "isinstance(dialect, (int, dialects.Sqlite))"),
        ("import sqlite3\n", "sqlite3"),
        ("from sqlite3 import Error\n", "sqlite3"),
    ],
)
def test_a_question_is_found_with_its_file_and_line(tmp_path: Path, text: str, what: str) -> None:
    plant(tmp_path, "mercury/storage/sql/a.py", "\n\n" + text)
    (found,) = questions(tmp_path)
    path, line, said = found.split(":", 2)
    assert (path, int(line) >= 3, said) == ("mercury/storage/sql/a.py", True, f" {what}: ask the Dialect what differs")


@pytest.mark.parametrize(
    "text",
    [
        "def ask(dialect):\n    return dialect.has_clock\n",
        '"""PostgreSQL and sqlite are named in texts."""\nurl = "sqlite:///mercury.db"\n',
        "store = SqlStore(Sqlite(clock))\n",
        "name = dialect.name\n",
    ],
)
def test_text_without_a_question_is_not_found(tmp_path: Path, text: str) -> None:
    plant(tmp_path, "mercury/storage/sql/a.py", text)
    assert questions(tmp_path) == []
