"""Every prepared statement can be compiled for every kind of database."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest
from sqlalchemy import Integer, Select, bindparam, select

from mercury.storage.sql import (
    acknowledged_rows,
    attachments,
    claims,
    invoker,
    rmd,
    rms,
    rms_statements,
    transaction,
    work,
)
from mercury.storage.sql.dialect import Dialect
from mercury.storage.sql.postgres_dialect import Postgres
from mercury.storage.sql.prepared import Prepared, among
from mercury.storage.sql.schema import RMS_KEY
from mercury.storage.sql.sqlite_dialect import Sqlite

KINDS = pytest.mark.parametrize("dialect", [Postgres(), Sqlite()], ids=str)
#: The same list in each kind of database.
LISTED = {"postgresql": '{"a","b"}', "sqlite": '["a", "b"]'}
FILTERS = (
    work.WorkParameters(by_owner=False, services=None),
    work.WorkParameters(by_owner=True, services=("a", "b")),
)


def statements(dialect: Dialect) -> Iterator[Prepared]:
    for module in (acknowledged_rows, attachments, claims, invoker, rmd, rms, rms_statements, transaction, work):
        yield from (value for value in vars(module).values() if isinstance(value, Prepared))
    made = (work._due_rms, work._due_rms_of, work._next_rms, work._due_invoker, work._next_invoker, work._stuck_invoker)
    for wanted in FILTERS:
        yield from (make(wanted) for make in (*made, work._due_rmd, work._next_rmd))
    yield work._due_peers()
    for own_clock in {False, dialect.has_clock}:
        yield claims._taking(dialect, own_clock=own_clock)


class Lists(dict[str, list[str]]):
    """Parameters of which each is a list of two texts."""

    def __missing__(self, name: str) -> list[str]:
        return ["a", "b"]


@KINDS
def test_each_has_a_text_and_columns(dialect: Dialect) -> None:
    for prepared in statements(dialect):
        compiled = dialect.compiled(prepared, Lists())
        assert compiled.text
        assert isinstance(prepared.statement, Select) <= bool(compiled.columns)
        assert dialect.compiled(prepared, Lists()) is compiled, "it is compiled once"


@KINDS
def test_a_list_is_one_parameter_and_a_constant_is_none(dialect: Dialect) -> None:
    column = RMS_KEY.c.key_id
    query = (
        select(column)
        .where(among(column, "names"), RMS_KEY.c.name == "constant")
        .limit(bindparam("most", type_=Integer))
    )
    named = {"names": ["a", "b"], "most": 5}
    compiled = dialect.compiled(Prepared(query), named)
    given = compiled.parameters(named)
    values = list(given.values() if isinstance(given, Mapping) else given)
    assert "constant" in values
    assert [value for value in values if "a" in str(value) and value != "constant"] == [LISTED[dialect.name]]


@KINDS
def test_a_column_is_compared_with_the_only_text_of_a_list(dialect: Dialect) -> None:
    column = RMS_KEY.c.key_id
    prepared = Prepared(select(column).where(among(column, "names"), among(RMS_KEY.c.name, "others")))
    one, other = ({"names": ["a"], "others": others} for others in (["b"], ["b", "c"]))
    single = dialect.compiled(prepared, one)
    given = single.parameters(one)
    assert sorted(given.values() if isinstance(given, Mapping) else given) == ["a", "b"]
    assert single.columns == dialect.compiled(prepared, other).columns == ("key_id",)
    many = dialect.compiled(prepared, other)
    assert many.text != single.text, "one of the lists has two texts"
    assert dialect.compiled(prepared, {"names": [], "others": ["b"]}) is many
