"""Every step of the schema after the first only adds to it: processes of the version before go on with the database."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, create_engine, event, inspect

from mercury.storage.sql import codec, record_columns
from mercury.storage.sql.fields import Field
from mercury.storage.sql.schema import METADATA
from mercury.storage.sql.upgrades import migrate
from mercury.storage.sql.versions import HEAD, KNOWN, OLDEST, VERSION_TABLE

#: The steps during which the version before may run.
STEPS = [pair for pair in pairwise(KNOWN) if pair[0] >= OLDEST]
#: What an `ALTER TABLE` may do to a table that exists.
ADDS_COLUMN = re.compile(r"ALTER TABLE (\w+) ADD (COLUMN )?", re.IGNORECASE)
MAKES_INDEX = re.compile(r"CREATE (?:UNIQUE )?INDEX (\w+) ON (\w+)", re.IGNORECASE)
CHANGES_TABLE = re.compile(r"(?:ALTER|DROP) (?:TABLE|INDEX) (?:IF EXISTS )?(\w+)", re.IGNORECASE)
CHANGES_ROWS = re.compile(r"(?:UPDATE|DELETE FROM|INSERT INTO) (\w+)", re.IGNORECASE)


@contextmanager
def database(tmp_path: Path, version: str) -> Iterator[Connection]:
    engine = create_engine(f"sqlite:///{tmp_path}/store.db")
    with engine.begin() as connection:
        migrate(connection, version)
        yield connection
    engine.dispose()


@contextmanager
def statements(connection: Connection) -> Iterator[list[str]]:
    """The statements that are executed in the block, without those of the reflection."""
    found: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_more: Any) -> None:
        found.append(" ".join(statement.split()))

    event.listen(connection.engine, "before_cursor_execute", note)
    yield found
    event.remove(connection.engine, "before_cursor_execute", note)


def columns(connection: Connection, table: str) -> dict[str, Any]:
    return {each["name"]: each for each in inspect(connection).get_columns(table)}


def described(column: Any) -> tuple[str, bool, object, int]:
    return str(column["type"]), column["nullable"], column["default"], column["primary_key"]


def breaches(statement: str, old: set[str]) -> list[str]:
    """Why a statement of a step is not an addition; ``old`` are the tables of the version before."""
    if (made := MAKES_INDEX.match(statement)) is not None:
        text = f"{made[1]}: define it in schema.py only; CREATE INDEX would keep writers of {made[2]} waiting"
        return [text] if made[2] in old else []
    if ADDS_COLUMN.match(statement):
        return []
    changed = CHANGES_TABLE.match(statement) or CHANGES_ROWS.match(statement)
    return [f"not an addition: {statement}"] if changed is not None and changed[1] in old else []


@pytest.mark.parametrize(("before", "after"), STEPS, ids=str)
def test_a_step_only_adds_tables_and_columns_that_the_version_before_need_not_write(
    tmp_path: Path, before: str, after: str
) -> None:
    with database(tmp_path, before) as connection:
        old = set(inspect(connection).get_table_names()) - {VERSION_TABLE}
        had = {table: columns(connection, table) for table in old}
        with statements(connection) as executed:
            migrate(connection, after)
        assert [text for each in executed for text in breaches(each, old)] == []
        assert old <= set(inspect(connection).get_table_names())
        for table in sorted(old):
            now = columns(connection, table)
            assert {name: described(now[name]) for name in had[table]} == {
                name: described(each) for name, each in had[table].items()
            }, f"{table}: a column has changed or is gone"
            added = [each for name, each in now.items() if name not in had[table]]
            refused = [each["name"] for each in added if not each["nullable"] and each["default"] is None]
            assert refused == [], f"{table}: the version before cannot insert rows without these columns"


def test_an_index_since_the_first_version_refuses_no_row_of_the_version_before(tmp_path: Path) -> None:
    with database(tmp_path, OLDEST) as connection:
        old = inspect(connection)
        tables = [table for table in METADATA.sorted_tables if table.name in set(old.get_table_names())]
        new = [
            index
            for table in tables
            for index in table.indexes
            if index.name not in {each["name"] for each in old.get_indexes(table.name)}
        ]
        assert [index.name for index in new if index.unique] == []
        constrained = [table.name for table in tables if len(table.constraints) > 1]
        assert constrained == [], "a constraint beside the primary key"


@pytest.mark.parametrize(
    ("table", "covered"),
    [("mercury_invoker_message", codec.INBOUND_FIELDS), ("mercury_rms_message", codec.OUTBOUND_FIELDS)],
)
def test_no_checksum_covers_a_column_that_the_version_before_does_not_know(
    tmp_path: Path, table: str, covered: tuple[str, ...]
) -> None:
    with database(tmp_path, OLDEST) as connection:
        unknown = set(covered) - set(columns(connection, table))
    assert unknown == set(), "declare it unchecked=True: the version before would take the rows for damaged"


def test_a_value_of_a_message_that_is_newer_than_the_first_version_may_be_absent(tmp_path: Path) -> None:
    kinds = {
        "mercury_rmd_sequence": record_columns.RMD,
        "mercury_invoker_buffer": record_columns.INVOKER,
        "mercury_rms_sequence": record_columns.RMS,
    }
    with database(tmp_path, OLDEST) as connection:
        for table, fields in kinds.items():
            known = columns(connection, table)
            new = [each for each in fields if isinstance(each, Field) and each.name not in known]
            assert [each.name for each in new if not each.nullable] == [], table


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("ALTER TABLE mercury_claim ADD COLUMN note TEXT", 0),
        ("CREATE TABLE mercury_new (id TEXT)", 0),
        ("CREATE INDEX mercury_new_id ON mercury_new (id)", 0),
        ("CREATE INDEX mercury_claim_note ON mercury_claim (note)", 1),
        ("DROP INDEX mercury_claim", 1),
        ("DROP TABLE mercury_claim", 1),
        ("ALTER TABLE mercury_claim RENAME COLUMN owner TO holder", 1),
        ("ALTER TABLE mercury_claim RENAME TO mercury_lease", 1),
        ("UPDATE mercury_claim SET owner = ''", 1),
        ("UPDATE mercury_schema_version SET version_num='0002'", 0),
    ],
)
def test_a_statement_that_is_not_an_addition_is_found(statement: str, expected: int) -> None:
    assert len(breaches(statement, {"mercury_claim"})) == expected


def test_the_versions_are_comparable_texts() -> None:
    assert sorted(KNOWN) == list(KNOWN)
    assert all(re.fullmatch(r"\d{4}", version) for version in (*KNOWN, OLDEST))
    assert OLDEST <= HEAD
