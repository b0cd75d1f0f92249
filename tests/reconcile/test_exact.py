"""Values that differ by little: none passes for another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa

from mercury.reconcile import Column, Config, Verdict, reconcile
from mercury.reconcile.kinds import Field, Kind, canonical
from mercury.reconcile.pushdown import value
from mercury.reconcile.source import held
from tests.reconcile.shop import changed, keys
from tests.reconcile.test_databases import run, same, table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_json_of_two_postgresql_databases_is_compared_exactly(
    spark: SparkSession, postgres_database: Callable[..., str]
) -> None:
    """Also by the tasks, which a filter by another type makes compute the checksums."""
    same_values = ("'{}'", "'[1.50]'", '\'{"b": 1, "a": [true]}\'')
    differing = (
        ("'{}'", "'[]'"), ("'[[]]'", "'[{}]'"), ("'null'", "null"), ("'1'", "'\"1\"'"),
        ("'[9007199254740992]'", "'[9007199254740993]'"), ("'0.1'", "'0.10000000000000000001'"),
        ("'9007199254740992.5'", "'9007199254740992.25'"),
    )  # fmt: skip
    rows = [*((value, value) for value in same_values), *differing]
    urls = postgres_database(), postgres_database()
    for side, url in enumerate(urls):
        values = ", ".join(f"({number}, '{number}', {pair[side]})" for number, pair in enumerate(rows))
        run(url, "create table t (id integer, name char(5), j jsonb)", f"insert into t values {values}")
    given = Config(client=table(urls[0], "t"), server=table(urls[1], "t"), key=same("id"), compare=same("j"))
    for compare in (same("j"), same("j", "name")):
        result = reconcile(replace(given, compare=compare), spark=spark)
        assert bool(result.computed_here) == (len(compare) > 1)
        assert keys(result, Verdict.ALTERED) == {str(number) for number in range(len(same_values), len(rows))}
        assert result.delivered == len(same_values)


@pytest.mark.parametrize("differing", [False, True], ids=["equal", "differing"])
def test_json_that_is_no_jsonb_is_compared(
    spark: SparkSession, postgres_database: Callable[..., str], tmp_path: Path, differing: bool
) -> None:
    """PostgreSQL's json is a text; the cast of some of these to jsonb is an error, which would end the comparison."""
    values = ('"\\u0000"', '"\\ud800"', "1e200000", '{"\\udc00": [1]}')
    urls = postgres_database(), postgres_database()
    for url in urls:
        run(url, "create table t (id integer, j json)")
        with changed(url) as connection:
            for number, text in enumerate(values):
                connection.exec_driver_sql("insert into t values (%s, %s)", (number, text))
    if differing:
        with changed(urls[1]) as connection:
            connection.exec_driver_sql("update t set j = %s where id = 1", ('"\\ud801"',))
            connection.exec_driver_sql("update t set j = %s where id = 3", ('{"\\udc00": [2]}',))
    given = Config(client=table(urls[0], "t"), server=table(urls[1], "t"), key=same("id"), compare=same("j"))
    result = reconcile(replace(given, out=tmp_path), spark=spark)
    assert result.computed_here == "j is JSON, which has no hash"
    assert keys(result, Verdict.ALTERED) == ({"1", "3"} if differing else set())
    assert result.delivered == (2 if differing else 4)
    found = pq.read_table(tmp_path / "differences.parquet").to_pylist()
    assert {row["server"]["j"] for row in found} == ({'"\\ud801"', '{"\\udc00":[2]}'} if differing else set())
    assert ("\\ud801" in (tmp_path / "differences.csv").read_text(encoding="utf-8")) == differing


def test_numbers_and_times_that_one_hash_of_postgresql_takes_for_equal_are_altered(
    spark: SparkSession, postgres_database: Callable[..., str]
) -> None:
    """Of a numeric it takes neither the sign nor which of NaN and the infinities it is, of 64 bits it mixes 32."""
    columns = {"n": "bigint", "d": "numeric", "f": "float8", "at": "timestamptz"}
    same_values = ("-1", "-9.90", "-0.5", "'1999-12-31 23:59:59.999999+00'")
    pairs = [
        ("n", "-1", "4294967295"), ("n", "1", "4294967296"),
        ("d", "9.90", "-9.90"), ("d", "10", "100000"), ("d", "'NaN'", "'Infinity'"), ("d", "'Infinity'", "'-Infinity'"),
        ("f", "2.5", "-2.5"), ("f", "'NaN'", "'Infinity'"),
        ("at", "'2000-01-01 00:00:00.000001+00'", "'2000-01-01 01:11:34.967296+00'"),
    ]  # fmt: skip
    urls = postgres_database(), postgres_database()
    for side, url in enumerate(urls):
        run(url, f"create table t (id integer, {', '.join(map(' '.join, columns.items()))})")
        run(url, f"insert into t values (0, {', '.join(same_values)})")
        for number, (name, *values) in enumerate(pairs, 1):
            run(url, f"insert into t (id, {name}) values ({number}, {values[side]})")
    given = Config(client=table(urls[0], "t"), server=table(urls[1], "t"), key=same("id"), compare=())
    compare = (*same("n", "d", "at"), Column(client="f", server="f", scale=1))
    result = reconcile(replace(given, compare=compare), spark=spark)
    assert result.computed_here == ""
    assert keys(result, Verdict.ALTERED) == {str(number) for number in range(1, len(pairs) + 1)}
    assert result.delivered == 1


def test_keys_that_differ_in_their_sign_are_different_keys(
    spark: SparkSession, postgres_database: Callable[..., str]
) -> None:
    urls = postgres_database(), postgres_database()
    for url, values in zip(urls, ("(1.5), (9.9)", "(1.50), (-9.9)"), strict=True):
        run(url, "create table t (id numeric)", f"insert into t values {values}")
    given = Config(client=table(urls[0], "t"), server=table(urls[1], "t"), key=same("id"), compare=())
    result = reconcile(given, spark=spark)
    assert (keys(result, Verdict.MISSING), keys(result, Verdict.UNEXPECTED)) == ({"9.9"}, {"-9.9"})
    assert result.delivered == 1


#: Around the changes of the clock: twice an hour, an hour skipped, half an hour, a change of the standard time, a day.
CHANGES = (
    *(("Europe/Berlin", f"2026-10-25 0{hour}:30") for hour in range(1, 5)),
    *(("Europe/Berlin", f"2026-03-29 0{hour}:30") for hour in range(1, 5)),
    *(("Europe/Dublin", f"2026-{day} 01:30") for day in ("10-25", "03-29")),
    *(("Australia/Lord_Howe", f"2026-{day}") for day in ("04-05 01:45", "10-04 02:15")),
    *(("Europe/Moscow", f"{day} 0{hour}:30") for day in ("2014-10-26", "2011-03-27") for hour in (1, 2)),
    *(("Pacific/Apia", f"2011-12-{day} 12:00") for day in (29, 30, 31)),
)
HALVES = tuple(
    (scale, f"{day} 23:59:58{fraction}")
    for day in ("1950-01-01", "1985-06-01", "1999-12-31", "2000-01-01", "2026-01-01")
    for scale, fraction in ((0, ".5"), (0, ".499999"), (0, ".500001"), (1, ".25"), (3, ".0005"), (5, ".000005"))
)


@pytest.mark.parametrize(
    "fields",
    [
        [(Field(name="at", kind=Kind.TIMESTAMP, zone=zone), text) for zone, text in CHANGES],
        [(Field(name="at", kind=Kind.TIMESTAMP, scale=scale), text) for scale, text in HALVES],
    ],
    ids=["times", "halves"],
)
def test_times_are_read_and_rounded_as_postgresql_does(
    postgres_database: Callable[..., str], fields: list[tuple[Field, str]]
) -> None:
    """Otherwise a row would have one verdict from the databases' checksums and another from its values."""
    url = postgres_database()
    run(url, "create table t (at timestamp)")
    with held(url, "t", None) as source:
        native = source.natives(["at"])["at"]
        for field, text in fields:
            row = sa.select(sa.cast(sa.literal(text, sa.Text), sa.DateTime).label("at")).subquery()
            moment = source.connection.execute(sa.select(value(field, native)).select_from(row)).scalar_one()
            assert canonical(text, field) == canonical(moment, field), (field, text)


@pytest.mark.parametrize("scale", [None, 2])
def test_floats_are_compared_by_all_their_digits_however_the_databases_show_them(
    spark: SparkSession, postgres_database: Callable[..., str], scale: int | None
) -> None:
    """A float has seventeen digits, a cast to numeric keeps fifteen, and so does a setting of older programs."""
    urls = postgres_database(), postgres_database()
    for url, second in zip(urls, ("1234567890123456.5", "1234567890123456.75"), strict=True):
        run(url, "create table t (id integer, name char(5), f float8)")
        run(url, f"insert into t values (1, 'a', 2.675), (2, 'b', {second})")
        with changed(url) as connection:
            connection.execute(sa.text(f"alter database {sa.make_url(url).database} set extra_float_digits = 0"))
    given = Config(client=table(urls[0], "t"), server=table(urls[1], "t"), key=same("id"), compare=())
    compared = (Column(client="f", server="f", scale=scale),)
    for compare in (compared, (*compared, *same("name"))):
        result = reconcile(replace(given, compare=compare), spark=spark)
        assert bool(result.computed_here) == (len(compare) > 1)
        assert keys(result, Verdict.ALTERED) == {"2"}
        assert result.delivered == 1
