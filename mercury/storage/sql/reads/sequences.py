"""Pages of sequences, and one sequence with its claim."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from sqlalchemy import ColumnElement, Subquery, and_, case, func, literal, or_, select

from mercury.statemachine.deliverable import Release
from mercury.statemachine.tables import RmdState, RmsState
from mercury.storage.claims import SUSPENDED
from mercury.storage.names import DESTINATION_CLAIM, SOURCE_CLAIM, destination_claim, source_claim
from mercury.storage.records import InboundKind, RmdRecord
from mercury.storage.searching import (
    MOST_ROWS,
    Count,
    DestinationSeen,
    Holder,
    Page,
    SequenceFilter,
    SourceSeen,
    position_of,
)
from mercury.storage.sql.codec import rmd_record, rms_record
from mercury.storage.sql.overview import NUMBERED, WAITING, select_any
from mercury.storage.sql.prepared import Row
from mercury.storage.sql.schema import (
    CLAIM,
    INVOKER_BUFFER,
    INVOKER_MESSAGE,
    PAUSED_SERVICE,
    RMD_SEQUENCE,
    RMS_KEY,
    RMS_MESSAGE,
    RMS_SEQUENCE,
)

if TYPE_CHECKING:
    from mercury.storage.sql.transaction import SqlTransaction

ROW, SOURCE, MESSAGE, BUFFER, DESTINATION = RMS_MESSAGE, RMS_SEQUENCE, INVOKER_MESSAGE, INVOKER_BUFFER, RMD_SEQUENCE
#: The most waiting messages of one sequence that a list counts.
MOST_OF_SEQUENCE = 1000
IS_SUSPENSION = CLAIM.c.owner.startswith(SUSPENDED, autoescape=True)


def source_page(
    tx: SqlTransaction, which: SequenceFilter, after: str | None, limit: int, most: int = MOST_OF_SEQUENCE
) -> Page[SourceSeen]:
    """Source sequences, in the order in which they were made.

    :param most: the most messages of one sequence that are counted.
    :raises UnknownPlace: ``after`` is not from a page.
    """
    read = (
        select(SOURCE).where(SOURCE.c.position > position_of(after or "0")).order_by(SOURCE.c.position).limit(MOST_ROWS)
    )
    window = read.subquery("read_rows")
    query = select(window).where(*_source_conditions(which, window)).order_by(window.c.position).limit(limit + 1)
    rows = tx.read(query)
    following = _following(tx, rows, limit, window, "position")
    return Page(tuple(_sources(tx, rows[:limit], most)), following)


def destination_page(tx: SqlTransaction, which: SequenceFilter, after: str | None, limit: int) -> Page[DestinationSeen]:
    """Destination sequences, in the order of their identifiers."""
    by = DESTINATION.c.identifier
    window = select(DESTINATION).where(by > (after or "")).order_by(by).limit(MOST_ROWS).subquery("read_rows")
    query = (
        select(window)
        .join_from(window, BUFFER, BUFFER.c.sequence == window.c.identifier, isouter=True)
        .where(*_destination_conditions(which, window))
        .order_by(window.c.identifier)
        .limit(limit + 1)
    )
    rows = tx.read(query)
    following = _following(tx, rows, limit, window, "identifier")
    return Page(tuple(_destinations(tx, [rmd_record(row) for row in rows[:limit]])), following)


def source(tx: SqlTransaction, name: str, most: int = MOST_ROWS) -> SourceSeen | None:
    """The source sequence with this identifier, or, before it has one, with this internal id."""
    rows = tx.read(select(SOURCE).where(or_(SOURCE.c.identifier == name, SOURCE.c.id == name)))
    return _sources(tx, rows[:1], most)[0] if rows else None


def sources_of(tx: SqlTransaction, digest: str, limit: int) -> list[SourceSeen]:
    """The newest sequences of a key, the newest first."""
    query = select(SOURCE).where(SOURCE.c.key_id == digest).order_by(SOURCE.c.position.desc()).limit(limit)
    return _sources(tx, tx.read(query), MOST_ROWS)


def source_that_offered(tx: SqlTransaction, identifier: str) -> SourceSeen | None:
    """The source sequence whose CreateSequence offered this identifier."""
    rows = tx.read(select(SOURCE).where(SOURCE.c.offered == identifier).order_by(SOURCE.c.position.desc()).limit(1))
    return _sources(tx, rows, MOST_ROWS)[0] if rows else None


def destination(tx: SqlTransaction, identifier: str) -> DestinationSeen | None:
    """The destination sequence with this identifier."""
    record = tx.rmd.read(identifier)
    return _destinations(tx, [record])[0] if record is not None else None


def is_name(tx: SqlTransaction, name: str) -> bool:
    """Whether a text is the whole identifier of a sequence, or the internal id of a source without one."""
    unnamed = and_(SOURCE.c.identifier.is_(None), SOURCE.c.id == name)
    sent = select(SOURCE.c.position).where(or_(SOURCE.c.identifier == name, unnamed)).limit(1)
    received = select(DESTINATION.c.identifier).where(DESTINATION.c.identifier == name)
    return any(tx.read(query) for query in (sent, received))


def identifiers_with(tx: SqlTransaction, part: str, limit: int) -> list[str]:
    """Identifiers of sequences, and internal ids of sources without one, that contain a text."""
    name = func.coalesce(SOURCE.c.identifier, SOURCE.c.id)
    found = select(name.label("name")).where(name.contains(part, autoescape=True)).limit(limit)
    received = select(DESTINATION.c.identifier.label("name"))
    received = received.where(DESTINATION.c.identifier.contains(part, autoescape=True)).limit(limit)
    return [row["name"] for query in (found, received) for row in tx.read(query)]


def sources_named(tx: SqlTransaction, names: Sequence[str], most: int = MOST_OF_SEQUENCE) -> list[SourceSeen]:
    """The source sequences with these identifiers or internal ids, in the order in which they were made."""
    query = select(SOURCE).where(or_(SOURCE.c.identifier.in_(names), SOURCE.c.id.in_(names)))
    return _sources(tx, tx.read(query.order_by(SOURCE.c.position)), most)


def destinations_named(tx: SqlTransaction, names: Sequence[str]) -> list[DestinationSeen]:
    """The destination sequences with these identifiers, in the order of them."""
    query = select(DESTINATION).where(DESTINATION.c.identifier.in_(names)).order_by(DESTINATION.c.identifier)
    return _destinations(tx, [rmd_record(row) for row in tx.read(query)])


def holders(tx: SqlTransaction, resources: Sequence[str]) -> dict[str, Holder]:
    """The claims on these resources."""
    rows = tx.read(select(CLAIM).where(CLAIM.c.resource.in_(resources))) if resources else []
    return {row["resource"]: Holder(row["owner"], row["epoch"], row["until"]) for row in rows}


def suspended(tx: SqlTransaction, after: str | None, limit: int) -> Page[tuple[str, Holder]]:
    """The suspended resources (``rms <digest>``, ``invoker <sequence>``) with their claims."""
    query = select(CLAIM).where(IS_SUSPENSION, CLAIM.c.resource > (after or ""))
    rows = tx.read(query.order_by(CLAIM.c.resource).limit(limit + 1))
    found = tuple((row["resource"], Holder(row["owner"], row["epoch"], row["until"])) for row in rows[:limit])
    return Page(found, found[-1][0] if len(rows) > limit else None)


# --- sources ---------------------------------------------------------------------------------------------------------


def _source_conditions(which: SequenceFilter, rows: Subquery) -> list[ColumnElement[bool]]:
    row = rows.c
    found: list[ColumnElement[bool]] = []
    if which.states:
        states = [state.value for state in RmsState if state.name in which.states and state is not RmsState.FAILED]
        failed = row.failure.is_not(None) if RmsState.FAILED.name in which.states else row.failure.is_(None) & False
        found.append(or_(and_(row.state.in_(states), row.failure.is_(None)), failed))
    if which.endpoint is not None or which.key_prefix is not None:
        keys = select(RMS_KEY.c.key_id)
        keys = keys.where(RMS_KEY.c.endpoint == which.endpoint) if which.endpoint is not None else keys
        if which.key_prefix is not None:
            keys = keys.where(RMS_KEY.c.name.startswith(which.key_prefix, autoescape=True))
        found.append(row.key_id.in_(keys))
    if which.active:
        found.append(row.ended_at.is_(None))
    if which.stuck:
        found.append(
            and_(row.ended_at.is_(None), or_(row.last_error.is_not(None), _held(literal(SOURCE_CLAIM) + row.key_id)))
        )
    return found


def _held(resource: ColumnElement[str]) -> ColumnElement[bool]:
    return select(CLAIM.c.resource).where(CLAIM.c.resource == resource, IS_SUSPENSION).exists()


def _sources(tx: SqlTransaction, rows: Sequence[Row], most: int) -> list[SourceSeen]:
    records = [rms_record(row) for row in rows]
    alive = {row["key_id"] for row in rows if row["ended_at"] is None}
    sent = _counts(tx, [row["id"] for row in rows], most, numbered=True)
    new = _counts(tx, sorted(alive), most, numbered=False)
    newest = {row["key_id"]: row["id"] for row in sorted(rows, key=lambda row: int(row["position"]))}
    claims = holders(tx, [source_claim(row["key_id"]) for row in rows])
    found, none = [], Count(0)
    for row, record in zip(rows, records, strict=True):
        is_newest = newest[row["key_id"]] == row["id"] and row["ended_at"] is None
        unsent = new.get(row["key_id"], none) if is_newest else none
        numbered = sent.get(row["id"], none)
        waiting = numbered.value + unsent.value
        found.append(
            SourceSeen(
                record=record,
                waiting=Count(min(waiting, most), waiting > most or numbered.more or unsent.more),
                unsent=unsent,
                holder=claims.get(source_claim(row["key_id"])),
            )
        )
    return found


def _counts(tx: SqlTransaction, names: Sequence[str], most: int, *, numbered: bool) -> dict[str, Count]:
    """How many messages wait in each of these sequences, or without a number under each of these keys: those that are
    not acknowledged or not answered. They are counted among the first rows, of which there are at most ``most``."""
    if not names:
        return {}
    if numbered:
        table, name = SOURCE, SOURCE.c.id
        mine = and_(ROW.c.sequence_id == SOURCE.c.id, NUMBERED, WAITING)
    else:
        table, name = RMS_KEY, RMS_KEY.c.key_id
        mine = and_(ROW.c.key_id == RMS_KEY.c.key_id, ~NUMBERED, WAITING)
    columns = (ROW.c.acknowledged, ROW.c.expects_response, ROW.c.answered)
    some = select(*columns).where(mine).limit(most + 1).correlate(table).subquery()
    undone = or_(~some.c.acknowledged, and_(some.c.expects_response, ~some.c.answered))
    # One number for both, so that the rows are read once: twice the messages, and one more if there are more rows.
    sums = func.coalesce(func.sum(case((undone, 2), else_=0)), 0) + case((func.count() > most, 1), else_=0)
    both = select(sums).select_from(some).scalar_subquery()
    found = {}
    for row in tx.read(select(name.label("name"), both.label("both")).where(name.in_(names))):
        many, more = divmod(int(row["both"]), 2)
        found[row["name"]] = Count(min(many, most), bool(more))
    return found


# --- destinations ----------------------------------------------------------------------------------------------------


def _destination_conditions(which: SequenceFilter, rows: Subquery) -> list[ColumnElement[bool]]:
    row = rows.c
    found: list[ColumnElement[bool]] = []
    if which.states:
        found.append(row.state.in_([state.value for state in RmdState if state.name in which.states]))
    if which.endpoint is not None:
        found.append(func.coalesce(row.service, "") == which.endpoint)
    if which.key_prefix is not None:
        found.append(literal(1) == 0)
    mine = and_(MESSAGE.c.sequence == row.identifier, MESSAGE.c.kind == InboundKind.MESSAGE.value)
    waits = select(MESSAGE.c.position).where(mine).exists()
    if which.active:
        found.append(or_(row.ended_at.is_(None), waits))
    if which.stuck:
        the_next = select(MESSAGE.c.position).where(mine, MESSAGE.c.number == BUFFER.c.next).exists()
        gap = and_(BUFFER.c.releases == Release.NEXT.value, waits, ~the_next)
        paused = select(PAUSED_SERVICE.c.service).where(PAUSED_SERVICE.c.service == BUFFER.c.service).exists()
        held = _held(literal(DESTINATION_CLAIM) + row.identifier)
        found.append(or_(BUFFER.c.attempts > 0, gap, held, and_(paused, waits)))
    return found


def _destinations(tx: SqlTransaction, records: Sequence[RmdRecord]) -> list[DestinationSeen]:
    names = [record.identifier for record in records]
    buffers = tx.invoker.read_many(names) if names else {}
    before = tx.invoker.read_many({each.follows for each in buffers.values() if each.follows is not None})
    unfinished = {name for name, each in before.items() if not each.machine.finished}
    claims = holders(tx, [destination_claim(name) for name in names])
    paused = _paused(tx, {record.service for record in records if record.service is not None})
    found = []
    for record in records:
        buffer = buffers.get(record.identifier)
        found.append(
            DestinationSeen(
                record=record,
                buffer=buffer,
                waiting=buffer.machine.waiting(record.machine.received) if buffer is not None else 0,
                holder=claims.get(destination_claim(record.identifier)),
                paused_by=paused.get(record.service or ""),
                predecessor_waits=buffer is not None and buffer.follows in unfinished,
            )
        )
    return found


def _paused(tx: SqlTransaction, services: Iterable[str]) -> dict[str, str]:
    rows = tx.read(select(PAUSED_SERVICE).where(PAUSED_SERVICE.c.service.in_(sorted(services))))
    return {row["service"]: row["paused_by"] for row in rows}


def _following(tx: SqlTransaction, rows: Sequence[Row], limit: int, window: Subquery, by: str) -> str | None:
    """The argument for the page after these rows; ``None`` = the list ends with them."""
    if len(rows) > limit:
        return str(rows[limit - 1][by])
    (read,) = tx.read(select_any(func.max(window.c[by]).label("last"), func.count().label("many")).select_from(window))
    return str(read["last"]) if read["many"] == MOST_ROWS else None
