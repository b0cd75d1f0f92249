"""The reconciler finds the planted faults of each kind, and no others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from mercury.reconcile import Config, Result, Verdict, reconcile
from tests.reconcile.shop import COMPARED, ORDERS, RECEIVED, Planted, config, fill, keys, orders, planted, received

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS, EACH = 20_000, 100


def found(result: Result) -> dict[Verdict, set[str]]:
    return {verdict: keys(result, verdict) for verdict in Verdict if verdict is not Verdict.DELIVERED}


def as_texts(faults: Planted) -> dict[Verdict, set[str]]:
    return {verdict: set(map(str, numbers)) for verdict, numbers in faults.expected.items()}


def shop(create: Callable[..., str], sent: list[dict[str, Any]], arrived: list[dict[str, Any]]) -> Config:
    client, server = create(), create()
    fill(client, ORDERS, sent)
    fill(server, RECEIVED, received(arrived))
    return config(client, server, listed=10 * EACH)


def test_a_hundred_faults_of_every_kind_are_found_and_nothing_else(
    spark: SparkSession, postgres_database: Callable[..., str], tmp_path: Path
) -> None:
    sent = orders(ROWS)
    faults = planted(sent, EACH)
    given = replace(shop(postgres_database, sent, faults.rows), out=tmp_path / "out")
    result = reconcile(given, spark=spark)

    assert found(result) == as_texts(faults)
    assert len(faults.expected[Verdict.OUT_OF_ORDER]) == EACH // 2 + 2 * (EACH // 2)
    assert not result.reconciled
    for each in result.listed[Verdict.ALTERED]:
        assert each.altered == (faults.altered[int(each.key)],)
        assert each.client is not None
        assert each.server is not None
        assert [name for name in COMPARED if each.client[name] != each.server[name]] == list(each.altered)
    for each in result.listed[Verdict.DUPLICATED]:
        assert (each.client_count, each.server_count) == (1, faults.copies[int(each.key)])

    # Every row is counted once: those delivered and those that the file lists.
    wrong = sum(len(each) for verdict, each in faults.expected.items() if verdict is not Verdict.UNEXPECTED)
    assert result.delivered == ROWS - wrong
    assert (result.client.rows, result.server.rows) == (ROWS, len(faults.rows))
    table = pq.read_table(tmp_path / "out/differences.parquet").to_pylist()
    assert Counter(row["verdict"] for row in table) == {
        verdict.value: count for verdict, count in result.counts.items()
    }
    assert {(row["verdict"], row["key"]) for row in table} == {
        (verdict.value, key) for verdict, listed in as_texts(faults).items() for key in listed
    }
    assert result.consistent
    assert result.computed_here == ""
    # Only ranges with a fault were read, and every row of a small table shows its latency.
    assert 0 < result.ranges_read <= result.ranges
    assert result.latency is not None
    assert 0.005 <= result.latency.quantile(0.5) <= 0.05
    assert result.timeline is not None
    assert (result.timeline.sent.total(), result.timeline.arrived.total()) == (ROWS, len(faults.rows))


def test_equal_tables_are_reconciled_without_reading_a_row(
    spark: SparkSession, postgres_database: Callable[..., str], tmp_path: Path
) -> None:
    sent = orders(3000)
    given = shop(postgres_database, sent, sent)
    given = replace(given, client=replace(given.client, time=None), out=tmp_path)
    told: list[str] = []
    result = reconcile(given, spark=spark, progress=lambda what, _done, _total: told.append(what))
    assert list(dict.fromkeys(told)) == ["reading the tables' sizes", "checksums of key ranges"]
    assert result.reconciled
    assert (result.delivered, result.differing, result.ranges_read, result.latency) == (3000, 0, 0, None)
    assert pq.read_table(tmp_path / "differences.parquet").num_rows == 0
    assert "exactly once, unaltered and in order" in (tmp_path / "report.html").read_text()


def test_empty_tables_are_equal(spark: SparkSession, postgres_database: Callable[..., str]) -> None:
    result = reconcile(shop(postgres_database, [], []), spark=spark)
    assert (result.reconciled, result.delivered, result.client.rows) == (True, 0, 0)


def test_an_empty_server_has_lost_everything_and_the_list_is_cut(
    spark: SparkSession, postgres_database: Callable[..., str], tmp_path: Path
) -> None:
    given = replace(shop(postgres_database, orders(700), []), listed=20, out=tmp_path)
    given = replace(given, client_store="memory:", server_store="memory:", correlation="order:{id}")
    result = reconcile(given, spark=spark)
    assert (result.lost, result.delivered) == (700, 0)
    assert len(result.listed[Verdict.MISSING]) == 20
    assert pq.read_table(tmp_path / "differences.parquet").num_rows == 700
    assert "20 of 700 are shown; the other 680 are in differences.parquet." in (tmp_path / "report.html").read_text()


def test_a_row_that_came_late_is_named_with_its_places(
    spark: SparkSession, postgres_database: Callable[..., str]
) -> None:
    sent = orders(1000)
    late = [*sent[:99], *sent[100:400], sent[99], *sent[400:]]
    result = reconcile(shop(postgres_database, sent, late), spark=spark)
    assert keys(result, Verdict.OUT_OF_ORDER) == {"100"}
    (row,) = result.listed[Verdict.OUT_OF_ORDER]
    assert (row.expected_position, row.position) == (100, 400)


def test_a_block_that_came_early_is_named_row_by_row(
    spark: SparkSession, postgres_database: Callable[..., str]
) -> None:
    sent = orders(1000)
    early = [*sent[:200], *sent[700:710], *sent[200:700], *sent[710:]]
    result = reconcile(shop(postgres_database, sent, early), spark=spark)
    assert keys(result, Verdict.OUT_OF_ORDER) == {str(number) for number in range(701, 711)}
    places = {int(each.key): (each.expected_position, each.position) for each in result.listed[Verdict.OUT_OF_ORDER]}
    assert places == {700 + index: (700 + index, 200 + index) for index in range(1, 11)}


@pytest.mark.parametrize("swapped", [("amount", "amount"), ("customer", "note")])
def test_values_that_two_rows_exchanged_are_seen(
    spark: SparkSession, postgres_database: Callable[..., str], swapped: tuple[str, str]
) -> None:
    """A checksum that only adds up the columns' hashes would be the same."""
    sent = orders(400)
    one, other = {**sent[10]}, {**sent[11]}
    if swapped[0] == swapped[1]:
        one["amount"], other["amount"] = other["amount"], one["amount"]
    else:
        one["customer"], one["note"] = "left", "right"
        sent[10] = {**one, "customer": "right", "note": "left"}
        other = dict(sent[11])
    result = reconcile(shop(postgres_database, sent, [*sent[:10], one, other, *sent[12:]]), spark=spark)
    expected = {"11", "12"} if swapped[0] == swapped[1] else {"11"}
    assert keys(result, Verdict.ALTERED) == expected
