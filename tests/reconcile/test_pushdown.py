"""Checksums that two PostgreSQL databases compute, and what the plan learns from their catalogues."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest
import sqlalchemy as sa

from mercury.reconcile import Column, Config, Table, Verdict, reconcile
from mercury.reconcile.kinds import Field, Kind
from mercury.reconcile.plan import Side
from mercury.reconcile.planning import make_plan
from mercury.reconcile.pushdown import CHAIN, row_hash
from mercury.reconcile.source import LARGE, held
from tests.reconcile.shop import ORDERS, RECEIVED, changed, config, fill, orders, received

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: For each kind a column, and values that all differ; the first is what the hash of a null substitutes.
VALUES = {
    Kind.INTEGER: ("bigint", "0", "1", "-1", "4294967295", "4294967296", "9223372036854775807", "-9223372036854775808"),
    Kind.DECIMAL: (
        *("numeric", "0", "1.5", "-1.5", "15", "10", "-10", "100000", "'NaN'", "'Infinity'", "'-Infinity'"),
        *("9223372036854775808", "1e-10", "-1e-10"),
    ),
    Kind.TEXT: ("text", "''", "'a'", "'A'"),
    Kind.TIMESTAMP: (
        *("timestamptz", "'epoch'", "'2026-01-02 03:04:05.678+00'", "'infinity'", "'-infinity'"),
        # One microsecond, 2**32 microseconds and one less than none, counted from 2000 as PostgreSQL does.
        *("'2000-01-01 00:00:00.000001+00'", "'2000-01-01 01:11:34.967296+00'", "'1999-12-31 23:59:59.999999+00'"),
        *("'2000-01-01 01:11:34.967295+00'", "'4713-01-01 BC'", "'200000-12-31 23:59:59.999999+00'"),
        "'200000-12-31 23:59:59.999998+00'",
    ),
    Kind.UUID: ("uuid", "'00000000-0000-0000-0000-000000000000'", "'00000000-0000-0000-0000-000000000001'"),
    Kind.JSON: ("jsonb", "'null'", "'{}'", "'[]'", "'[1]'", "'[[]]'", "'[{}]'", "'[[1], 2]'", "'[1, [2]]'"),
    Kind.BOOLEAN: ("boolean", "false", "true"),
    Kind.DATE: ("date", "'epoch'", "'2026-01-02'"),
    Kind.BYTES: ("bytea", "''", "'\\x00ff'"),
    Kind.FLOAT: ("float8", "0", "0.1", "-0.1", "'NaN'", "'Infinity'", "'-Infinity'"),
}


def named(kind: Kind) -> str:
    return f"c_{kind.value}"


def hashes(url: str, kinds: tuple[Kind, ...], *, copies: int = 1, scale: int | None = None) -> list[int]:
    """The hash of each row of the table, in the order of insertion; each column is hashed ``copies`` times."""
    with held(url, "t", None) as source:
        natives = source.natives([named(kind) for kind in kinds])
        fields = tuple(Field(name=named(kind), kind=kind, scale=scale) for kind in kinds) * copies
        side = Side(place=source.place, key=fields, compare=(), natives=tuple(natives.items()), slices=())
        query = sa.select(row_hash(side, fields)).select_from(source.place.from_clause()).order_by(sa.column("id"))
        return list(source.connection.execute(query).scalars())


def test_rows_that_differ_in_one_value_or_in_a_null_have_different_hashes(
    postgres_database: Callable[..., str],
) -> None:
    url, kinds = postgres_database(), tuple(VALUES)
    columns = ", ".join(f"{named(kind)} {VALUES[kind][0]}" for kind in kinds)
    rows: list[tuple[str, ...]] = [tuple(VALUES[kind][1] for kind in kinds)]
    for index, kind in enumerate(kinds):
        rows += ((*rows[0][:index], value, *rows[0][index + 1 :]) for value in (*VALUES[kind][2:], "null"))
    with changed(url) as connection:
        connection.execute(sa.text(f"create table t (id serial, {columns})"))
        for row in rows:
            connection.exec_driver_sql(f"insert into t ({', '.join(map(named, kinds))}) values ({', '.join(row)})")
    assert len(set(hashes(url, kinds))) == len(rows)
    assert len(set(hashes(url, kinds, copies=CHAIN // len(kinds) + 1))) == len(rows), "a row of several chains"


def test_floats_that_are_rounded_differ_by_their_sign(postgres_database: Callable[..., str]) -> None:
    url = postgres_database()
    with changed(url) as connection:
        connection.execute(sa.text("create table t (id serial, c_float float8)"))
        connection.execute(sa.text("insert into t (c_float) values (1.04), (1.01), (-1.01), ('NaN'), ('Infinity')"))
    one, again, *others = hashes(url, (Kind.FLOAT,), scale=1)
    assert one == again
    assert len({one, *others}) == 4


@pytest.mark.parametrize(
    ("kind", "one", "other"),
    [
        (Kind.TEXT, "'a'", "'b'"),
        (Kind.BYTES, "'a'", "'b'"),
        (Kind.DECIMAL, "10", "100000"),
        (Kind.DECIMAL, "0", "'NaN'"),
        (Kind.INTEGER, "1", "4294967296"),
    ],
)
def test_two_rows_that_swap_a_value_change_the_sum_of_the_hashes(
    postgres_database: Callable[..., str], kind: Kind, one: str, other: str
) -> None:
    url = postgres_database()
    with changed(url) as connection:
        connection.execute(sa.text(f"create table t (id serial, c_uuid uuid, {named(kind)} {VALUES[kind][0]})"))
        for value in (one, other):
            rows = f"select lpad(i::text, 32, '0')::uuid, {value} from generate_series(1, 10) i"
            connection.execute(sa.text(f"insert into t (c_uuid, {named(kind)}) {rows}"))
    found = hashes(url, (Kind.UUID, kind))
    swapped = [mine - its for mine, its in zip(found[:10], found[10:], strict=True)]
    assert all(one != other for one, other in itertools.combinations(swapped, 2))


@pytest.mark.parametrize("copies", [1, 2 * CHAIN], ids=["one chain", "chains with the same values"])
def test_many_rows_have_as_many_hashes(postgres_database: Callable[..., str], copies: int) -> None:
    """With 32 bits some ten pairs of 300,000 rows would have one hash."""
    url, slow = postgres_database(), copies == 1
    rows = 300_000 if slow else 1000
    with changed(url) as connection:
        connection.execute(sa.text("create table t (id int, c_integer bigint, c_boolean boolean)"))
        connection.execute(sa.text(f"insert into t select i, i, true from generate_series(1, {rows}) i"))
    kinds = (Kind.INTEGER, Kind.BOOLEAN) if slow else (Kind.INTEGER,)
    different = len(set(hashes(url, kinds, copies=copies)))
    assert different == rows


#: The kinds that PostgreSQL hashes as a record only.
SLOW = (Kind.BOOLEAN, Kind.DATE, Kind.BYTES, Kind.FLOAT)


def test_rows_whose_slow_columns_are_all_null_differ_by_their_other_columns(
    postgres_database: Callable[..., str],
) -> None:
    """The hash of a record of nulls is 0, whatever its seed is."""
    url = postgres_database()
    with changed(url) as connection:
        slow = ", ".join(f"{named(kind)} {VALUES[kind][0]}" for kind in SLOW)
        connection.execute(sa.text(f"create table t (id serial, c_integer bigint, c_text text, {slow})"))
        connection.execute(sa.text("insert into t (c_integer, c_text) values (1, 'a'), (1, 'b'), (2, 'a'), (1, null)"))
    for kind in SLOW:
        assert len(set(hashes(url, (Kind.INTEGER, Kind.TEXT, kind)))) == 4, kind
    whole = (Kind.INTEGER, Kind.TEXT, *SLOW)
    assert len(set(hashes(url, whole))) == 4
    assert len(set(hashes(url, whole, copies=CHAIN // len(whole) + 1))) == 4, "a row of several chains"
    assert len(set(hashes(url, SLOW))) == 1, "equal rows, of nulls only"


def test_texts_are_compared_and_rows_missed_though_the_other_columns_are_null(
    spark: SparkSession, postgres_database: Callable[..., str]
) -> None:
    """Also if the null is a part of the key, by whose hash a row has its range."""
    client, server = postgres_database(), postgres_database()
    for url, rows in (
        (client, "(1, 'same'), (2, 'sent'), (3, 'lost')"),
        (server, "(1, 'same'), (2, 'altered'), (4, 'lost')"),
    ):
        with changed(url) as connection:
            connection.execute(sa.text("create table t (id bigint, note text, day date, paid boolean)"))
            connection.execute(sa.text(f"insert into t values {rows.replace(')', ', null, null)')}"))
    pairs = {name: Column(client=name, server=name) for name in ("id", "note", "day", "paid")}
    tables = {"client": Table(url=client, name="t"), "server": Table(url=server, name="t")}
    for key in (("id",), ("id", "day"), ("day", "paid", "id")):
        compare = tuple(pairs[name] for name in pairs if name not in key)
        result = reconcile(Config(**tables, key=tuple(pairs[name] for name in key), compare=compare), spark=spark)
        assert result.computed_here == ""
        assert dict(result.counts) | {Verdict.DELIVERED: 0} == {
            Verdict.ALTERED: 1, Verdict.MISSING: 1, Verdict.UNEXPECTED: 1, Verdict.DELIVERED: 0
        }, key  # fmt: skip
        assert result.delivered == 1


def test_one_value_in_two_notations_has_one_hash(postgres_database: Callable[..., str]) -> None:
    url = postgres_database()
    with changed(url) as connection:
        connection.execute(sa.text("create table t (id int, c_decimal numeric, c_timestamp timestamptz)"))
        connection.execute(sa.text("insert into t values (1, 1.5, '2026-01-02 03:00:00+01')"))
        connection.execute(sa.text("insert into t values (2, 1.500, '2026-01-02 02:00:00+00')"))
    assert len(set(hashes(url, (Kind.DECIMAL, Kind.TIMESTAMP)))) == 1


def test_equal_tables_of_two_postgresql_databases_start_no_spark_task(postgres_database: Callable[..., str]) -> None:
    client, server, sent = postgres_database(), postgres_database(), orders(3000)
    fill(client, ORDERS, sent)
    fill(server, RECEIVED, received(sent))
    given = config(client, server)
    given = replace(given, client=replace(given.client, time=None))
    #: Only its number of processors can be asked for.
    spark = cast("SparkSession", SimpleNamespace(sparkContext=SimpleNamespace(defaultParallelism=2)))
    result = reconcile(given, spark=spark)
    assert (result.reconciled, result.delivered) == (True, 3000)


def plan_of(url: str, name: str = "t") -> tuple[Side, int]:
    given = Config(
        client=Table(url=url, name=name, order="k"),
        server=Table(url=url, name=name, order="arrival"),
        key=(Column(client="k", server="k"),),
        compare=(),
    )
    with held(url, name, None) as client, held(url, name, None) as server:
        plan, rows, _ = make_plan(given, client, server, 2)
    return plan.server, rows


def test_an_order_column_is_unique_only_if_an_index_of_it_alone_says_so(postgres_database: Callable[..., str]) -> None:
    url = postgres_database()
    with changed(url) as connection:
        connection.execute(sa.text("create table t (k int, arrival int, primary key (k, arrival))"))
    assert plan_of(url)[0].order_unique is False
    with changed(url) as connection:
        connection.execute(sa.text("create unique index on t (arrival) where k > 0"))
    assert plan_of(url)[0].order_unique is False
    with changed(url) as connection:
        connection.execute(sa.text("create unique index on t (arrival)"))
        connection.execute(sa.text("create view v as select * from t"))
    assert plan_of(url)[0].order_unique is True
    assert plan_of(url, "v")[0].order_unique is False


def test_a_large_table_is_estimated_and_a_small_one_counted(postgres_database: Callable[..., str]) -> None:
    url = postgres_database()
    with changed(url) as connection:
        connection.execute(sa.text("create table t (k int, arrival int, filler text)"))
        connection.execute(sa.text("insert into t select i, i, repeat('x', 900) from generate_series(1, 7) i"))
    with held(url, "t", None) as source:
        assert source.estimated_rows() is None
    assert plan_of(url)[1] == 7
    with changed(url) as connection:
        rows = "insert into t select i, i, repeat('x', 3000) from generate_series(8, :last) i"
        connection.execute(sa.text("alter table t alter column filler set storage plain"))
        connection.execute(sa.text(rows), {"last": 3 * LARGE})
    assert plan_of(url)[1] == 3 * LARGE, "PostgreSQL does not know its density"
    with changed(url) as connection:
        connection.execute(sa.text("analyze t"))
        connection.execute(sa.text("delete from t where k > :last"), {"last": 2 * LARGE})
    with held(url, "t", None) as source:
        assert source.estimated_rows() == 3 * LARGE, "the estimate is of the last analysis"
