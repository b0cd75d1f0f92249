"""Pages of waiting messages."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from sqlalchemy import ColumnElement, Select, Subquery, and_, func, or_, select

from mercury.storage.names import key_digest
from mercury.storage.records import InboundKind
from mercury.storage.searching import MessageFilter, MessageState, Page
from mercury.storage.sql.overview import INBOUND, NUMBERED, OUTBOUND, SLIM, inbound_seen, outbound_seen
from mercury.storage.sql.reads.message_states import is_to, is_unacknowledged, is_unanswered, is_unsent
from mercury.storage.sql.reads.walking import LAST_PART, Part, Walk, position_at
from mercury.storage.sql.schema import INVOKER_BUFFER, INVOKER_MESSAGE, RMS_MESSAGE, RMS_SEQUENCE
from mercury.storage.waiting import WaitingMessage

if TYPE_CHECKING:
    from mercury.storage.sql.transaction import SqlTransaction

ROW, SOURCE, MESSAGE, BUFFER = RMS_MESSAGE, RMS_SEQUENCE, INVOKER_MESSAGE, INVOKER_BUFFER
#: Seconds by which a message may be stored after it was handed over, and by which clocks may differ.
LONGEST_TRANSACTION, SKEW = 600.0, 60.0


def outbound_page(tx: SqlTransaction, which: MessageFilter, after: str | None, limit: int) -> Page[WaitingMessage]:
    """Messages that were handed over and are not done: of one sequence by number, else in order of insertion.

    :raises UnknownPlace: ``after`` is not from a page.
    """
    if which.service is not None or which.state is MessageState.FAILING:
        return Page(())
    walk = Walk(tuple(ROW.c), _outbound_parts(tx, which), partial(_outbound_conditions, which), _outbound_query)
    rows, following = walk.page(tx, after, limit)
    return Page(tuple(outbound_seen(row) for row in rows), following)


def inbound_page(tx: SqlTransaction, which: MessageFilter, after: str | None, limit: int) -> Page[WaitingMessage]:
    """Messages that were received and are not consumed: of one sequence by number, else in order of insertion.

    :raises UnknownPlace: ``after`` is not from a page.
    """
    if which.endpoint is not None or which.key is not None or which.state not in (None, MessageState.FAILING):
        return Page(())
    walk = Walk(SLIM, _inbound_parts(tx, which), partial(_inbound_conditions, which), _inbound_query)
    rows, following = walk.page(tx, after, limit)
    return Page(tuple(inbound_seen(row) for row in rows), following)


# --- outbound --------------------------------------------------------------------------------------------------------


def _outbound_parts(tx: SqlTransaction, which: MessageFilter) -> list[Part]:
    by = ROW.c.position
    if which.message_id is not None:
        return [Part(0, (OUTBOUND, ROW.c.message_id == which.message_id), by)]
    if which.correlation is not None:
        return [Part(0, (OUTBOUND, ROW.c.correlation == which.correlation), by)]
    if which.sequence is not None:
        named = or_(SOURCE.c.identifier == which.sequence, SOURCE.c.id == which.sequence)
        return _of_sequences(tx, named)
    if which.endpoint is not None and which.key is not None:
        digest = key_digest(which.endpoint, which.key)
        parts = _of_sequences(tx, SOURCE.c.key_id == digest)
        return [*parts, Part(LAST_PART, (OUTBOUND, ROW.c.key_id == digest, ROW.c.number.is_(None)), by)]
    return [Part(0, (OUTBOUND, *_positions(tx, by, ROW.c.created_at, which)), by)]


def _of_sequences(tx: SqlTransaction, named: ColumnElement[bool]) -> list[Part]:
    found = tx.read(select(SOURCE.c.position, SOURCE.c.id).where(named).order_by(SOURCE.c.position))
    return [Part(row["position"], (OUTBOUND, ROW.c.sequence_id == row["id"], NUMBERED), ROW.c.number) for row in found]


def _positions(tx: SqlTransaction, position: Any, time: Any, which: MessageFilter) -> list[ColumnElement[bool]]:
    """The positions in which messages of the given times can be."""
    found: list[ColumnElement[bool]] = []
    if which.since is not None:
        found.append(position >= position_at(tx, position, time, which.since - SKEW))
    if which.until is not None:
        found.append(position < position_at(tx, position, time, which.until + LONGEST_TRANSACTION))
    return found


def _outbound_conditions(which: MessageFilter, rows: Subquery) -> list[ColumnElement[bool]]:
    row = rows.c
    found = _in_time(which, row.created_at)
    if which.correlation is not None and which.message_id is not None:
        found.append(row.correlation == which.correlation)
    if which.endpoint is not None and which.key is not None:
        if which.message_id is not None or which.correlation is not None or which.sequence is not None:
            found.append(row.key_id == key_digest(which.endpoint, which.key))  # else its index has answered it
    elif which.endpoint is not None or which.key is not None:
        # Not by the table of keys: a key has no row there before its first sequence.
        found.append(is_to(row, which.endpoint, which.key))
    match which.state:
        case MessageState.UNSENT:
            found.append(is_unsent(row))
        case MessageState.UNACKNOWLEDGED:
            found.append(is_unacknowledged(row))
        case MessageState.UNANSWERED:
            found.append(is_unanswered(row))
        case _:
            pass
    return found


def _outbound_query(rows: Subquery) -> Select[Any]:
    about = (SOURCE.c.identifier, SOURCE.c.last_error, SOURCE.c.failure)
    return select(rows, *about).join_from(rows, SOURCE, SOURCE.c.id == rows.c.sequence_id, isouter=True)


# --- inbound ---------------------------------------------------------------------------------------------------------


def _inbound_parts(tx: SqlTransaction, which: MessageFilter) -> list[Part]:
    by = MESSAGE.c.position
    if which.message_id is not None:
        return [Part(0, (INBOUND, MESSAGE.c.message_id == which.message_id), by)]
    if which.correlation is not None:
        return [Part(0, (INBOUND, MESSAGE.c.correlation == which.correlation), by)]
    if which.sequence is not None:
        return [Part(0, (INBOUND, MESSAGE.c.sequence == which.sequence), MESSAGE.c.number)]
    if which.state is MessageState.FAILING:
        return _first_of_failing(tx)
    return [Part(0, (INBOUND, *_positions(tx, by, MESSAGE.c.received_at, which)), by)]


def _first_of_failing(tx: SqlTransaction) -> list[Part]:
    """The messages whose handlers fail: each is the first of its buffer."""
    others = MESSAGE.alias("others")
    alike = and_(others.c.sequence == BUFFER.c.sequence, others.c.kind == InboundKind.MESSAGE.value)
    first = select(others.c.position).where(alike).order_by(others.c.number).limit(1).scalar_subquery()
    buffers = select(first.label("first")).where(BUFFER.c.attempts > 0).limit(1000)
    positions = [row["first"] for row in tx.read(buffers) if row["first"] is not None]
    return [Part(0, (INBOUND, MESSAGE.c.position.in_(positions)), MESSAGE.c.position)]


def _inbound_conditions(which: MessageFilter, rows: Subquery) -> list[ColumnElement[bool]]:
    found = _in_time(which, rows.c.received_at)
    if which.service is not None:
        service = func.coalesce(BUFFER.c.service, "")
        found.append(service == which.service)
    if which.message_id is not None and which.correlation is not None:
        found.append(rows.c.correlation == which.correlation)
    if which.state is MessageState.FAILING:
        found.append(BUFFER.c.attempts > 0)
    return found


def _in_time(which: MessageFilter, time: ColumnElement[float]) -> list[ColumnElement[bool]]:
    found: list[ColumnElement[bool]] = []
    if which.since is not None:
        found.append(time >= which.since)
    if which.until is not None:
        found.append(time < which.until)
    return found


def _inbound_query(rows: Subquery) -> Select[Any]:
    others = MESSAGE.alias("others")
    alike = and_(others.c.sequence == rows.c.sequence, others.c.kind == InboundKind.MESSAGE.value)
    lowest = select(others.c.number).where(alike).order_by(others.c.number).limit(1).scalar_subquery().label("lowest")
    about = (BUFFER.c.service, BUFFER.c.next, BUFFER.c.releases, BUFFER.c.attempts, BUFFER.c.retry_at)
    columns = (*rows.c, *about, BUFFER.c.last_error, BUFFER.c.parked, lowest)
    return select(*columns).join_from(rows, BUFFER, BUFFER.c.sequence == rows.c.sequence, isouter=True)
