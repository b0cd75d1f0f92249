"""Makes the `Plan` from the config and two open sources."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import sqlalchemy as sa

from mercury.errors import ConfigurationError
from mercury.reconcile import pushdown
from mercury.reconcile.config import Column, Config, Table
from mercury.reconcile.kinds import ORDERED, Field, Kind, canonical, common, microseconds
from mercury.reconcile.plan import (
    MAX_CHECKSUMS,
    MAX_RANGES,
    MAX_SLICES,
    RANGE_ROWS,
    SLICE_ROWS,
    SPARSE,
    Plan,
    Ranges,
    Side,
    Slice,
    is_integer_key,
)
from mercury.reconcile.source import Native, Source, translating

#: Bins of the plots over time.
BINS = 60


def make_plan(config: Config, client: Source, server: Source, processors: int) -> tuple[Plan, int, int]:
    """The plan, and the number of rows of each side.

    :raises ConfigurationError: a table or a column does not exist, or a column has an unsuitable type.
    :raises StorageError: a database fails.
    """
    pairs = (*config.key, *config.compare)
    ours = _natives(client, config.client, [pair.client for pair in pairs], _extra(config))
    theirs = _natives(server, config.server, [pair.server for pair in pairs], [])
    fields = [_fields(pair, ours[pair.client], theirs[pair.server]) for pair in pairs]
    split = len(config.key)
    extra = {name: _client_field(name, ours[name], fields, config) for name in _extra(config)}
    sides = [
        _side(source, table, natives, [pair[index] for pair in fields], split)
        for index, (source, table, natives) in enumerate(
            ((client, config.client, ours), (server, config.server, theirs))
        )
    ]
    sides[0] = replace(
        sides[0],
        within=tuple(extra[name] for name in config.within),
        handed_over=config.handed_over,
        correlation=config.correlation,
        correlation_fields=tuple(extra[name] for name in config.correlation_columns()),
    )
    surveys = [_survey(side, source) for side, source in zip(sides, (client, server), strict=True)]
    counts = [count for count, *_ in surveys]
    slices = [_slice_count(config, count, processors) for count in counts]
    reason = pushdown.obstacle(client, server, [(a, ours[a.name], b, theirs[b.name]) for a, b in fields])
    reason = reason or next((text for side in sides if (text := _time_obstacle(side))), "")
    ranges = _ranges(config, surveys, max(counts), max(slices), integers=all(map(is_integer_key, sides)))
    sides = [
        replace(side, slices=cut(source, side, number, survey))
        for side, source, number, survey in zip(sides, (client, server), slices, surveys, strict=True)
    ]
    plan = Plan(
        client=sides[0],
        server=sides[1],
        ranges=ranges,
        pushed_down=not reason,
        reason=reason,
        bin_width=_bin_width([second for survey in surveys for second in survey[2]]),
    )
    return plan, counts[0], counts[1]


def check(config: Config, client: Source, server: Source) -> None:
    """Check that the config's tables and columns exist, before Spark is started.

    :raises ConfigurationError: a table or a column does not exist.
    """
    pairs = (*config.key, *config.compare)
    _natives(client, config.client, [pair.client for pair in pairs], _extra(config))
    _natives(server, config.server, [pair.server for pair in pairs], [])


def _extra(config: Config) -> list[str]:
    """The client's columns that are read although they are neither key nor compared."""
    names = [*config.within, *config.correlation_columns()]
    return list(dict.fromkeys(names + ([config.handed_over] if config.handed_over else [])))


def _natives(source: Source, table: Table, names: Sequence[str], extra: Sequence[str]) -> dict[str, Native]:
    also = [name for name in (table.order, table.time) if name is not None]
    return source.natives(list(dict.fromkeys([*names, *extra, *also])))


def _fields(pair: Column, ours: Native, theirs: Native) -> tuple[Field, Field]:
    kind = pair.kind or common(ours.kind, theirs.kind)
    first = Field(name=pair.client, kind=kind, scale=pair.scale, zone=pair.client_zone, trim=pair.trim)
    return first, replace(first, name=pair.server, zone=pair.server_zone)


def _client_field(name: str, native: Native, fields: Sequence[tuple[Field, Field]], config: Config) -> Field:
    """The field of a client's column that the server may not have; if it is compared, the same field."""
    known = {ours.name: ours for ours, _ in fields}
    return known.get(name) or Field(name=name, kind=native.kind or Kind.TEXT, zone=config.client.time_zone)


def _side(source: Source, table: Table, natives: dict[str, Native], fields: Sequence[Field], split: int) -> Side:
    known = {field.name: field for field in fields}
    order = None
    if table.order is not None:
        order = known.get(table.order) or Field(
            name=table.order, kind=natives[table.order].kind or Kind.DECIMAL, zone=table.time_zone
        )
        if order.kind not in ORDERED:
            raise ConfigurationError(
                f"{table.name}.{table.order} is {order.kind.value}: an order column must be a number or a time"
            )
    time = None
    if table.time is not None:
        time = Field(name=table.time, kind=Kind.TIMESTAMP, zone=table.time_zone)
    return Side(
        place=source.place,
        key=tuple(fields[:split]),
        compare=tuple(fields[split:]),
        natives=tuple(natives.items()),
        slices=(),
        order=order,
        order_unique=order is not None and source.is_unique(order.name),
        time=time,
    )


def _time_obstacle(side: Side) -> str:
    """Why the database cannot count the rows over time; empty = it can."""
    if side.time is None or side.native(side.time.name).kind is Kind.TIMESTAMP:
        return ""
    return f"{side.time.name} is {side.native(side.time.name).text}, not a time"


#: The approximate number of rows, (least, greatest) integer key, (first, last) second; the pairs may be empty.
Survey = tuple[int, tuple[int, ...], tuple[int, ...]]


def _survey(side: Side, source: Source) -> Survey:
    expressions: list[sa.ColumnElement[Any]] = []
    for name in (side.key[0].name, side.time.name if side.time is not None else None):
        column = sa.column(name) if name is not None else sa.null()
        expressions += [sa.func.min(column), sa.func.max(column)] if name is not None else [sa.null(), sa.null()]
    if not is_integer_key(side):
        expressions[:2] = [sa.null(), sa.null()]
    count = source.estimated_rows()
    if count is None:
        count, low, high, first, last = source.one(sa.func.count(), *expressions)
    else:
        # Without the count, PostgreSQL finds the extremes in indexes.
        low, high, first, last = source.one(*expressions)
    texts = (canonical(low, side.key[0]), canonical(high, side.key[0]))
    keys = tuple(int(text) for text in texts if text is not None and text.lstrip("-").isdigit())
    seconds = []
    for moment in (first, last):
        if side.time is not None and moment is not None:
            try:
                seconds.append(microseconds(moment, side.time) // 1_000_000)
            except (ValueError, TypeError, ArithmeticError) as error:
                raise ConfigurationError(f"{side.place.table}.{side.time.name} holds no times: {moment!r}") from error
    return count, keys, tuple(seconds)


def _slice_count(config: Config, count: int, processors: int) -> int:
    if config.spark.slices is not None:
        return config.spark.slices
    wanted = max(processors if count > SLICE_ROWS // 10 else 1, -(-count // SLICE_ROWS))
    return min(MAX_SLICES, wanted)


def _ranges(config: Config, surveys: Sequence[Survey], count: int, slices: int, *, integers: bool) -> Ranges:
    number = config.spark.ranges or max(1, min(MAX_RANGES, count // RANGE_ROWS))
    spans = [(max(keys) - min(keys) + 1, min(keys)) for _, keys, _ in surveys if keys]
    if integers and spans:
        # The side with the narrower span: on the other one a single key may be far away from the rest.
        span, low = min(spans)
        if span < SPARSE * count and abs(low) < 2**62:
            return Ranges(number, low, -(-span // number))
    # Each slice can have rows of every range of hashes, so it may return a checksum for each.
    return Ranges(max(1, min(number, MAX_CHECKSUMS // slices)))


def _bin_width(seconds: Sequence[int]) -> int:
    return max(1, -(-(max(seconds) - min(seconds) + 1) // BINS)) if seconds else 1


def cut(source: Source, side: Side, number: int, survey: Survey) -> tuple[Slice, ...]:
    """A side's table in about ``number`` slices, each of which the database can read without reading the others.

    :raises StorageError: the database fails.
    """
    if number == 1:
        return (Slice(),)
    if blocks := source.blocks():
        edges = [blocks * index // number for index in range(number)]
        # The last slice has no end: the table may have grown since its size was read.
        return tuple(Slice("ctid", low, high) for low, high in zip(edges, [*edges[1:], 2**32 - 1], strict=True))
    if survey[1]:
        low, high = min(survey[1]), max(survey[1])
        edges = sorted({low + (high + 1 - low) * index // number for index in range(1, number)})
    else:
        edges = _quantiles(source, side, number, survey[0])
    lows, highs = [None, *edges], [*edges, None]
    return tuple(Slice("key", low, high, nulls=low is None) for low, high in zip(lows, highs, strict=True))


def _quantiles(source: Source, side: Side, number: int, count: int) -> list[Any]:
    """Values of the first key column that divide the table into parts, in the database's own sort order."""
    column: sa.ColumnElement[Any] = sa.column(side.key[0].name)
    found: list[Any] = []
    for index in range(1, number):
        query = (
            sa.select(column)
            .select_from(source.place.from_clause())
            .where(column.is_not(None), *source.place.conditions())
            .order_by(column)
            .offset(count * index // number)
            .limit(1)
        )
        with translating(source.place.table):
            value = source.connection.execute(query).scalar()
        if value is not None and value not in found:
            found.append(value)
    return found
