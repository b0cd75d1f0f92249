"""Orders of a client and the rows of a server, with faults planted by a seed."""

from __future__ import annotations

import contextlib
import datetime
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import sqlalchemy as sa

from mercury.reconcile import Column, Config, Difference, Result, Table, Verdict

METADATA = sa.MetaData()
ORDERS = sa.Table(
    "orders",
    METADATA,
    sa.Column("id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("customer", sa.Text),
    sa.Column("amount", sa.Numeric(12, 2)),
    sa.Column("placed_on", sa.Date),
    sa.Column("paid", sa.Boolean),
    sa.Column("note", sa.Text),
    sa.Column("sent_at", sa.DateTime(timezone=True)),
)
RECEIVED = sa.Table(
    "received_orders",
    METADATA,
    sa.Column("arrival", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("id", sa.BigInteger, index=True),
    sa.Column("customer", sa.Text),
    sa.Column("amount", sa.Numeric(12, 2)),
    sa.Column("placed_on", sa.Date),
    sa.Column("paid", sa.Boolean),
    sa.Column("note", sa.Text),
    sa.Column("received_at", sa.DateTime(timezone=True)),
)
COMPARED = ("customer", "amount", "placed_on", "paid", "note")
BEGIN = datetime.datetime(2026, 3, 1, 8, tzinfo=datetime.UTC)
NAMES = ("Ada Lovelace", "Grüße & Söhne", "張偉", "محمد", "O'Neil \\ <b>", "", " trailing ")

Row = dict[str, Any]


def orders(count: int, seed: int = 1) -> list[Row]:
    """Rows in the order of sending."""
    chance = random.Random(seed)
    return [
        {
            "id": number,
            "customer": chance.choice(NAMES) if number % 5 else None,
            "amount": Decimal(chance.randrange(10**7)).scaleb(-2),
            "placed_on": BEGIN.date() + datetime.timedelta(days=chance.randrange(-400, 400)),
            "paid": chance.choice((True, False, None)),
            "note": chance.choice((None, "", "x" * chance.randrange(200), "naïve\nnote")),
            "sent_at": BEGIN + datetime.timedelta(milliseconds=10 * number),
        }
        for number in range(1, count + 1)
    ]


@dataclass
class Planted:
    """What the server got, in the order of arrival, and what is wrong with it."""

    rows: list[Row]
    expected: dict[Verdict, set[int]] = field(default_factory=dict)
    #: Key -> column.
    altered: dict[int, str] = field(default_factory=dict)
    #: Key -> rows on the server.
    copies: dict[int, int] = field(default_factory=dict)


def planted(sent: Sequence[Row], each: int, seed: int = 1) -> Planted:
    """``each`` faults of every kind at places of their own, none beside another.

    Of the swaps one half is of neighbours, where the one that came late is out of order, and one half is of rows far
    from each other, where both are.
    """
    chance = random.Random(seed)
    # Every fourth: swaps reach to the next row, and a fault beside a swap would make it another fault.
    free = chance.sample(range(4, len(sent) - 4, 4), 6 * each)
    missing, doubled, altered, near = (set(free[index * each : (index + 1) * each]) for index in range(4))
    far = free[4 * each :]
    rows: list[Row] = []
    result = Planted(rows)
    arriving = [dict(row) for row in sent]
    for index in altered:
        row = arriving[index]
        name = chance.choice(COMPARED)
        result.altered[row["id"]] = name
        row[name] = _other(row[name], name)
    swaps = [(index, index + 1) for index in sorted(near)[: each // 2]]
    swaps += list(zip(far[: each // 2], far[each // 2 : each // 2 * 2], strict=True))
    late = {index for index, _ in swaps} | {other for index, other in swaps if other != index + 1}
    for index, other in swaps:
        arriving[index], arriving[other] = arriving[other], arriving[index]
    late_keys = {sent[index]["id"] for index in late}
    again: list[tuple[int, Row]] = []
    for index, row in enumerate(arriving):
        if index in missing:
            continue
        rows.append(row)
        if index in doubled:
            result.copies[row["id"]] = copies = chance.choice((2, 2, 3))
            again += [(index + chance.randrange(1, 500), dict(row)) for _ in range(copies - 1)]
    strangers = [{**chance.choice(sent), "id": len(sent) + 1000 + number} for number in range(each)]
    again += [(chance.randrange(len(rows)), row) for row in strangers]
    for at, row in sorted(again, key=lambda pair: -pair[0]):
        rows.insert(min(at, len(rows)), row)
    result.expected = {
        Verdict.MISSING: {sent[index]["id"] for index in missing},
        Verdict.DUPLICATED: {sent[index]["id"] for index in doubled},
        Verdict.ALTERED: set(result.altered),
        Verdict.UNEXPECTED: {row["id"] for row in strangers},
        Verdict.OUT_OF_ORDER: late_keys,
    }
    return result


def _other(value: Any, name: str) -> Any:
    if name == "amount":
        return value + Decimal("0.01")
    if name == "placed_on":
        return value + datetime.timedelta(days=1)
    if name == "paid":
        return {None: False, False: True, True: None}[value]
    # Null and empty are not the same, nor are a text and the same with a blank.
    return "" if value is None else f"{value} "


def received(rows: Iterable[Row]) -> list[Row]:
    """Rows of the server's table: numbered as they arrive, with gaps, 5 to 50 ms after they were sent."""
    chance = random.Random(7)
    found, arrival = [], 0
    for row in rows:
        arrival += chance.choice((1, 1, 1, 5))
        at = row["sent_at"] + datetime.timedelta(milliseconds=chance.randrange(5, 50))
        found.append({**{name: row[name] for name in ("id", *COMPARED)}, "arrival": arrival, "received_at": at})
    return found


@contextlib.contextmanager
def changed(url: str) -> Iterator[sa.Connection]:
    """One transaction that commits; no session is left."""
    engine = sa.create_engine(url)
    try:
        with engine.begin() as connection:
            yield connection
    finally:
        engine.dispose()


def fill(url: str, table: sa.Table, rows: Sequence[Row]) -> None:
    """Make a table and put rows into it."""
    with changed(url) as connection:
        table.create(connection)
        if rows:
            connection.execute(sa.insert(table), rows)


def config(client: str, server: str, **more: Any) -> Config:
    """The shop's two tables, compared as a whole and in order."""
    values: dict[str, Any] = {
        "client": Table(url=client, name="orders", order="id", time="sent_at"),
        "server": Table(url=server, name="received_orders", order="arrival", time="received_at"),
        "key": (Column(client="id", server="id"),),
        "compare": tuple(Column(client=name, server=name) for name in COMPARED),
    }
    return Config(**{**values, **more})


def keys(result: Result, verdict: Verdict) -> set[str]:
    """The keys that are listed under a verdict, each once."""
    listed = result.listed.get(verdict, [])
    found = {each.key for each in listed}
    assert len(found) == len(listed) == result.counts[verdict]
    return found


def only(result: Result, verdict: Verdict) -> Difference:
    """The one difference there is."""
    assert +result.counts == {verdict: 1}
    (found,) = result.listed[verdict]
    return found
