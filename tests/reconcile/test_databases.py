"""Two databases of different kinds, with different names, types and keys; and unusual tables on one side."""

from __future__ import annotations

import datetime
import threading
import uuid
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from mercury.errors import ConfigurationError, StorageError
from mercury.reconcile import Column, Config, Kind, Response, SparkSettings, Table, Verdict, Where, reconcile
from mercury.reconcile.source import Consistency
from tests.reconcile.shop import ORDERS, RECEIVED, changed, config, fill, keys, only, orders, received

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAY = datetime.datetime(2026, 7, 1, 12, 30, 15, 123456, tzinfo=datetime.UTC)


def run(url: str, *statements: str | tuple[str, list[dict[str, Any]]]) -> None:
    with changed(url) as connection:
        for statement in statements:
            text, rows = statement if isinstance(statement, tuple) else (statement, None)
            if rows != []:
                connection.execute(sa.text(text), rows)


def table(url: str, name: str, **more: Any) -> Table:
    return Table(url=url, name=name, **more)


def same(*names: str) -> tuple[Column, ...]:
    return tuple(Column(client=name, server=name) for name in names)


@pytest.fixture
def sqlite(tmp_path: Path) -> str:
    (tmp_path / "client.db").touch()
    return f"sqlite:///{tmp_path / 'client.db'}"


def test_sqlite_and_postgresql_are_compared_by_value_under_other_names(
    spark: SparkSession, postgres_database: Callable[..., str], sqlite: str
) -> None:
    """Texts for uuids, times of another zone, numbers that are stored as floats and as whole cents of decimals."""
    server = postgres_database()
    ids = [uuid.UUID(int=number * 7**40 % 2**128) for number in range(1500)]
    run(
        sqlite,
        "create table sales (ref text primary key, total numeric, at datetime, ok integer, label text)",
        (
            "insert into sales values (:ref, :total, :at, :ok, :label)",
            [
                {
                    "ref": str(each).upper(),
                    "total": number / 4,
                    # Berlin's summer time, without saying so.
                    "at": (DAY + datetime.timedelta(hours=2, seconds=number)).replace(tzinfo=None).isoformat(" "),
                    "ok": number % 2,
                    "label": None if number % 3 else f"Größe {number}",
                }
                for number, each in enumerate(ids)
            ],
        ),
    )
    arrived = [
        {
            "ref": each,
            "total": Decimal(number) / 4,
            "at": DAY + datetime.timedelta(seconds=number),
            "ok": bool(number % 2),
            "label": None if number % 3 else f"Größe {number}",
        }
        for number, each in enumerate(ids)
    ]
    del arrived[1400]
    arrived.append({**arrived[3], "ref": uuid.UUID(int=5)})
    arrived[900] |= {"label": "Grösse"}
    arrived[901] |= {"total": arrived[901]["total"] + Decimal("0.000001")}
    arrived[902] |= {"at": arrived[902]["at"] + datetime.timedelta(microseconds=1)}
    arrived.append(arrived[7])
    run(
        server,
        "create schema shop",
        "create table shop.purchases "
        "(id uuid, total numeric(20,6), created timestamptz, paid boolean, title varchar(40))",
        ("insert into shop.purchases values (:ref, :total, :at, :ok, :label)", arrived),
    )
    given = Config(
        client=table(sqlite, "sales"),
        server=table(server, "shop.purchases"),
        key=(Column(client="ref", server="id"),),
        compare=(
            Column(client="total", server="total"),
            Column(client="at", server="created", client_zone="Europe/Berlin"),
            Column(client="ok", server="paid"),
            Column(client="label", server="title"),
        ),
    )
    result = reconcile(given, spark=spark)
    assert keys(result, Verdict.MISSING) == {str(ids[1400])}
    assert keys(result, Verdict.UNEXPECTED) == {str(uuid.UUID(int=5))}
    assert keys(result, Verdict.DUPLICATED) == {str(ids[7])}
    altered = {each.key: each.altered for each in result.listed[Verdict.ALTERED]}
    assert altered == {str(ids[900]): ("label",), str(ids[901]): ("total",), str(ids[902]): ("at",)}
    assert "sqlite" in result.computed_here
    assert (result.client.consistency, result.server.consistency) == (Consistency.UNCHANGED, Consistency.SNAPSHOT)

    # What a column is rounded to counts no further.
    coarse = tuple(replace(pair, scale={"total": 2, "at": 0}.get(pair.client)) for pair in given.compare)
    assert keys(reconcile(replace(given, compare=coarse), spark=spark), Verdict.ALTERED) == {str(ids[900])}


COMPOSITE = "create table lines (shop text, number integer, amount numeric(9,2), seq bigserial)"


def test_composite_keys_with_nulls_and_repeated_keys_are_counted(
    spark: SparkSession, postgres_database: Callable[..., str]
) -> None:
    client, server = postgres_database(), postgres_database()
    insert = "insert into lines (shop, number, amount) values (:shop, :number, :amount)"

    def lines(*rows: tuple[str | None, int | None, str]) -> list[dict[str, Any]]:
        common = [("many", number, "1") for number in range(300)]
        return [{"shop": shop, "number": n, "amount": Decimal(amount)} for shop, n, amount in [*common, *rows]]

    ours = lines(
        ("a", 1, "1"), ("a", 11, "1"), ("a1", 1, "1"), (None, 1, "2"), ("b", None, "3"), (None, None, "4"),
        ("twice", 1, "5"), ("twice", 1, "6"), ("thrice", 1, "7"), ("thrice", 1, "7"), ("thrice", 1, "8"),
        ("same", 1, "1"), ("same", 1, "2"),
    )  # fmt: skip
    theirs = lines(
        ("a", 1, "1"), ("a1", 1, "1"), (None, 1, "2"), ("b", None, "3.50"), (None, None, "4"), (None, None, "4"),
        ("twice", 1, "5"), ("thrice", 1, "7"), ("thrice", 1, "8"), ("thrice", 1, "8"),
        ("same", 1, "2"), ("same", 1, "1"),
    )  # fmt: skip
    run(client, COMPOSITE, (insert, ours))
    run(server, COMPOSITE, (insert, theirs))
    given = Config(
        client=table(client, "lines"), server=table(server, "lines"), key=same("shop", "number"), compare=same("amount")
    )
    result = reconcile(given, spark=spark)
    assert result.computed_here == ""
    assert keys(result, Verdict.MISSING) == {'["a", "11"]', '["twice", "1"]'}
    assert keys(result, Verdict.DUPLICATED) == {"[null, null]"}
    # Three rows on each side; 7 7 8 is not 7 8 8, and it is not known which of them became which.
    assert keys(result, Verdict.ALTERED) == {'["b", null]', '["thrice", "1"]'}
    assert result.delivered == len(ours) - 1 - 2 - 1 - 1 - 3
    twice = next(each for each in result.listed[Verdict.MISSING] if "twice" in each.key)
    assert (twice.client_count, twice.server_count) == (2, 1)


def test_integer_keys_that_are_null_or_far_away_are_compared_like_others(
    spark: SparkSession, postgres_database: Callable[..., str]
) -> None:
    client, server = postgres_database(), postgres_database()
    for url, strange in (
        (client, [(None, 1), (None, 2), (-5, 1), (10**15, 1), (10**15 + 1, 1), (-(10**18), 1)]),
        (server, [(None, 1), (None, 3), (-5, 2), (10**15, 1), (2 * 10**15, 1)]),
    ):
        values = [{"id": number, "n": n} for number, n in [*((number, 0) for number in range(1, 900)), *strange]]
        run(url, "create table t (id bigint, n integer)", ("insert into t values (:id, :n)", values))
    given = Config(client=table(client, "t"), server=table(server, "t"), key=same("id"), compare=same("n"))
    result = reconcile(given, spark=spark)
    assert keys(result, Verdict.ALTERED) == {"[null]", "-5"}
    assert keys(result, Verdict.MISSING) == {str(10**15 + 1), str(-(10**18))}
    assert keys(result, Verdict.UNEXPECTED) == {str(2 * 10**15)}
    assert result.delivered == 899 + 1


@pytest.mark.parametrize("texts", ["client", "server"])
@pytest.mark.parametrize("database", ["postgresql", "sqlite"])
def test_integer_keys_that_one_side_stores_as_texts_are_compared_as_integers(
    spark: SparkSession, postgres_database: Callable[..., str], tmp_path: Path, database: str, texts: str
) -> None:
    """PostgreSQL compares no text with an integer, and SQLite compares the two as texts."""
    urls = {}
    for side in ("client", "server"):
        (tmp_path / side).touch()
        urls[side] = postgres_database() if database == "postgresql" else f"sqlite:///{tmp_path / side}"
        kind = "varchar(20)" if side == texts else "bigint"
        rows = [{"id": str(n) if side == texts else n, "note": f"row {n}", "n": n} for n in range(1, 1001)]
        run(
            urls[side],
            f"create table t (id {kind}, note text, arrival integer)",
            ("insert into t values (:id, :note, :n)", rows),
        )
    given = Config(
        client=table(urls["client"], "t", order="id"),
        server=table(urls["server"], "t", order="arrival"),
        key=same("id"),
        compare=same("note"),
    )
    for spark_settings in (SparkSettings(), SparkSettings(slices=3, ranges=50)):
        equal = reconcile(replace(given, spark=spark_settings), spark=spark)
        assert (equal.reconciled, equal.delivered) == (True, 1000)

    run(urls["client"], "delete from t where id in ('5', '1000')")
    run(urls["server"], "delete from t where id in ('7', '70', '999')", "update t set note = 'x' where id = '80'")
    run(urls["server"], "update t set arrival = 2000 where id = '300'")
    for spark_settings in (SparkSettings(), SparkSettings(slices=3, ranges=50)):
        result = reconcile(replace(given, spark=spark_settings), spark=spark)
        assert keys(result, Verdict.MISSING) == {"7", "70", "999"}
        assert keys(result, Verdict.UNEXPECTED) == {"5", "1000"}
        assert keys(result, Verdict.ALTERED) == {"80"}
        assert keys(result, Verdict.OUT_OF_ORDER) == {"300"}
        assert result.delivered == 998 - 5


def test_an_order_that_only_the_client_has_is_joined_and_counts_within_its_groups(
    spark: SparkSession, postgres_database: Callable[..., str], sqlite: str
) -> None:
    server = postgres_database()
    ids = [f"order {number:04}" for number in range(600)]
    sent = [{"name": each, "shop": f"shop {n % 3}", "seq": n * 10} for n, each in enumerate(ids)]
    run(
        sqlite,
        "create table o (name text, shop text, seq integer)",
        ("insert into o values (:name, :shop, :seq)", sent),
    )
    # 30 comes after 36 of the same shop; 300 after 301 and 302, which are of other shops.
    arrived = [*ids[:30], *ids[31:37], ids[30], *ids[37:300], ids[301], ids[302], ids[300], *ids[303:]]
    run(
        server,
        "create table o (name text, got bigint generated always as identity)",
        ("insert into o (name) values (:name)", [{"name": each} for each in arrived]),
    )
    given = Config(
        client=table(sqlite, "o", order="seq"), server=table(server, "o", order="got"), key=same("name"), compare=(),
        within=("shop",),
    )  # fmt: skip
    found = only(reconcile(given, spark=spark), Verdict.OUT_OF_ORDER)
    assert (found.key, found.expected_position, found.position) == ("order 0030", 11, 13)
    anywhere = reconcile(replace(given, within=()), spark=spark)
    assert keys(anywhere, Verdict.OUT_OF_ORDER) == {"order 0030", "order 0300"}


def test_only_selected_rows_are_compared_and_rows_not_handed_over_are_distinguished(
    spark: SparkSession, postgres_database: Callable[..., str]
) -> None:
    client, server = postgres_database(), postgres_database()
    rows = [{"id": number, "state": "draft" if number > 90 else "final"} for number in range(100)]
    run(
        client,
        'create table "Order Lines" (id integer, state text, "handed at" timestamp)',
        ('insert into "Order Lines" values (:id, :state, case when :id < 80 then now() end)', rows),
    )
    run(server, "create view got as select id from generate_series(0, 69) id")
    given = Config(
        client=table(client, "Order Lines", where="state <> 'draft'"),
        server=table(server, "got"),
        key=same("id"),
        compare=(),
        handed_over="handed at",
        client_store="memory:",
        server_store="memory:",
        correlation="order:{id}",
    )
    result = reconcile(given, spark=spark)
    assert result.missing == {Where.LOST: 10, Where.NOT_HANDED_OVER: 11}
    assert (result.client.rows, result.delivered, result.under_way) == (91, 70, 11)


def test_answers_are_compared_on_their_way_back(spark: SparkSession, postgres_database: Callable[..., str]) -> None:
    client, server = postgres_database(), postgres_database()
    sent = orders(300)
    fill(client, ORDERS, sent)
    fill(server, RECEIVED, received(sent))
    answers = [{"order_id": row["id"], "total": row["amount"]} for row in sent if row["id"] != 17]
    answers += [answers[5], {"order_id": 999, "total": Decimal(1)}]
    answers[40]["total"] += 1
    run(
        client,
        "create table confirmations (order_id bigint, total numeric)",
        ("insert into confirmations values (:order_id, :total)", answers),
    )
    given = config(
        client,
        server,
        client_store="memory:",
        server_store="memory:",
        correlation="order:{id}",
        response=Response(
            table=table(client, "confirmations"), key=("order_id",), compare=(Column(client="amount", server="total"),)
        ),
    )
    result = reconcile(given, spark=spark)
    assert (result.delivered, result.differing, result.reconciled) == (300, 0, False)
    back = result.response
    assert back is not None
    assert (back.client.rows, back.server.rows, back.lost) == (300, 301, 1)
    assert keys(back, Verdict.MISSING) == {"17"}
    assert keys(back, Verdict.DUPLICATED) == {str(answers[5]["order_id"])}
    assert keys(back, Verdict.ALTERED) == {str(answers[40]["order_id"])}
    assert keys(back, Verdict.UNEXPECTED) == {"999"}
    assert result.as_json()["response"]["lost"] == 1


def test_tables_that_move_while_they_are_compared_are_read_as_they_were(
    spark: SparkSession, postgres_database: Callable[..., str]
) -> None:
    """A writer commits a row to the client, then to the server, again and again; updates and deletes pass by."""
    client, server = postgres_database(), postgres_database()
    sent = orders(30_000)
    fill(client, ORDERS, sent[:4000])
    fill(server, RECEIVED, received(sent[:4000]))
    stop, written = threading.Event(), []

    def write() -> None:
        ours, theirs = sa.create_engine(client), sa.create_engine(server)
        for row, arrived in zip(sent[4000:], received(sent)[4000:], strict=True):
            if stop.is_set():
                break
            with ours.begin() as connection:
                connection.execute(sa.insert(ORDERS), [row])
            with theirs.begin() as connection:
                connection.execute(sa.insert(RECEIVED), [arrived])
            written.append(row)
        ours.dispose()
        theirs.dispose()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        result = reconcile(config(client, server), spark=spark)
    finally:
        stop.set()
        writer.join()
    assert result.consistent
    assert 0 < len(written) < 26_000
    # One row may have been committed on one side only at the moment of the snapshots.
    assert result.counts[Verdict.MISSING] <= 1
    assert result.differing == result.counts[Verdict.MISSING]
    assert result.server.rows + result.counts[Verdict.MISSING] == result.client.rows + result.newer


def test_missing_table_is_reported_before_spark_is_started(
    postgres_database: Callable[..., str], sqlite: str, tmp_path: Path
) -> None:
    url = postgres_database()
    fill(url, ORDERS, orders(3))
    fill(url, RECEIVED, [])
    given = config(url, url)
    told = {
        "no table 'ordres'": replace(given, client=replace(given.client, name="ordres")),
        "no column 'nowhere'": replace(given, compare=same("nowhere")),
        "no column 'due'": replace(given, server=replace(given.server, order="due")),
        "no such file": replace(given, client=replace(given.client, url=f"sqlite:///{tmp_path}/nowhere.db")),
        "in memory": replace(given, client=replace(given.client, url="sqlite://")),
        "it has no table mercury_store": replace(given, client_store=sqlite, server_store=sqlite),
        "oracledb": replace(given, server=replace(given.server, url="oracle+oracledb://x@y/z")),
        "cannot be read": replace(given, server=replace(given.server, url="nonsense")),
    }
    for text, wrong in told.items():
        with pytest.raises((ConfigurationError, StorageError)) as caught:
            reconcile(wrong)
        assert text in str(caught.value), caught.value
        assert "\n" not in str(caught.value)


def test_a_filter_that_the_database_refuses_is_its_error(
    spark: SparkSession, postgres_database: Callable[..., str]
) -> None:
    url = postgres_database()
    fill(url, ORDERS, orders(3))
    fill(url, RECEIVED, [])
    given = config(url, url)
    with pytest.raises(StorageError, match="nonsense"):
        reconcile(replace(given, server=replace(given.server, where="nonsense = 1")), spark=spark)
    with pytest.raises(StorageError, match="division by zero"):
        reconcile(replace(given, client=replace(given.client, where="1 / (id - 2) >= 0")), spark=spark)


def test_an_order_that_is_no_number_is_refused(spark: SparkSession, postgres_database: Callable[..., str]) -> None:
    url = postgres_database()
    fill(url, ORDERS, orders(3))
    fill(url, RECEIVED, [])
    given = config(url, url)
    with pytest.raises(ConfigurationError, match="an order column must be a number or a time"):
        reconcile(replace(given, client=replace(given.client, order="note")), spark=spark)


def test_dates_that_python_does_not_have_are_compared_by_their_texts(
    spark: SparkSession, postgres_database: Callable[..., str]
) -> None:
    client, server = postgres_database(), postgres_database()
    for url in (client, server):
        run(
            url,
            "create table t (id integer, day date, at timestamptz, plain timestamp)",
            "insert into t values (1, 'infinity', 'infinity', '-infinity'), (2, '12000-01-01', '0044-03-15 BC', null), "
            "(3, 'infinity', '2026-01-01+00', null)",
        )
    run(server, "update t set at = 'infinity' where id = 3")
    given = Config(
        client=table(client, "t"), server=table(server, "t"), key=same("id"), compare=same("day", "at", "plain")
    )
    found = only(reconcile(given, spark=spark), Verdict.ALTERED)
    assert (found.key, found.altered, found.server) == (
        "3",
        ("at",),
        {"day": "infinity", "at": "infinity", "plain": None},
    )


def test_kinds_of_postgresql_are_equal_by_value(spark: SparkSession, postgres_database: Callable[..., str]) -> None:
    """Whole numbers of other widths, texts of other types, times with and without a zone, JSON, bytes, floats."""
    client, server = postgres_database(), postgres_database()
    run(
        client,
        "create table t (id smallint, n integer, t varchar(20), at timestamp, j json, b bytea, f float8, d numeric)",
        "insert into t select i, i, 'text ' || i, timestamp '2026-07-01 14:00' + i * interval '1 second', "
        "'{\"b\": [1, 2], \"a\": null}', '\\x00ff', i / 3.0, i / 8.0 from generate_series(1, 500) i",
    )
    run(
        server,
        "create table t (id bigint, n bigint, t text, at timestamptz, j jsonb, b bytea, f float8, d numeric(30,10))",
        "insert into t select i, i, 'text ' || i, timestamptz '2026-07-01 12:00+00' + i * interval '1 second', "
        "'{\"a\": null, \"b\": [1, 2]}', '\\x00ff', i / 3.0, i / 8.0 from generate_series(1, 500) i",
    )
    at = Column(client="at", server="at", client_zone="Europe/Berlin")
    given = Config(
        client=table(client, "t"),
        server=table(server, "t"),
        key=same("id"),
        compare=(*same("n", "t", "b", "f", "d"), at),
    )
    result = reconcile(given, spark=spark)
    assert (result.reconciled, result.computed_here) == (True, "")
    run(server, "update t set f = f + 1e-12 where id = 77")
    assert keys(reconcile(given, spark=spark), Verdict.ALTERED) == {"77"}
    whole = replace(given, compare=(*given.compare, Column(client="j", server="j", kind=Kind.JSON)))
    assert keys(reconcile(whole, spark=spark), Verdict.ALTERED) == {"77"}
