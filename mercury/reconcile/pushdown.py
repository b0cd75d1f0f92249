"""Checksums that PostgreSQL computes.

Each column is cast to one type for its kind and hashed, with the hash of the column before it as the seed. That takes
half the time of PostgreSQL's hash of a record, which is used only for the kinds that have no function to call. The
hash of a record is hashed again, because it is linear in the hashes of its columns: sums of linear hashes are equal
when two rows have swapped a value.

A hash must depend on the whole value. PostgreSQL's hashes of numbers and times are made for hash tables, which compare
the values too: that of a numeric ignores the sign and is the same for NaN and the infinities, and those of a bigint and
of a time fold 64 bits into 32. Therefore a numeric and a time are hashed as texts, and a bigint is also in the seed.

Two servers compute the same hashes if they answer the same to `PROBE`. If they do not, or if a cast could fail for a
value of the table, the tasks compute the checksums.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import TIMESTAMP

from mercury.reconcile.kinds import Field, Kind
from mercury.reconcile.plan import Ranges, Side
from mercury.reconcile.source import Native, Source

#: PostgreSQL 14 introduced hash_record_extended.
MIN_VERSION = 140000
SEED = 7

#: The most columns in one chain of hashes: each makes the expression one level deeper.
CHAIN = 32

PROBE = (
    "select hashint8extended(1, hash_record_extended(row(true, date '2026-01-02', 0.1::float8, '\\x00ff'::bytea, "
    'null::text), 7) # hashtextextended(\'{"b": 1, "a": [1.0]}\'::jsonb::text collate "C", uuid_hash_extended('
    "'00000000-0000-0000-0000-000000000001'::uuid, hashtextextended("
    "extract(epoch from timestamptz '2026-01-02 03:04:05.678+00')::text collate \"C\", "
    'hashtextextended(trim_scale(-1.50)::text collate "C", hashtextextended(\'aé漢\' collate "C", '
    "hashint8extended(4294967297, 7)))))))"
)

#: A hash of a value that is not null, and of a seed.
Hash = Callable[[sa.ColumnElement[Any], sa.ColumnElement[int]], sa.ColumnElement[int]]


def _integer(found: sa.ColumnElement[Any], seed: sa.ColumnElement[int]) -> sa.ColumnElement[int]:
    """The hash of a bigint: the function folds it into 32 bits, the seed has all 64."""
    return sa.func.hashint8extended(found, seed.op("#")(found))


def _text(found: sa.ColumnElement[Any], seed: sa.ColumnElement[int]) -> sa.ColumnElement[int]:
    # Under another collation, texts that are equal there may have one hash although they differ.
    return sa.func.hashtextextended(sa.collate(sa.cast(found, sa.Text), "C"), seed)


def _uuid(found: sa.ColumnElement[Any], seed: sa.ColumnElement[int]) -> sa.ColumnElement[int]:
    return sa.func.uuid_hash_extended(found, seed)


@dataclass(frozen=True, slots=True)
class _Quick:
    """A kind whose hash function can be called."""

    hashed: Hash
    #: The value that is hashed instead of a null.
    of_null: str
    prepared: Callable[[sa.ColumnElement[Any]], sa.ColumnElement[Any]] = lambda found: found


_QUICK: Mapping[Kind, _Quick] = MappingProxyType(
    {
        Kind.INTEGER: _Quick(_integer, "0"),
        Kind.DECIMAL: _Quick(_text, "0", lambda found: sa.func.trim_scale(found)),
        Kind.TEXT: _Quick(_text, "''"),
        # Exact until the year 294246, thirty years before the last that PostgreSQL has.
        Kind.TIMESTAMP: _Quick(_text, "0", lambda found: sa.extract("epoch", found)),
        Kind.UUID: _Quick(_uuid, "'00000000-0000-0000-0000-000000000000'"),
        # The hash of a jsonb does not tell an empty object from an empty list.
        Kind.JSON: _Quick(_text, "''", lambda found: sa.cast(found, sa.Text)),
    }
)

#: For each kind, the native kinds whose cast to it never fails.
_SAFE: tuple[tuple[Kind, tuple[Kind, ...]], ...] = (
    (Kind.INTEGER, (Kind.INTEGER,)),
    (Kind.DECIMAL, (Kind.DECIMAL, Kind.INTEGER, Kind.FLOAT)),
    (Kind.FLOAT, (Kind.FLOAT,)),
    (Kind.TEXT, (Kind.TEXT,)),
    (Kind.BOOLEAN, (Kind.BOOLEAN,)),
    (Kind.DATE, (Kind.DATE,)),
    (Kind.TIMESTAMP, (Kind.TIMESTAMP,)),
    (Kind.UUID, (Kind.UUID,)),
    (Kind.BYTES, (Kind.BYTES,)),
    (Kind.JSON, (Kind.JSON,)),
)


def obstacle(client: Source, server: Source, fields: list[tuple[Field, Native, Field, Native]]) -> str:
    """Why the databases cannot compute comparable checksums; empty = they can."""
    for source in (client, server):
        if not source.is_postgres:
            return f"{source.dialect} has no hash that another database has too"
        version: int = source.connection.execute(
            sa.text("select current_setting('server_version_num')::int")
        ).scalar_one()
        if version < MIN_VERSION:
            return "PostgreSQL before 14 has no hash of a row"
        encoding = source.connection.execute(sa.text("select current_setting('server_encoding')")).scalar_one()
        if encoding != "UTF8":
            return f"a database is encoded in {encoding}"
    probes = {source.connection.execute(sa.text(PROBE)).scalar_one() for source in (client, server)}
    if len(probes) > 1:
        return "the two servers hash differently"
    for ours, native, theirs, other in fields:
        for field, own in ((ours, native), (theirs, other)):
            if own.kind not in dict(_SAFE)[field.kind]:
                return f"{field.name} is {own.text}, compared as {field.kind.value}"
            if field.kind is Kind.JSON and own.text != "JSONB":
                # It may hold what no jsonb does: \u0000, a lone surrogate, a number with too many digits.
                return f"{field.name} is {own.text}, which has no hash"
            if own.text.startswith("CHAR(") and not field.trim:
                return f"{field.name} is padded: {own.text}"
        if ours.kind is Kind.FLOAT and native.text != other.text:
            return f"{ours.name}: {native.text} and {other.text} round differently"
    return ""


def value(field: Field, native: Native) -> sa.ColumnElement[Any]:
    """A column, cast to the type by which its kind is hashed."""
    column: sa.ColumnElement[Any] = sa.column(field.name)
    match field.kind:
        case Kind.INTEGER:
            return sa.cast(column, sa.BigInteger)
        case Kind.DECIMAL:
            number = _numeric(column, native)
            return number if field.scale is None else sa.func.round(number, field.scale)
        case Kind.FLOAT:
            return column if field.scale is None else sa.func.round(_numeric(column, native), field.scale)
        case Kind.TEXT:
            text = sa.cast(column, sa.Text)
            return sa.func.rtrim(text) if field.trim else text
        case Kind.TIMESTAMP:
            moment = column if native.zoned else sa.func.timezone(sa.literal(field.zone, sa.Text), column)
            digits = field.scale if field.scale is not None and field.scale < 6 else None
            return sa.cast(moment, TIMESTAMP(timezone=True, precision=digits))
        case Kind.BOOLEAN | Kind.DATE | Kind.UUID | Kind.BYTES | Kind.JSON:
            return column


def _numeric(column: sa.ColumnElement[Any], native: Native) -> sa.ColumnElement[Any]:
    """A column as numeric; a float by its shortest text, because the direct cast keeps only fifteen digits."""
    return sa.cast(sa.cast(column, sa.Text) if native.kind is Kind.FLOAT else column, sa.Numeric)


def row_hash(side: Side, fields: tuple[Field, ...]) -> sa.ColumnElement[int]:
    """A signed 64-bit hash of these columns of a row."""
    values = [(field, value(field, side.native(field.name))) for field in fields]
    # With one seed, two chains with the same values would cancel each other.
    chains = [_chain(values[start : start + CHAIN], SEED + start) for start in range(0, len(fields), CHAIN)]
    return chains[0] if len(chains) == 1 else _together(chains)


def _chain(values: list[tuple[Field, sa.ColumnElement[Any]]], seed: int) -> sa.ColumnElement[int]:
    """A hash of some columns: the hash of one is the seed of the next.

    A null is hashed as its kind's substitute, and the start of the chain has a bit for each null. Kinds without a
    function are hashed as a record, whose hash is then taken together with that of the others.
    """
    quick = [(hashing, found) for field, found in values if (hashing := _quick(field)) is not None]
    slow = [found for field, found in values if _quick(field) is None]
    nulls: sa.ColumnElement[int] = sa.literal_column("0::bigint")
    for bit, (_, found) in enumerate(quick):
        nulls = nulls + sa.case((found.is_(None), sa.literal_column(str(1 << bit))), else_=sa.literal_column("0"))
    total: sa.ColumnElement[int] = sa.func.hashint8extended(nulls, seed)
    for hashing, found in quick:
        total = hashing.hashed(sa.func.coalesce(hashing.prepared(found), sa.literal_column(hashing.of_null)), total)
    # As the record's seed the hash of the others would not count if all these values were null: the hash of a record
    # ignores its seed for them. As one of its values it would be folded into 32 bits.
    return _together([sa.func.hash_record_extended(sa.func.row(*slow), SEED), total]) if slow else total


def _quick(field: Field) -> _Quick | None:
    """How a column is hashed by a function; ``None`` = there is none. A float that was rounded is a decimal."""
    return _QUICK.get(Kind.DECIMAL if field.kind is Kind.FLOAT and field.scale is not None else field.kind)


def _together(hashes: list[sa.ColumnElement[int]]) -> sa.ColumnElement[int]:
    """One hash of several that do not depend on each other."""
    total = hashes[0]
    for each in hashes[1:]:
        total = total.op("#")(each)
    return sa.func.hashint8extended(sa.literal_column("1::bigint"), total)


def range_of(side: Side, ranges: Ranges) -> sa.ColumnElement[int]:
    """The expression for the number of a row's key range; see `Ranges`."""
    if ranges.low is not None:
        key = sa.cast(sa.column(side.key[0].name), sa.BigInteger)
        return sa.case(
            (key < ranges.low, -1), (key >= ranges.end, ranges.count), else_=(key - ranges.low) // ranges.width
        )
    return sa.func.mod(row_hash(side, side.key).op("&")(sa.literal(2**63 - 1, sa.BigInteger)), ranges.count)
