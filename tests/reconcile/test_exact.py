"""Values that differ by little: none passes for another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from mercury.reconcile import Config, Verdict, reconcile
from tests.reconcile.shop import keys
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
