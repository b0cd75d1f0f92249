"""Queries for sequences that have work to do, on the committed state, answered from indexes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Double,
    Integer,
    Select,
    Table,
    Text,
    and_,
    bindparam,
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

from mercury.statemachine.deliverable import Release
from mercury.statemachine.tables import InvokerState
from mercury.storage.claims import WorkFilter
from mercury.storage.records import InboundKind, SequenceKey
from mercury.storage.sql.schema import (
    CLAIM,
    INVOKER_BUFFER,
    INVOKER_MESSAGE,
    IS_ABANDONED,
    RMD_SEQUENCE,
    RMS_KEY,
    RMS_MESSAGE,
    RMS_SEQUENCE,
)
from mercury.storage.sql.values import key_of
from mercury.storage.turns import alternating, by_turns

BUFFER, MESSAGE, ROW, SEQUENCE = INVOKER_BUFFER, INVOKER_MESSAGE, RMS_MESSAGE, RMS_SEQUENCE
IS_MESSAGE = MESSAGE.c.kind == InboundKind.MESSAGE.value
UNNUMBERED = ROW.c.number.is_(None)
HOLDS_ROWS = or_(SEQUENCE.c.window_full, SEQUENCE.c.holds_successor)
#: The owner that a turn of a source sequence counts for.
OF = SEQUENCE.c.owner

# A query is built once for each `WorkParameters` and executed very often: building takes longer than executing.
NOW, LIMIT, OWNER = bindparam("now", type_=Double), bindparam("limit", type_=Integer), bindparam("owner", type_=Text)
AFTER, PEER_GIVEN = bindparam("after", type_=Text), bindparam("peer", type_=Text)
CACHE_SIZE = 64


@dataclass(frozen=True, slots=True)
class WorkParameters:
    """The parts of a `WorkFilter` that change the text of a query."""

    by_owner: bool
    services: tuple[str, ...] | None

    @classmethod
    def of(cls, work_filter: WorkFilter | None) -> WorkParameters:
        if work_filter is None:
            return cls(False, None)
        return cls(True, None if work_filter.services is None else tuple(sorted(work_filter.services)))


def _values(work_filter: WorkFilter | None, **more: float) -> dict[str, str | float]:
    return more | ({} if work_filter is None else {"owner": work_filter.owner})


def _hosted(sequences: Table, wanted: WorkParameters) -> ColumnElement[bool]:
    """Whether the filter hosts the service of a sequence; responses belong to none."""
    if wanted.services is None:
        return true()
    return or_(sequences.c.service.is_(None), sequences.c.service.in_(wanted.services))


def distinct(column: Column[str], where: ColumnElement[bool] | None = None) -> Select[tuple[str]]:
    """The distinct values of an indexed column; each takes one index lookup, for any number of rows."""
    table = column.table
    assert isinstance(table, Table)
    given = [] if where is None else [where]
    first = select(func.min(column).label("value")).where(*given)
    steps = first.cte("steps", recursive=True)
    following = select(func.min(column)).where(column > steps.c.value, *given).scalar_subquery()
    steps = steps.union_all(select(following).where(steps.c.value.is_not(None)))
    return select(steps.c.value).where(steps.c.value.is_not(None))


# --- destination -----------------------------------------------------------------------------------------------------


def due_rmd(connection: Connection, now: float, limit: int, work_filter: WorkFilter | None) -> list[str]:
    due = RMD_SEQUENCE.c.due
    query = select(RMD_SEQUENCE.c.identifier).where(due <= now, _hosted(RMD_SEQUENCE, WorkParameters.of(work_filter)))
    return list(connection.execute(query.order_by(due, RMD_SEQUENCE.c.identifier).limit(limit)).scalars())


def next_rmd(connection: Connection, work_filter: WorkFilter | None) -> float | None:
    earliest: float | None = connection.execute(
        select(RMD_SEQUENCE.c.due)
        .where(RMD_SEQUENCE.c.due.is_not(None), _hosted(RMD_SEQUENCE, WorkParameters.of(work_filter)))
        .order_by(RMD_SEQUENCE.c.due)
        .limit(1)
    ).scalar_one_or_none()
    return earliest


# --- the buffer before the application -------------------------------------------------------------------------------


def _ready() -> ColumnElement[bool]:
    """Whether BUFFER has work: a marker, or a deliverable message as in `InvokerBuffer.has_work`."""
    mine = MESSAGE.c.sequence == BUFFER.c.sequence
    marker = exists().where(mine, MESSAGE.c.kind != InboundKind.MESSAGE.value)
    any_message = exists().where(mine, IS_MESSAGE)
    the_next = exists().where(mine, IS_MESSAGE, MESSAGE.c.number == BUFFER.c.next)
    count = select(func.count()).where(mine, IS_MESSAGE).scalar_subquery()
    said_last = select(func.max(MESSAGE.c.number)).where(mine, IS_MESSAGE, MESSAGE.c.last).scalar_subquery()
    all_here = and_(any_message, BUFFER.c.passed_count + count >= func.coalesce(BUFFER.c.last, said_last))
    return or_(
        marker,
        and_(BUFFER.c.releases == Release.NEXT.value, the_next),
        and_(BUFFER.c.releases == Release.ANY.value, any_message),
        and_(BUFFER.c.releases == Release.ALL.value, all_here),
    )


def _waits() -> ColumnElement[bool]:
    """Whether the predecessor of BUFFER's sequence still has something to deliver."""
    before = INVOKER_BUFFER.alias("before")
    left = exists().where(MESSAGE.c.sequence == before.c.sequence)
    unfinished = or_(before.c.state != InvokerState.DONE.value, left)
    return exists().where(before.c.sequence == BUFFER.c.follows, unfinished)


def _free(resource: ColumnElement[str], wanted: WorkParameters, *, at: bool) -> ColumnElement[bool]:
    """Whether no other owner has a claim at the parameter ``now``; without ``at``, whether no other owner had the
    last."""
    if not wanted.by_owner:
        return true()
    others = [CLAIM.c.resource == resource, CLAIM.c.owner != OWNER, CLAIM.c.owner != ""]
    return ~exists().where(*others, *([CLAIM.c.until > NOW] if at else []))


def _workable(wanted: WorkParameters, *, at: bool) -> Select[tuple[str, float | None]]:
    touched = distinct(MESSAGE.c.sequence).subquery()
    return (
        select(BUFFER.c.sequence, BUFFER.c.retry_at)
        .join_from(touched, BUFFER, BUFFER.c.sequence == touched.c.value)
        .where(
            _ready(),
            ~_waits(),
            _hosted(BUFFER, wanted),
            _free(literal("invoker ") + BUFFER.c.sequence, wanted, at=at),
        )
    )


@lru_cache(maxsize=CACHE_SIZE)
def _due_invoker(wanted: WorkParameters) -> Select[Any]:
    peer = BUFFER.c.owner
    place = func.row_number().over(partition_by=peer, order_by=(BUFFER.c.turn, BUFFER.c.version))
    work = (
        _workable(wanted, at=True)
        .with_only_columns(BUFFER.c.sequence, peer.label("peer"), place.label("place"))
        .where(or_(BUFFER.c.retry_at.is_(None), BUFFER.c.retry_at <= NOW))
        .subquery()
    )
    had_turn = work.c.peer <= AFTER
    return select(work.c.sequence, work.c.peer).order_by(work.c.place, had_turn, work.c.peer).limit(LIMIT)


@lru_cache(maxsize=CACHE_SIZE)
def _next_invoker(wanted: WorkParameters) -> Select[Any]:
    work = _workable(wanted, at=False).subquery()
    return select(func.min(func.coalesce(work.c.retry_at, 0.0)))


@lru_cache(maxsize=CACHE_SIZE)
def _stuck_invoker(wanted: WorkParameters) -> Select[Any]:
    free = _free(literal("invoker ") + BUFFER.c.sequence, wanted, at=True)
    has_rows = exists().where(MESSAGE.c.sequence == BUFFER.c.sequence)
    touched = distinct(MESSAGE.c.sequence).subquery()
    others = INVOKER_BUFFER.alias("others")
    stray = exists(select(touched.c.value).where(~exists().where(others.c.sequence == touched.c.value)))
    stuck = or_(and_(has_rows, ~_ready()), and_(stray, BUFFER.c.state != InvokerState.DONE.value))
    return select(BUFFER.c.sequence).where(stuck, _hosted(BUFFER, wanted), free).order_by(BUFFER.c.turn).limit(LIMIT)


def stuck_invoker(connection: Connection, now: float, limit: int, work_filter: WorkFilter | None) -> list[str]:
    query = _stuck_invoker(WorkParameters.of(work_filter))
    return list(connection.execute(query, _values(work_filter, now=now, limit=limit)).scalars())


def due_invoker(connection: Connection, now: float, limit: int, work_filter: WorkFilter | None) -> dict[str, str]:
    query, after = _due_invoker(WorkParameters.of(work_filter)), work_filter.after if work_filter is not None else ""
    rows = connection.execute(query, _values(work_filter, now=now, limit=limit) | {"after": after})
    return {row.sequence: row.peer for row in rows}


def next_invoker(connection: Connection, work_filter: WorkFilter | None) -> float | None:
    earliest: float | None = connection.execute(
        _next_invoker(WorkParameters.of(work_filter)), _values(work_filter)
    ).scalar_one()
    return earliest


# --- source ----------------------------------------------------------------------------------------------------------


def _waiting(wanted: WorkParameters, *, at: bool) -> Select[tuple[str]]:
    """Keys with rows to be numbered that no sequence holds back, or with an abandonment."""
    waiting = distinct(ROW.c.key_id, UNNUMBERED).subquery()
    held = exists().where(SEQUENCE.c.key_id == waiting.c.value, HOLDS_ROWS)
    abandoned = exists().where(ROW.c.key_id == waiting.c.value, IS_ABANDONED)
    return select(waiting.c.value).where(or_(~held, abandoned), _free(literal("rms ") + waiting.c.value, wanted, at=at))


@lru_cache(maxsize=CACHE_SIZE)
def _due_rms(wanted: WorkParameters) -> Select[Any]:
    """Keys with rows to be numbered, and keys with a sequence that is due."""
    keys = _waiting(wanted, at=True).subquery()
    first = ROW.alias("first")
    position = select(func.min(first.c.position)).where(first.c.key_id == keys.c.value, first.c.number.is_(None))
    peer = func.coalesce(ROW.c.owner, "")
    place = func.row_number().over(partition_by=peer, order_by=ROW.c.position)
    heads = (
        select(ROW.c.key_id, ROW.c.channel, peer.label("peer"), ROW.c.position.label("turn"), place.label("place"))
        .join_from(keys, ROW, ROW.c.position == position.scalar_subquery())
        .subquery()
    )
    waits = (
        select(literal(0).label("part"), heads.c.key_id, heads.c.channel, heads.c.peer, heads.c.turn)
        .order_by(heads.c.place, heads.c.peer <= AFTER, heads.c.peer)
        .limit(LIMIT)
        .subquery()
    )
    due = SEQUENCE.c.due
    timed = (
        select(literal(1).label("part"), SEQUENCE.c.key_id, SEQUENCE.c.channel, OF.label("peer"), due.label("turn"))
        .where(due <= NOW, _free(literal("rms ") + SEQUENCE.c.key_id, wanted, at=True))
        .order_by(due, SEQUENCE.c.position)
        .limit(LIMIT)
        .subquery()
    )
    turn = cast(waits.c.turn, Double).label("turn")
    waiting = select(waits.c.part, waits.c.key_id, waits.c.channel, waits.c.peer, turn)
    found = union_all(waiting, select(timed)).subquery()
    return select(found.c.part, found.c.key_id, found.c.channel, found.c.peer).order_by(found.c.part, found.c.turn)


@lru_cache(maxsize=CACHE_SIZE)
def _due_peers() -> Select[Any]:
    """The owners of sequences that are due; each takes one index lookup."""
    peers = distinct(OF, SEQUENCE.c.due.is_not(None)).subquery()
    has = exists().where(peers.c.value == OF, SEQUENCE.c.due.is_not(None), SEQUENCE.c.due <= NOW)
    return select(peers.c.value).where(has).order_by(peers.c.value <= AFTER, peers.c.value).limit(LIMIT)


@lru_cache(maxsize=CACHE_SIZE)
def _due_rms_of(wanted: WorkParameters) -> Select[Any]:
    """The keys of one owner with a sequence that is due."""
    due = SEQUENCE.c.due
    mine = [OF == PEER_GIVEN, due.is_not(None), due <= NOW]
    return (
        select(SEQUENCE.c.key_id, SEQUENCE.c.channel, OF.label("peer"))
        .where(*mine, _free(literal("rms ") + SEQUENCE.c.key_id, wanted, at=True))
        .order_by(due, SEQUENCE.c.position)
        .limit(LIMIT)
    )


@lru_cache(maxsize=CACHE_SIZE)
def _next_rms(wanted: WorkParameters) -> Select[Any]:
    waiting = _waiting(wanted, at=False).exists()
    due = select(func.min(SEQUENCE.c.due)).where(_free(literal("rms ") + SEQUENCE.c.key_id, wanted, at=False))
    return select(case((waiting, literal(0.0)), else_=due.scalar_subquery()))


def due_rms(connection: Connection, now: float, limit: int, work_filter: WorkFilter | None) -> list[SequenceKey]:
    """Keys with rows to be numbered, and keys with a sequence that is due, alternating; the owners take turns."""
    after = work_filter.after if work_filter is not None else ""
    values = _values(work_filter, now=now, limit=limit) | {"after": after}
    rows = connection.execute(_due_rms(WorkParameters.of(work_filter)), values).all()
    timed = [row for row in rows if row.part == 1]
    if len(timed) == limit:  # other owners may have more
        timed = _timed_by_turns(connection, limit, work_filter, values)
    waiting, in_time = (
        by_turns(((key_of(row.key_id, row.channel), row.peer) for row in part), after)
        for part in ([row for row in rows if row.part == 0], timed)
    )
    found = alternating(waiting, in_time)[:limit]
    return [key if key.endpoint else _known(connection, key) for key in found]


def _timed_by_turns(
    connection: Connection, limit: int, work_filter: WorkFilter | None, values: dict[str, str | float]
) -> list[Any]:
    peers = connection.execute(_due_peers(), values).scalars().all()
    query, share = _due_rms_of(WorkParameters.of(work_filter)), -(-limit // max(1, len(peers)))
    found: list[Any] = []
    for peer in peers:
        found += connection.execute(query, values | {"peer": peer, "limit": share}).all()
    return found


def _known(connection: Connection, key: SequenceKey) -> SequenceKey:
    """The key of a row whose key is damaged, from other rows if possible."""
    query = select(RMS_KEY.c.endpoint, RMS_KEY.c.name).where(RMS_KEY.c.key_id == key.digest)
    row = connection.execute(query).one_or_none()
    found = SequenceKey(row.endpoint, row.name) if row is not None else key
    return found if found.digest == key.digest else key


def next_rms(connection: Connection, work_filter: WorkFilter | None) -> float | None:
    earliest: float | None = connection.execute(
        _next_rms(WorkParameters.of(work_filter)), _values(work_filter)
    ).scalar_one()
    return earliest
