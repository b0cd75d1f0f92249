"""Queries for sequences that have work to do, on the committed state, answered from indexes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import itemgetter
from typing import Any, TypeAlias

from sqlalchemy import (
    Column,
    ColumnElement,
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
    literal_column,
    or_,
    select,
    true,
    union_all,
)

from mercury.statemachine.deliverable import Release
from mercury.statemachine.tables import InvokerState
from mercury.storage.api import Topic
from mercury.storage.claims import WorkFilter
from mercury.storage.names import DESTINATION_CLAIM, SOURCE_CLAIM
from mercury.storage.records import InboundKind, SequenceKey
from mercury.storage.sql.prepared import Prepared, least, sought
from mercury.storage.sql.schema import (
    CLAIM,
    INVOKER_BUFFER,
    INVOKER_MESSAGE,
    IS_ABANDONED,
    PAUSED_SERVICE,
    RMD_SEQUENCE,
    RMS_KEY,
    RMS_MESSAGE,
    RMS_SEQUENCE,
)
from mercury.storage.sql.values import key_of
from mercury.storage.turns import HEAD_START, alternating, by_turns

BUFFER, MESSAGE, ROW, SEQUENCE = INVOKER_BUFFER, INVOKER_MESSAGE, RMS_MESSAGE, RMS_SEQUENCE
IS_MESSAGE = MESSAGE.c.kind == InboundKind.MESSAGE.value
UNNUMBERED = ROW.c.number.is_(None)
HOLDS_ROWS = or_(SEQUENCE.c.window_full, SEQUENCE.c.holds_successor, SEQUENCE.c.rows_wait_until.is_not(None))
#: The condition of the index on the times at which rows expire that have no number.
EXPIRES = and_(UNNUMBERED, ROW.c.expires_at.is_not(None))
#: The owner that a turn of a source sequence counts for.
OF = SEQUENCE.c.owner

# A query is built once for each `WorkParameters` and executed very often: building takes longer than executing.
NOW, LIMIT, OWNER = bindparam("now", type_=Double), bindparam("limit", type_=Integer), bindparam("owner", type_=Text)
AFTER, PEER_GIVEN = bindparam("after", type_=Text), bindparam("peer", type_=Text)
CACHE_SIZE = 64
KEY = Prepared(select(RMS_KEY.c.endpoint, RMS_KEY.c.name).where(RMS_KEY.c.key_id == bindparam("name")))

#: Executes a query and returns its rows as tuples.
Reader: TypeAlias = Callable[[Prepared, Mapping[str, Any]], Sequence[Any]]
#: Key, channel and owner of a sequence, or of the first row without a number, and the value by which it has its turn.
Turn: TypeAlias = Sequence[Any]


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
    return or_(sequences.c.service.is_(None), *(sequences.c.service == name for name in wanted.services))


def distinct(column: Column[str], where: ColumnElement[bool] | None = None) -> Select[tuple[str]]:
    """The distinct values of an indexed column; each takes one index lookup, for any number of rows."""
    table = column.table
    assert isinstance(table, Table)
    given = [] if where is None else [where]
    steps = select(least(column, *given).label("value")).cte(f"steps_of_{table.name}", recursive=True)
    following = least(column, column > steps.c.value, *given)
    steps = steps.union_all(select(following).where(steps.c.value.is_not(None)))
    return select(steps.c.value).where(steps.c.value.is_not(None))


# --- destination -----------------------------------------------------------------------------------------------------


@lru_cache(maxsize=CACHE_SIZE)
def _due_rmd(wanted: WorkParameters) -> Prepared:
    due = RMD_SEQUENCE.c.due
    query = select(RMD_SEQUENCE.c.identifier).where(due <= NOW, _hosted(RMD_SEQUENCE, wanted))
    return Prepared(query.order_by(due, RMD_SEQUENCE.c.identifier).limit(LIMIT))


@lru_cache(maxsize=CACHE_SIZE)
def _next_rmd(wanted: WorkParameters) -> Prepared:
    due = RMD_SEQUENCE.c.due
    return Prepared(select(due).where(due.is_not(None), _hosted(RMD_SEQUENCE, wanted)).order_by(due).limit(1))


def due_rmd(read: Reader, now: float, limit: int, work_filter: WorkFilter | None) -> list[str]:
    return [name for (name,) in read(_due_rmd(WorkParameters.of(work_filter)), {"now": now, "limit": limit})]


def next_rmd(read: Reader, work_filter: WorkFilter | None) -> float | None:
    return _earliest(read(_next_rmd(WorkParameters.of(work_filter)), {}))


def _earliest(rows: Sequence[Any]) -> float | None:
    """The value of the only row, if there is one."""
    found: float | None = rows[0][0] if rows else None
    return found


# --- the buffer before the application -------------------------------------------------------------------------------


def _ready() -> ColumnElement[bool]:
    """Whether BUFFER has work: a marker, or a deliverable message as in `InvokerBuffer.has_work`."""
    mine = sought(MESSAGE.c.sequence, BUFFER.c.sequence)
    kind = InboundKind.MESSAGE.value
    # Two ranges of the index: "is not equal" would read all messages of the sequence.
    marker = or_(exists().where(mine, MESSAGE.c.kind < kind), exists().where(mine, MESSAGE.c.kind > kind))
    any_message = exists().where(mine, IS_MESSAGE)
    the_next = exists().where(mine, IS_MESSAGE, MESSAGE.c.number == BUFFER.c.next)
    count = select(func.count()).where(mine, IS_MESSAGE).scalar_subquery()
    said_last = select(func.max(MESSAGE.c.number)).where(mine, IS_MESSAGE, MESSAGE.c.last).scalar_subquery()
    all_here = and_(any_message, BUFFER.c.passed_count + count >= func.coalesce(BUFFER.c.last, said_last))
    return or_(
        and_(BUFFER.c.releases == Release.NEXT.value, the_next),
        marker,
        and_(BUFFER.c.releases == Release.ANY.value, any_message),
        and_(BUFFER.c.releases == Release.ALL.value, all_here),
    )


def _waits() -> ColumnElement[bool]:
    """Whether the predecessor of BUFFER's sequence still has something to deliver."""
    before = INVOKER_BUFFER.alias("before")
    left = exists().where(sought(MESSAGE.c.sequence, before.c.sequence))
    unfinished = or_(before.c.state != InvokerState.DONE.value, left)
    return exists().where(sought(before.c.sequence, BUFFER.c.follows), unfinished)


def _called() -> ColumnElement[bool]:
    """Whether handlers for BUFFER may be called: an operator has not paused its service."""
    return or_(BUFFER.c.service.is_(None), BUFFER.c.service.not_in(select(PAUSED_SERVICE.c.service)))


def _free(resource: ColumnElement[str], wanted: WorkParameters, *, at: bool) -> ColumnElement[bool]:
    """Whether no other owner has a claim at the parameter ``now``; without ``at``, whether no other owner had the
    last."""
    if not wanted.by_owner:
        return true()
    others = [sought(CLAIM.c.resource, resource), CLAIM.c.owner != OWNER, CLAIM.c.owner != ""]
    return ~exists().where(*others, *([CLAIM.c.until > NOW] if at else []))


def _workable(wanted: WorkParameters, *, at: bool) -> Select[tuple[str, float | None]]:
    touched = distinct(MESSAGE.c.sequence).subquery()
    return (
        select(BUFFER.c.sequence, BUFFER.c.retry_at)
        .join_from(touched, BUFFER, sought(BUFFER.c.sequence, touched.c.value))
        .where(
            _ready(),
            ~_waits(),
            _called(),
            _hosted(BUFFER, wanted),
            _free(literal(DESTINATION_CLAIM) + BUFFER.c.sequence, wanted, at=at),
        )
    )


@lru_cache(maxsize=CACHE_SIZE)
def _due_invoker(wanted: WorkParameters) -> Prepared:
    peer = BUFFER.c.owner
    place = func.row_number().over(partition_by=peer, order_by=(BUFFER.c.turn, BUFFER.c.version))
    work = (
        _workable(wanted, at=True)
        .with_only_columns(BUFFER.c.sequence, peer.label("peer"), place.label("place"))
        .where(or_(BUFFER.c.retry_at.is_(None), BUFFER.c.retry_at <= NOW))
        .subquery()
    )
    had_turn = work.c.peer <= AFTER
    return Prepared(select(work.c.sequence, work.c.peer).order_by(work.c.place, had_turn, work.c.peer).limit(LIMIT))


@lru_cache(maxsize=CACHE_SIZE)
def _next_invoker(wanted: WorkParameters) -> Prepared:
    work = _workable(wanted, at=False).subquery()
    return Prepared(select(func.min(func.coalesce(work.c.retry_at, 0.0))))


@lru_cache(maxsize=CACHE_SIZE)
def _stuck_invoker(wanted: WorkParameters) -> Prepared:
    free = _free(literal(DESTINATION_CLAIM) + BUFFER.c.sequence, wanted, at=True)
    has_rows = exists().where(sought(MESSAGE.c.sequence, BUFFER.c.sequence))
    touched = distinct(MESSAGE.c.sequence).subquery()
    others = INVOKER_BUFFER.alias("others")
    stray = exists(select(touched.c.value).where(~exists().where(sought(others.c.sequence, touched.c.value))))
    # A search at another process may have removed the stray row of a buffer's end.
    ended = exists().where(sought(RMD_SEQUENCE.c.identifier, BUFFER.c.sequence), RMD_SEQUENCE.c.ended_at.is_not(None))
    lost = and_(BUFFER.c.state != InvokerState.DONE.value, or_(stray, and_(~has_rows, ended)))
    stuck = or_(and_(has_rows, ~_ready()), lost)
    query = select(BUFFER.c.sequence).where(stuck, _hosted(BUFFER, wanted), free)
    return Prepared(query.order_by(BUFFER.c.turn).limit(LIMIT))


def stuck_invoker(read: Reader, now: float, limit: int, work_filter: WorkFilter | None) -> list[str]:
    query = _stuck_invoker(WorkParameters.of(work_filter))
    return [name for (name,) in read(query, _values(work_filter, now=now, limit=limit))]


def due_invoker(read: Reader, now: float, limit: int, work_filter: WorkFilter | None) -> dict[str, str]:
    query, after = _due_invoker(WorkParameters.of(work_filter)), work_filter.after if work_filter is not None else ""
    return dict(read(query, _values(work_filter, now=now, limit=limit) | {"after": after}))


def next_invoker(read: Reader, work_filter: WorkFilter | None) -> float | None:
    return _earliest(read(_next_invoker(WorkParameters.of(work_filter)), _values(work_filter)))


# --- source ----------------------------------------------------------------------------------------------------------


def _waiting(wanted: WorkParameters, *, at: bool) -> Select[tuple[str]]:
    """Keys with rows to be numbered that no sequence holds back, or with an abandonment, or (with ``at``) with a row
    that has expired."""
    waiting = distinct(ROW.c.key_id, UNNUMBERED).subquery()
    held = exists().where(sought(SEQUENCE.c.key_id, waiting.c.value), HOLDS_ROWS)
    abandoned = exists().where(sought(ROW.c.key_id, waiting.c.value), IS_ABANDONED)
    expired = [exists().where(EXPIRES, ROW.c.expires_at <= NOW, sought(ROW.c.key_id, waiting.c.value))] if at else []
    has_work = or_(~held, abandoned, *expired)
    return select(waiting.c.value).where(has_work, _free(literal(SOURCE_CLAIM) + waiting.c.value, wanted, at=at))


def _next_expiry(wanted: WorkParameters, *, at: bool) -> ColumnElement[Any]:
    """When the next row without a number expires."""
    free = _free(literal(SOURCE_CLAIM) + ROW.c.key_id, wanted, at=at)
    return select(func.min(ROW.c.expires_at)).where(EXPIRES, free).scalar_subquery()


def _earlier(first: ColumnElement[Any], second: ColumnElement[Any]) -> ColumnElement[Any]:
    """The earlier of two times that may be NULL."""
    return case((first <= second, first), else_=func.coalesce(second, first))


@lru_cache(maxsize=CACHE_SIZE)
def _due_rms(wanted: WorkParameters) -> Prepared:
    """Keys with rows to be numbered, and keys with a sequence that is due."""
    keys = _waiting(wanted, at=True).subquery()
    first = ROW.alias("first")
    position = least(first.c.position, first.c.key_id == keys.c.value, first.c.number.is_(None))
    peer = func.coalesce(ROW.c.owner, "")
    place = func.row_number().over(partition_by=peer, order_by=(_turn(ROW, ROW.c.created_at), ROW.c.position))
    heads = (
        select(ROW.c.key_id, ROW.c.channel, peer.label("peer"), place.label("place"))
        .join_from(keys, ROW, sought(ROW.c.position, position))
        .subquery()
    )
    waits = (
        select(literal(0).label("part"), heads.c.key_id, heads.c.channel, heads.c.peer, heads.c.place)
        .order_by(heads.c.place, heads.c.peer <= AFTER, heads.c.peer)
        .limit(LIMIT)
        .subquery()
    )
    due = SEQUENCE.c.due
    turn = _turn(SEQUENCE, due).label("turn")
    is_due = and_(due <= NOW, _free(literal(SOURCE_CLAIM) + SEQUENCE.c.key_id, wanted, at=True))
    timed = (
        select(literal(1).label("part"), SEQUENCE.c.key_id, SEQUENCE.c.channel, OF.label("peer"), turn)
        .where(is_due)
        .order_by(due, SEQUENCE.c.position)
        .limit(LIMIT)
        .subquery()
    )
    urgent = (
        select(literal(2).label("part"), SEQUENCE.c.key_id, SEQUENCE.c.channel, OF.label("peer"), turn)
        .where(SEQUENCE.c.priority > literal_column("0"), due.is_not(None), is_due)
        .order_by(turn)
        .limit(LIMIT)
        .subquery()
    )
    waiting = select(waits.c.part, waits.c.key_id, waits.c.channel, waits.c.peer, cast(waits.c.place, Double))
    found = union_all(waiting, select(timed), select(urgent)).subquery()
    part, *_, last = found.c
    return Prepared(select(found).order_by(part, last))


def _turn(table: Table, since: ColumnElement[float]) -> ColumnElement[Any]:
    """The time by which keys take turns: since when they are due, and earlier by their priority."""
    return since - func.coalesce(table.c.priority, 0) * HEAD_START


@lru_cache(maxsize=CACHE_SIZE)
def _due_peers() -> Prepared:
    """The owners of sequences that are due; each takes one index lookup."""
    peers = distinct(OF, SEQUENCE.c.due.is_not(None)).subquery()
    has = exists().where(peers.c.value == OF, SEQUENCE.c.due.is_not(None), SEQUENCE.c.due <= NOW)
    return Prepared(select(peers.c.value).where(has).order_by(peers.c.value <= AFTER, peers.c.value).limit(LIMIT))


@lru_cache(maxsize=CACHE_SIZE)
def _due_rms_of(wanted: WorkParameters) -> Prepared:
    """The keys of one owner with a sequence that is due."""
    due = SEQUENCE.c.due
    mine = [OF == PEER_GIVEN, due.is_not(None), due <= NOW]
    return Prepared(
        select(SEQUENCE.c.key_id, SEQUENCE.c.channel, OF.label("peer"), _turn(SEQUENCE, due).label("turn"))
        .where(*mine, _free(literal(SOURCE_CLAIM) + SEQUENCE.c.key_id, wanted, at=True))
        .order_by(due, SEQUENCE.c.position)
        .limit(LIMIT)
    )


@lru_cache(maxsize=CACHE_SIZE)
def _next_rms(wanted: WorkParameters) -> Prepared:
    waiting = _waiting(wanted, at=False).exists()
    due = select(func.min(SEQUENCE.c.due)).where(_free(literal(SOURCE_CLAIM) + SEQUENCE.c.key_id, wanted, at=False))
    timed = _earlier(due.scalar_subquery(), _next_expiry(wanted, at=False))
    return Prepared(select(case((waiting, literal(0.0)), else_=timed).label("earliest")))


def due_rms(read: Reader, now: float, limit: int, work_filter: WorkFilter | None) -> list[SequenceKey]:
    """Keys with rows to be numbered, and keys with a sequence that is due, alternating; the owners take turns."""
    after = work_filter.after if work_filter is not None else ""
    values = _values(work_filter, now=now, limit=limit) | {"after": after}
    waits: list[Turn] = []
    timed: list[Turn] = []
    urgent: list[Turn] = []
    for part, *turn in read(_due_rms(WorkParameters.of(work_filter)), values):
        (waits, timed, urgent)[part].append(turn)
    if len(timed) == limit:  # other owners may have more
        timed = _timed_by_turns(read, limit, work_filter, values)
    if urgent:
        timed = sorted({turn[0]: turn for turn in (*timed, *urgent)}.values(), key=itemgetter(3))
    waiting, in_time = (
        by_turns(((key_of(key_id, channel), peer) for key_id, channel, peer, _ in part), after)
        for part in (waits, timed)
    )
    found = alternating(waiting, in_time)[:limit]
    return [key if key.endpoint else _known(read, key) for key in found]


def _timed_by_turns(
    read: Reader, limit: int, work_filter: WorkFilter | None, values: dict[str, str | float]
) -> list[Turn]:
    peers = read(_due_peers(), values)
    query, share = _due_rms_of(WorkParameters.of(work_filter)), -(-limit // max(1, len(peers)))
    found: list[Turn] = []
    for (peer,) in peers:
        found += read(query, values | {"peer": peer, "limit": share})
    return found


def _known(read: Reader, key: SequenceKey) -> SequenceKey:
    """The key of a row whose key is damaged, from other rows if possible."""
    rows = read(KEY, {"name": key.digest})
    found = SequenceKey(*rows[0]) if rows else key
    return found if found.digest == key.digest else key


def next_rms(read: Reader, work_filter: WorkFilter | None) -> float | None:
    return _earliest(read(_next_rms(WorkParameters.of(work_filter)), _values(work_filter)))


# --- all kinds -------------------------------------------------------------------------------------------------------


#: The columns of the query for all kinds.
KINDS = (Topic.RMD, Topic.INVOKER, Topic.RMS)


@lru_cache(maxsize=CACHE_SIZE)
def _work_due(wanted: WorkParameters) -> Prepared:
    """When the earliest work of each kind is due, in one row."""
    rmd = select(func.min(RMD_SEQUENCE.c.due)).where(_hosted(RMD_SEQUENCE, wanted))
    buffers = _workable(wanted, at=True).subquery()
    invoker = select(func.min(func.coalesce(buffers.c.retry_at, 0.0)))
    free = _free(literal(SOURCE_CLAIM) + SEQUENCE.c.key_id, wanted, at=True)
    timed = select(func.min(SEQUENCE.c.due)).where(free).scalar_subquery()
    earliest = _earlier(timed, _next_expiry(wanted, at=True))
    rms = case((_waiting(wanted, at=True).exists(), literal(0.0)), else_=earliest)
    columns = (rmd.scalar_subquery(), invoker.scalar_subquery(), rms)
    return Prepared(select(*(each.label(topic.value) for topic, each in zip(KINDS, columns, strict=True))))


def work_due(read: Reader, now: float, work_filter: WorkFilter | None) -> dict[Topic, float]:
    values = _values(work_filter, now=now)
    (row,) = read(_work_due(WorkParameters.of(work_filter)), values)
    return {topic: due for topic, due in zip(KINDS, row, strict=True) if due is not None}
