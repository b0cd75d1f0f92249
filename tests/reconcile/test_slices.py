"""Slices and key ranges: together they cover the table once."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from mercury.reconcile import Column, Config, SparkSettings, Table
from mercury.reconcile.plan import Plan, Ranges, Side
from mercury.reconcile.planning import make_plan
from mercury.reconcile.rows import _between, consecutive
from mercury.reconcile.source import Consistency, connected, held
from tests.reconcile.shop import changed

KEYS: dict[str, list[Any]] = {
    "integers": [None, *range(1, 500), 7, 7, -3, 10**12],
    "texts": [None, *(f"key {number % 97}" for number in range(500)), "", "Ä", "z"],
    "one": ["same"] * 50,
    "nulls": [None, None, None],
    "none": [],
}


def plan_of(url: str, slices: int, where: str | None = None) -> Plan:
    given = Config(
        client=Table(url=url, name="t", where=where),
        server=Table(url=url, name="t", where=where),
        key=(Column(client="k", server="k"),),
        compare=(),
        spark=SparkSettings(slices=slices),
    )
    with held(url, "t", where) as client, held(url, "t", where) as server:
        return make_plan(given, client, server, 2)[0]


def rows_of(side: Side) -> list[Any]:
    found = []
    with connected(side.place.url) as connection:
        for each in side.slices:
            query = sa.select(sa.column("k")).select_from(side.place.from_clause())
            found += connection.execute(query.where(*side.place.conditions(), *each.conditions("k"))).scalars().all()
    return found


def make_table(url: str, values: list[Any]) -> None:
    kind = "bigint" if any(isinstance(value, int) for value in values) else "text"
    with changed(url) as connection:
        connection.execute(sa.text(f"create table t (k {kind}, filler text)"))
        if values:
            filler = "x" * 900
            rows = [{"k": value, "filler": filler} for value in values]
            connection.execute(sa.text("insert into t values (:k, :filler)"), rows)


@pytest.mark.parametrize("keys", KEYS.values(), ids=list(KEYS))
def test_slices_of_sqlite_are_the_table_once(tmp_path: Path, keys: list[Any]) -> None:
    (tmp_path / "t.db").touch()
    url = f"sqlite:///{tmp_path}/t.db"
    make_table(url, keys)
    for slices in (1, 2, 5):
        plan = plan_of(url, slices)
        assert len(plan.client.slices) <= slices
        assert Counter(rows_of(plan.client)) == Counter(keys)
    assert plan_of(url, 4).pushed_down is False


def test_slices_of_postgresql_are_blocks_where_it_has_blocks(postgres_database: Callable[..., str]) -> None:
    url = postgres_database()
    make_table(url, KEYS["texts"])
    plan = plan_of(url, 4)
    assert [each.by for each in plan.client.slices] == ["ctid"] * 4
    assert Counter(rows_of(plan.client)) == Counter(KEYS["texts"])
    some = plan_of(url, 4, where="k < 'key 5'")
    assert 0 < len(rows_of(some.client)) < len(KEYS["texts"])
    with changed(url) as connection:
        connection.execute(sa.text("create view v as select * from t"))
    given = Config(
        client=Table(url=url, name="v"),
        server=Table(url=url, name="v"),
        key=(Column(client="k", server="k"),),
        compare=(),
        spark=SparkSettings(slices=3),
    )
    with held(url, "v", None) as client, held(url, "v", None) as server:
        view = make_plan(given, client, server, 2)[0].client
    assert {each.by for each in view.slices} == {"key"}
    assert Counter(rows_of(view)) == Counter(KEYS["texts"])


@given(
    low=st.integers(-(10**9), 10**9),
    width=st.integers(1, 10**6),
    count=st.integers(1, 1000),
    key=st.integers(-(10**12), 10**12),
)
def test_a_key_is_in_the_bounds_of_its_range_and_of_no_other(low: int, width: int, count: int, key: int) -> None:
    ranges = Ranges(count, low, width)
    number = ranges.of((str(key),))
    assert number is not None
    assert -1 <= number <= count
    for other in {number - 1, number, number + 1}:
        if -1 <= other <= count:
            begin, end = ranges.bounds(other, other)
            inside = (begin is None or key >= begin) and (end is None or key < end)
            assert inside == (other == number)


@given(st.sets(st.integers(-1, 60)))
def test_stretches_are_the_numbers_and_as_few_as_can_be(numbers: set[int]) -> None:
    found = list(consecutive(sorted(numbers)))
    assert [number for first, last in found for number in range(first, last + 1)] == sorted(numbers)
    assert all(second[0] > first[1] + 1 for first, second in itertools.pairwise(found))


def test_a_range_without_ends_is_everything() -> None:
    assert str(_between(sa.column("k"), None, None)) == "true"


def test_sparse_integers_are_put_into_ranges_of_their_hash(tmp_path: Path) -> None:
    (tmp_path / "t.db").touch()
    url = f"sqlite:///{tmp_path}/t.db"
    make_table(url, [number * 10**9 for number in range(1000)])
    ranges = plan_of(url, 1).ranges
    assert (ranges.low, ranges.count) == (None, 5)
    assert {ranges.of((str(number * 10**9),)) for number in range(1000)} == set(range(5))


def test_a_sqlite_file_that_was_written_meanwhile_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "t.db").touch()
    url = f"sqlite:///{tmp_path}/t.db"
    make_table(url, [1])
    with held(url, "t", None) as source:
        assert source.consistency() is Consistency.UNCHANGED
        with changed(url) as connection:
            connection.execute(sa.text("update t set k = 2"))
        assert source.consistency() is Consistency.NONE
