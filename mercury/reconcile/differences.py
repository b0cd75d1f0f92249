"""Turns verdicts into differences: finds missing rows, drops rows newer than the snapshot, writes the files."""

from __future__ import annotations

import contextlib
import csv
import datetime
import itertools
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import sqlalchemy as sa

from mercury.reconcile.kinds import Field, Kind, canonical
from mercury.reconcile.order import Run
from mercury.reconcile.places import Found, Places, Where
from mercury.reconcile.plan import Plan, Side, key_text
from mercury.reconcile.result import Difference, Result
from mercury.reconcile.source import Native, connected, stream, translating
from mercury.reconcile.verdicts import Judged, Key, Verdict

#: Keys that are looked up in the stores with one query.
BATCH = 500
#: The most rows of displaced runs that are kept in memory to find their positions.
MAX_BUFFERED = 100_000


def find_differences(
    judged: Iterable[Judged],
    *,
    plan: Plan,
    places: Places,
    runs: Sequence[Run],
    current_keys: Callable[[Sequence[Key]], Collection[Key]],
) -> Iterator[Difference | None]:
    """The differences; ``None`` for a key that was added to the client's table after its snapshot.

    :param current_keys: returns those of the given keys that the client's table has at present.
    :raises StorageError: a database fails.
    """
    judged = iter(judged)
    buffered = _BufferedRuns(runs)
    while batch := list(itertools.islice(judged, BATCH)):
        unexpected = [each.key for each in batch if each.verdict is Verdict.UNEXPECTED]
        newer = current_keys(unexpected) if unexpected else ()
        correlations = [
            each.correlation for each in batch if each.verdict is Verdict.MISSING and each.correlation is not None
        ]
        found = places.of(correlations) if correlations else {}
        for each in batch:
            if each.verdict is Verdict.UNEXPECTED and each.key in newer:
                yield None
                continue
            if not buffered.take(each):
                place = _place(each, found, plan) if each.verdict is Verdict.MISSING else None
                yield _difference(each, place, plan, buffered.place(each, 0))
    for each, offset in buffered.released():
        yield _difference(each, None, plan, buffered.place(each, offset))


class _BufferedRuns:
    """Keeps the rows of displaced runs with several rows: their positions are known when all have been read."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self._runs = runs
        self._rows: dict[int, list[Judged]] = defaultdict(list)
        self._few = sum(run.length for run in runs if run.length > 1) <= MAX_BUFFERED

    def take(self, judged: Judged) -> bool:
        """Keep a row if it belongs to such a run. Returns whether it was kept."""
        long = judged.run is not None and self._runs[judged.run].length > 1
        if not (long and self._few and judged.server_count):
            return False
        self._rows[judged.run or 0].append(judged)
        return True

    def released(self) -> Iterator[tuple[Judged, int]]:
        """The rows that were kept, with their index in their run."""
        for rows in self._rows.values():
            ordered = sorted(rows, key=lambda each: (each.order or Decimal(0), str(each.key)))
            yield from ((each, offset) for offset, each in enumerate(ordered))

    def place(self, judged: Judged, offset: int) -> tuple[int, int] | None:
        """A row's positions in the order of sending and of arrival; ``None`` = they were not determined."""
        if judged.verdict is not Verdict.OUT_OF_ORDER or judged.run is None:
            return None
        run = self._runs[judged.run]
        return (run.sent + offset, run.arrived + offset) if self._few or run.length == 1 else None


def _place(judged: Judged, found: Any, plan: Plan) -> Found:
    place: Found | None
    if judged.correlation is None:
        place = Found(Where.UNKNOWN, "the rows' correlation is not known")
    else:
        place = found.get(judged.correlation)
    nowhere = place is None or place.where in (Where.LOST, Where.UNKNOWN)
    if nowhere and plan.client.handed_over is not None and not judged.handed_over:
        return Found(Where.NOT_HANDED_OVER)
    return place or Found(Where.LOST)


def _difference(judged: Judged, place: Found | None, plan: Plan, position: tuple[int, int] | None) -> Difference:
    names = [field.name for field in plan.client.compare]

    def named(values: tuple[str | None, ...] | None) -> dict[str, str | None] | None:
        return None if values is None else dict(zip(names, values, strict=True))

    return Difference(
        key=key_text(judged.key),
        verdict=judged.verdict,
        client_count=judged.client_count,
        server_count=judged.server_count,
        altered=tuple(names[index] for index in judged.altered),
        client=named(judged.client),
        server=named(judged.server),
        where=None if place is None else place.where,
        reason="" if place is None else place.reason,
        correlation=judged.correlation,
        expected_position=None if position is None else position[0],
        position=None if position is None else position[1],
    )


def current_client_keys(plan: Plan) -> Callable[[Sequence[Key]], Collection[Key]]:
    """A query: which of the given keys the client's table has at present.

    It is called for keys that only the server has. The server was read after the client, so a row that was committed
    and delivered in between looks unexpected.
    """
    side = plan.client
    columns: list[sa.ColumnElement[Any]] = [sa.column(field.name) for field in side.key]

    def query(keys: Sequence[Key]) -> Collection[Key]:
        narrowed = _among(side, keys)
        if narrowed is None:
            return ()
        statement = sa.select(*columns).select_from(side.place.from_clause()).where(*side.place.conditions(), narrowed)
        wanted = set(keys)
        with connected(side.place.url) as connection, translating(side.place.table):
            # The condition may be true for many rows with other keys.
            rows = itertools.chain.from_iterable(stream(connection, statement))
            found = (tuple(canonical(value, field) for value, field in zip(row, side.key, strict=True)) for row in rows)
            return wanted.intersection(found)

    return query


def _among(side: Side, keys: Sequence[Key]) -> sa.ColumnElement[bool] | None:
    """A condition that rows with one of these keys fulfil, and few others: on the first column that has one.

    ``None`` = no column has one.
    """
    for index, field in enumerate(side.key):
        texts = sorted({text for key in keys if (text := key[index]) is not None})
        narrowed = _of_column(field, side.native(field.name), texts)
        if narrowed is not None:
            conditions = [narrowed] if texts else []
            if any(key[index] is None for key in keys):
                conditions.append(sa.column(field.name).is_(None))
            return sa.or_(*conditions)
    return None


def _of_column(field: Field, native: Native, texts: Sequence[str]) -> sa.ColumnElement[bool] | None:
    """The condition that a column has one of these canonical texts; ``None`` = SQL has no such condition for its
    kind."""
    column: sa.ColumnElement[Any] = sa.column(field.name)
    match field.kind, native.kind:
        case Kind.INTEGER | Kind.DECIMAL, Kind.INTEGER | Kind.DECIMAL:
            return _of_numbers(field, native, texts)
        case Kind.DATE, Kind.DATE:
            return sa.column(field.name, sa.Date).in_(list(_parsed(texts, datetime.date.fromisoformat)))
        case Kind.TIMESTAMP, Kind.TIMESTAMP:
            return _of_times(field, native, texts)
        case Kind.UUID, _:
            return sa.func.lower(sa.cast(column, sa.String(36))).in_(texts)
        case Kind.TEXT | Kind.INTEGER | Kind.DECIMAL | Kind.DATE, Kind.TEXT:
            # PostgreSQL compares no text with an integer. A number in another notation is not found.
            return (sa.func.rtrim(column) if field.trim else column).in_(texts)
        case Kind.TEXT, _:
            return sa.cast(column, sa.Text).in_(texts)
        case _:
            return None


def _of_numbers(field: Field, native: Native, texts: Sequence[str]) -> sa.ColumnElement[bool]:
    numbers = [each for each in _parsed(texts, Decimal) if each.is_finite()]
    if field.scale is not None and native.kind is Kind.DECIMAL:
        step = Decimal(1).scaleb(-field.scale)
        return _between(sa.column(field.name, sa.Numeric), [(each - step, each + step) for each in numbers])
    # As integers: compared with decimals, PostgreSQL finds no integer by an index, and SQLite's driver has only floats.
    whole = [each for each in numbers if abs(each) < 2**63 and each == int(each)]
    among = sa.column(field.name, sa.BigInteger).in_(list(map(int, whole)))
    if native.kind is Kind.INTEGER:
        return among
    return sa.or_(among, sa.column(field.name, sa.Numeric).in_([each for each in numbers if each not in whole]))


def _of_times(field: Field, native: Native, texts: Sequence[str]) -> sa.ColumnElement[bool]:
    zone = datetime.UTC if native.zoned else ZoneInfo(field.zone)
    step = datetime.timedelta(seconds=0 if field.scale is None else 10**-field.scale)

    def bounds(text: str) -> tuple[datetime.datetime, datetime.datetime]:
        moment = datetime.datetime.fromisoformat(text).astimezone(zone)
        moment = moment if native.zoned else moment.replace(tzinfo=None)
        return moment - step, moment + step

    return _between(sa.column(field.name, sa.DateTime(timezone=native.zoned)), list(_parsed(texts, bounds)))


def _between(column: sa.ColumnElement[Any], bounds: Sequence[tuple[Any, Any]]) -> sa.ColumnElement[bool]:
    if all(low == high for low, high in bounds):
        return column.in_([low for low, _ in bounds])
    return sa.or_(*(column.between(low, high) for low, high in bounds))


def _parsed(texts: Sequence[str], parse: Callable[[str], Any]) -> Iterator[Any]:
    """The values of these texts, without those that do not fit their kind."""
    for text in texts:
        with contextlib.suppress(ValueError, ArithmeticError):
            yield parse(text)


# --- the file --------------------------------------------------------------------------------------------------------


class Writer:
    """Writes differences to a Parquet and a CSV file as they are found, and counts them in a result."""

    def __init__(self, result: Result, listed: int, sink: Any, lines: Any = None) -> None:
        self._result, self._limit, self._sink, self._lines = result, listed, sink, lines
        self._waiting: list[Difference] = []

    def take(self, difference: Difference | None) -> None:
        result = self._result
        if difference is None:
            result.newer += 1
            return
        result.counts[difference.verdict] += 1
        if difference.where is not None:
            result.missing[difference.where] += 1
        shown = result.listed.setdefault(difference.verdict, [])
        if len(shown) < self._limit:
            shown.append(difference)
        if self._sink is not None:
            self._waiting.append(difference)
            if len(self._waiting) >= BATCH:
                self.flush()

    def flush(self) -> None:
        if self._sink is None:
            return
        import pyarrow as pa

        columns = self._result.columns
        rows = [_row(each, columns) for each in self._waiting]
        if self._lines is not None:
            self._lines.writerows(_line(each, columns) for each in self._waiting)
        self._sink.write_table(pa.Table.from_pylist(rows, schema=self._sink.schema))
        self._waiting.clear()


@contextlib.contextmanager
def writer(result: Result, listed: int, file: Path | None) -> Iterator[Writer]:
    """A writer; at the end of the block everything is written."""
    if file is None:
        yield Writer(result, listed, None)
        return
    import pyarrow.parquet as pq

    with (
        pq.ParquetWriter(file, _schema(result.columns), compression="zstd") as sink,
        file.with_suffix(".csv").open("w", encoding="utf-8", errors="backslashreplace", newline="") as text,
    ):
        lines = csv.writer(text)
        lines.writerow([*PLAIN, *(f"{side}.{name}" for side in ("client", "server") for name in result.columns)])
        taken = Writer(result, listed, sink, lines)
        yield taken
        taken.flush()


#: Columns of the CSV file before those of the client's and the server's values.
PLAIN = (
    *("key", "verdict", "place", "reason", "correlation", "client_count", "server_count"),
    *("altered", "expected_position", "position"),
)


def _line(each: Difference, columns: Sequence[str]) -> list[Any]:
    """A line of the CSV file; null is written as an empty field."""
    row = _row(each, columns)
    row["altered"] = " ".join(each.altered)
    values = [(side or {}).get(name) for side in (each.client, each.server) for name in columns]
    return [_harmless(value) for value in (*(row[name] for name in PLAIN), *values)]


#: The first characters of texts that a spreadsheet runs as a formula; and numbers, which begin with some of them too.
FORMULA = re.compile(r"[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]")
NUMBER = re.compile(r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?")


def _harmless(value: Any) -> Any:
    """A value that a spreadsheet does not run as a formula, because its text may come from a peer.

    The Parquet file has the value unchanged.
    """
    if isinstance(value, str) and FORMULA.match(value) and not NUMBER.fullmatch(value):
        return f"'{value}"
    return value


def _schema(columns: Sequence[str]) -> Any:
    import pyarrow as pa

    values = pa.struct([(name, pa.string()) for name in columns]) if columns else pa.null()
    return pa.schema(
        [
            ("key", pa.string()),
            ("verdict", pa.string()),
            ("place", pa.string()),
            ("reason", pa.string()),
            ("correlation", pa.string()),
            ("client_count", pa.int64()),
            ("server_count", pa.int64()),
            ("altered", pa.list_(pa.string())),
            ("expected_position", pa.int64()),
            ("position", pa.int64()),
            ("client", values),
            ("server", values),
        ]
    )


def _row(each: Difference, columns: Sequence[str]) -> dict[str, Any]:
    return {
        "key": each.key,
        "verdict": each.verdict.value,
        "place": None if each.where is None else each.where.value,
        "reason": each.reason or None,
        "correlation": each.correlation,
        "client_count": each.client_count,
        "server_count": each.server_count,
        "altered": list(each.altered),
        "expected_position": each.expected_position,
        "position": each.position,
        "client": each.client if columns else None,
        "server": each.server if columns else None,
    }
