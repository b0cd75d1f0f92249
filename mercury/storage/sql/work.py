"""Which sequences have something to do: questions to the committed state, answered from indexes."""

from __future__ import annotations

from itertools import chain, islice, zip_longest

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Double,
    Select,
    Table,
    and_,
    case,
    cast,
    exists,
    func,
    literal,
    or_,
    select,
    true,
    union_all,
)

from mercury.statemachine.tables import InvokerState
from mercury.storage.api import Seeker
from mercury.storage.records import InboundKind, SequenceKey
from mercury.storage.sql.codec import ALL, ANY, NEXT
from mercury.storage.sql.schema import CLAIM, INVOKER_BUFFER, INVOKER_MESSAGE, RMD_SEQUENCE, RMS_MESSAGE, RMS_SEQUENCE
from mercury.storage.sql.values import read_channel

BUFFER, MESSAGE, ROW, SEQUENCE = INVOKER_BUFFER, INVOKER_MESSAGE, RMS_MESSAGE, RMS_SEQUENCE
IS_MESSAGE = MESSAGE.c.kind == InboundKind.MESSAGE.value
UNNUMBERED = ROW.c.number.is_(None)


def distinct(column: Column[str], where: ColumnElement[bool] | None = None) -> Select[tuple[str]]:
    """The values of an indexed column, each found by one step down the index, however many rows have it."""
    table = column.table
    assert isinstance(table, Table)
    given = [] if where is None else [where]
    first = select(func.min(column).label("value")).where(*given)
    steps = first.cte("steps", recursive=True)
    following = select(func.min(column)).where(column > steps.c.value, *given).scalar_subquery()
    steps = steps.union_all(select(following).where(steps.c.value.is_not(None)))
    return select(steps.c.value).where(steps.c.value.is_not(None))


# --- destination -----------------------------------------------------------------------------------------------------


def due_rmd(connection: Connection, now: float, limit: int) -> list[str]:
    due = RMD_SEQUENCE.c.due
    query = select(RMD_SEQUENCE.c.identifier).where(due <= now).order_by(due, RMD_SEQUENCE.c.identifier).limit(limit)
    return list(connection.execute(query).scalars())


def next_rmd(connection: Connection) -> float | None:
    earliest: float | None = connection.execute(select(func.min(RMD_SEQUENCE.c.due))).scalar_one()
    return earliest


# --- the buffer before the application -------------------------------------------------------------------------------


def _ready() -> ColumnElement[bool]:
    """A worker would find something to do in BUFFER: a marker, or a message that may be delivered."""
    mine = MESSAGE.c.sequence == BUFFER.c.sequence
    marker = exists().where(mine, MESSAGE.c.kind != InboundKind.MESSAGE.value)
    any_message = exists().where(mine, IS_MESSAGE)
    the_next = exists().where(mine, IS_MESSAGE, MESSAGE.c.number == BUFFER.c.next)
    count = select(func.count()).where(mine, IS_MESSAGE).scalar_subquery()
    said_last = select(func.max(MESSAGE.c.number)).where(mine, IS_MESSAGE, MESSAGE.c.last).scalar_subquery()
    all_here = and_(any_message, BUFFER.c.passed_count + count >= func.coalesce(BUFFER.c.last, said_last))
    return or_(
        marker,
        and_(BUFFER.c.releases == NEXT, the_next),
        and_(BUFFER.c.releases == ANY, any_message),
        and_(BUFFER.c.releases == ALL, all_here),
    )


def _waits() -> ColumnElement[bool]:
    """The sequence that BUFFER carries on still has something to deliver."""
    before = INVOKER_BUFFER.alias("before")
    left = exists().where(MESSAGE.c.sequence == before.c.sequence)
    unfinished = or_(before.c.state != InvokerState.DONE.value, left)
    return exists().where(before.c.sequence == BUFFER.c.follows, unfinished)


def _free(resource: ColumnElement[str], seeker: Seeker | None, now: float | None) -> ColumnElement[bool]:
    """Nobody but the seeker has the claim; without a time, nobody else had it last."""
    if seeker is None:
        return true()
    others = [CLAIM.c.resource == resource, CLAIM.c.owner != seeker.owner, CLAIM.c.owner != ""]
    return ~exists().where(*others, *([] if now is None else [CLAIM.c.until > now]))


def _hosted(seeker: Seeker | None) -> ColumnElement[bool]:
    if seeker is None or seeker.services is None:
        return true()
    return or_(BUFFER.c.service.is_(None), BUFFER.c.service.in_(sorted(seeker.services)))


def _workable(seeker: Seeker | None, now: float | None) -> Select[tuple[str, float | None]]:
    touched = distinct(MESSAGE.c.sequence).subquery()
    return (
        select(BUFFER.c.sequence, BUFFER.c.retry_at)
        .join_from(touched, BUFFER, BUFFER.c.sequence == touched.c.value)
        .where(_ready(), ~_waits(), _hosted(seeker), _free(literal("invoker ") + BUFFER.c.sequence, seeker, now))
    )


def due_invoker(connection: Connection, now: float, limit: int, seeker: Seeker | None) -> list[str]:
    query = (
        _workable(seeker, now)
        .where(or_(BUFFER.c.retry_at.is_(None), BUFFER.c.retry_at <= now))
        .order_by(BUFFER.c.turn, BUFFER.c.version)
    )
    return [row.sequence for row in connection.execute(query.limit(limit))]


def next_invoker(connection: Connection, seeker: Seeker | None) -> float | None:
    work = _workable(seeker, None).subquery()
    earliest: float | None = connection.execute(select(func.min(func.coalesce(work.c.retry_at, 0.0)))).scalar_one()
    return earliest


# --- source ----------------------------------------------------------------------------------------------------------


def _waiting(seeker: Seeker | None, now: float | None) -> Select[tuple[str]]:
    """Keys with rows to be numbered that no sequence holds."""
    waiting = distinct(ROW.c.key_id, UNNUMBERED).subquery()
    held = exists().where(SEQUENCE.c.key_id == waiting.c.value, SEQUENCE.c.holds)
    return select(waiting.c.value).where(~held, _free(literal("rms ") + waiting.c.value, seeker, now))


def due_rms(connection: Connection, now: float, limit: int, seeker: Seeker | None) -> list[SequenceKey]:
    """The keys that wait and those whose time has come, by turns: neither keeps the other from its turn."""
    keys = _waiting(seeker, now).subquery()
    first = ROW.alias("first")
    position = select(func.min(first.c.position)).where(first.c.key_id == keys.c.value, first.c.number.is_(None))
    waits = (
        select(literal(0).label("part"), ROW.c.channel, ROW.c.position.label("turn"))
        .join_from(keys, ROW, ROW.c.position == position.scalar_subquery())
        .order_by(ROW.c.position)
        .limit(limit)
        .subquery()
    )
    due = SEQUENCE.c.due
    timed = (
        select(literal(1).label("part"), SEQUENCE.c.channel, due.label("turn"))
        .where(due <= now, _free(literal("rms ") + SEQUENCE.c.key_id, seeker, now))
        .order_by(due, SEQUENCE.c.position)
        .limit(limit)
        .subquery()
    )
    both = union_all(select(waits.c.part, waits.c.channel, cast(waits.c.turn, Double).label("turn")), select(timed))
    rows = connection.execute(both.order_by("part", "turn")).all()
    waiting = [row.channel for row in rows if row.part == 0]
    in_time = [row.channel for row in rows if row.part == 1]
    by_turns = chain.from_iterable(zip_longest(waiting, in_time))
    found = (read_channel(channel).key for channel in by_turns if channel is not None)
    return list(islice(dict.fromkeys(found), limit))


def next_rms(connection: Connection, seeker: Seeker | None) -> float | None:
    waiting = _waiting(seeker, None).exists()
    due = select(func.min(SEQUENCE.c.due)).where(_free(literal("rms ") + SEQUENCE.c.key_id, seeker, None))
    query = select(case((waiting, literal(0.0)), else_=due.scalar_subquery()))
    earliest: float | None = connection.execute(query).scalar_one()
    return earliest
