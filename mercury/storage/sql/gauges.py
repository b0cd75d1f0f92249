"""The gauges of a SQL store. Each query reads a limited number of rows, by the primary key or from a small table."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from sqlalchemy import Double, Integer, Select, and_, bindparam, case, func, literal_column, not_, or_, select

from mercury.storage.gauges import READER, Gauges, Waits
from mercury.storage.letters import Direction
from mercury.storage.records import InboundKind, OutboundKind
from mercury.storage.sql.prepared import Prepared, fetch
from mercury.storage.sql.schema import (
    CLAIM,
    DEAD_LETTER,
    DECISION,
    INVOKER_BUFFER,
    INVOKER_MESSAGE,
    RMD_SEQUENCE,
    RMS_MESSAGE,
    RMS_SEQUENCE,
)
from mercury.storage.sql.values import key_of

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from mercury.storage.sql.dialect import Dialect

ROW, MESSAGE, BUFFER, LETTER = RMS_MESSAGE, INVOKER_MESSAGE, INVOKER_BUFFER, DEAD_LETTER
MOST = bindparam("most", type_=Integer)
NOW = bindparam("now", type_=Double)
UNACKNOWLEDGED = (Waits.TRANSMISSION.value, Waits.ACKNOWLEDGEMENT.value)


def _outbound() -> Prepared:
    """The oldest outbound rows, grouped by what they wait for and by key, with the time of the oldest of each group:
    NULL, if all of them wait for their times."""
    oldest = select(ROW).order_by(ROW.c.position).limit(MOST).subquery("oldest")
    row = oldest.c
    waits = case(
        (and_(not_(row.acknowledged), row.attempts > 0), literal_column(f"'{Waits.ACKNOWLEDGEMENT.value}'")),
        (not_(row.acknowledged), literal_column(f"'{Waits.TRANSMISSION.value}'")),
        (and_(row.expects_response, not_(row.answered)), literal_column(f"'{Waits.RESPONSE.value}'")),
        else_=literal_column("''"),
    ).label("waits")
    in_time = or_(row.not_before.is_(None), row.number.is_not(None))
    done = or_(row.kind != OutboundKind.MESSAGE.value, and_(row.relates_to.is_not(None), row.answered))
    query: Select[Any] = select(
        waits,
        row.key_id,
        func.min(row.channel).label("channel"),
        func.count().label("many"),
        func.min(case((in_time, row.created_at))).label("since"),
    )
    return Prepared(query.where(not_(done)).group_by(waits, row.key_id))


def _inbound() -> Prepared:
    """The oldest received messages, grouped by service, with the arrival of the oldest of each group."""
    columns = (MESSAGE.c.sequence, MESSAGE.c.kind, MESSAGE.c.received_at)
    oldest = select(*columns).order_by(MESSAGE.c.position).limit(MOST).subquery("oldest")
    service = func.coalesce(BUFFER.c.service, literal_column("''"))
    since = func.min(oldest.c.received_at).label("since")
    query = select(service.label("service"), func.count().label("many"), since).join_from(
        oldest, BUFFER, BUFFER.c.sequence == oldest.c.sequence, isouter=True
    )
    return Prepared(query.where(oldest.c.kind == InboundKind.MESSAGE.value).group_by(service))


def _after(table: Any) -> Prepared:
    """The highest position, and the highest of the oldest rows."""
    oldest = select(table.c.position).order_by(table.c.position).limit(MOST).subquery("oldest")
    last = select(func.max(oldest.c.position)).scalar_subquery()
    return Prepared(select(func.max(table.c.position).label("highest"), last.label("last")))


def _letters() -> Prepared:
    """The newest dead letters, grouped by direction and reason."""
    newest = select(LETTER.c.direction, LETTER.c.reason).order_by(LETTER.c.position.desc()).limit(MOST)
    part = newest.subquery("newest")
    query = select(part.c.direction, part.c.reason, func.count().label("many"))
    return Prepared(query.group_by(part.c.direction, part.c.reason))


def _letters_before() -> Prepared:
    """The lowest position, and the lowest of the newest rows."""
    newest = select(LETTER.c.position).order_by(LETTER.c.position.desc()).limit(MOST).subquery("newest")
    first = select(func.min(newest.c.position)).scalar_subquery()
    return Prepared(select(func.min(LETTER.c.position).label("lowest"), first.label("first")))


def _destinations() -> Prepared:
    """How many destination sequences are open, and how many of them have a gap.

    The ranges are a text such as ``1-7 9`` (`values.write_ranges`): without a gap it is one range that begins at 1.
    """
    sequence = RMD_SEQUENCE.c
    found = select(sequence.received).where(sequence.ended_at.is_(None)).limit(MOST).subquery("found")
    text = found.c.received
    whole = or_(text == "", text == "1", and_(text.like("1-%"), not_(text.like("% %"))))
    return Prepared(select(func.count().label("many"), func.sum(case((whole, 0), else_=1)).label("gaps")))


def _sources() -> Prepared:
    """How many of the newest source sequences are open: many older ones may have tombstones."""
    ended = RMS_SEQUENCE.c.ended_at
    newest = select(ended).order_by(RMS_SEQUENCE.c.position.desc()).limit(MOST).subquery("newest")
    return Prepared(select(func.count().label("many")).where(newest.c.ended_at.is_(None)))


def _claims(at: Any) -> Prepared:
    held = (
        select(CLAIM.c.owner)
        .where(CLAIM.c.until > at, CLAIM.c.owner != "", CLAIM.c.resource != READER)
        .limit(MOST)
        .subquery("held")
    )
    many = func.count().label("many")
    return Prepared(select(held.c.owner, many).group_by(held.c.owner).order_by(many.desc()))


OUTBOUND, INBOUND, LETTERS, LETTERS_BEFORE = _outbound(), _inbound(), _letters(), _letters_before()
OUTBOUND_AFTER, INBOUND_AFTER = _after(ROW), _after(MESSAGE)
SOURCES, DESTINATIONS = _sources(), _destinations()
DECISIONS = Prepared(select(func.count().label("many"), func.min(DECISION.c.decided_at).label("oldest")))
CLAIMS = _claims(NOW)


def read(dialect: Dialect, connection: Connection, now: float, most: int) -> Gauges:
    """As `GaugeSource.gauges`; each statement of ``connection`` is a transaction of its own."""

    def rows(query: Prepared, **parameters: Any) -> list[Any]:
        compiled = dialect.compiled(query, parameters)
        return fetch(connection, compiled.text, compiled.parameters(parameters))

    waiting: Counter[tuple[Waits, str]] = Counter()
    unacknowledged, undelivered = [], []
    for waits, key_id, channel, many, since in rows(OUTBOUND, most=most):
        if waits:
            waiting[Waits(waits), key_of(key_id, channel).endpoint] += many
        if waits in UNACKNOWLEDGED and since is not None:
            unacknowledged.append(since)
    for service, many, since in rows(INBOUND, most=most):
        waiting[Waits.DELIVERY, service] += many
        undelivered.append(since)
    uncounted = {}
    for direction, query in ((Direction.OUTBOUND, OUTBOUND_AFTER), (Direction.INBOUND, INBOUND_AFTER)):
        ((highest, last),) = rows(query, most=most)
        uncounted[direction] = (highest or 0) - (last or 0)
    ((lowest, first),) = rows(LETTERS_BEFORE, most=most)
    ((destinations, gaps),) = rows(DESTINATIONS, most=most)
    ((sources,),) = rows(SOURCES, most=most)
    ((decisions, oldest_decision),) = rows(DECISIONS)
    return Gauges(
        waiting=waiting,
        uncounted=uncounted,
        oldest_unacknowledged=min(unacknowledged, default=None),
        oldest_undelivered=min(undelivered, default=None),
        open_sources=sources,
        open_destinations=destinations,
        gaps=int(gaps or 0),
        dead_letters={(Direction(name), reason): many for name, reason, many in rows(LETTERS, most=most)},
        letters_uncounted=(first or 0) - (lowest or 0),
        decisions=decisions,
        oldest_decision=oldest_decision,
        claims=tuple(many for _, many in rows(CLAIMS, now=now, most=most)),
    )
