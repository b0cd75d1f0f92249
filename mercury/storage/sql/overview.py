"""Queries for operators of a SQL store: pages of messages and sequences, and sums. Each is one statement, or one for
each kind of row; a page begins after the last position of the page before, so its cost does not grow with the
tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import ColumnElement, Select, and_, case, distinct, func, literal_column, not_, or_, select

from mercury.statemachine.deliverable import Release
from mercury.storage.letters import Direction
from mercury.storage.records import InboundKind, InboundMessage, OutboundKind, OutboundMessage
from mercury.storage.sql.codec import inbound_message, outbound_message, rmd_record, rms_record
from mercury.storage.sql.prepared import Row
from mercury.storage.sql.reads.message_states import is_to
from mercury.storage.sql.rms_statements import IN_TIME, RETAINED
from mercury.storage.sql.schema import (
    DEAD_LETTER,
    DECISION,
    INVOKER_BUFFER,
    INVOKER_MESSAGE,
    RMD_SEQUENCE,
    RMS_BODY,
    RMS_MESSAGE,
    RMS_SEQUENCE,
)
from mercury.storage.sql.values import key_of
from mercury.storage.waiting import (
    DestinationInStore,
    Inbound,
    Outbound,
    SourceInStore,
    StoreStatus,
    WaitingFilter,
    WaitingMessage,
)

if TYPE_CHECKING:
    from mercury.storage.sql.transaction import SqlTransaction

ROW, SOURCE, MESSAGE, BUFFER, DESTINATION = RMS_MESSAGE, RMS_SEQUENCE, INVOKER_MESSAGE, INVOKER_BUFFER, RMD_SEQUENCE
OUTBOUND = ROW.c.kind == OutboundKind.MESSAGE.value
#: Rows that are not done, without replies that are only retained to be fetched again.
WAITING = and_(OUTBOUND, not_(RETAINED))
INBOUND = MESSAGE.c.kind == InboundKind.MESSAGE.value
NUMBERED = ROW.c.number.is_not(None)
MANY = func.count().label("many")
LETTER_BYTES = func.sum(case((DEAD_LETTER.c.owner.is_not(None), DEAD_LETTER.c.size))).label("bytes")
#: A literal, not a parameter: PostgreSQL must see that the selected expression is the grouped one.
SERVICE = func.coalesce(BUFFER.c.service, literal_column("''"))
#: Decisions with branches that may be unfinished. A decision to roll back stays after its last branch (decision 20).
UNFINISHED = DECISION.c.branches != "{}"
#: The columns of a waiting message without the large ones.
SLIM = tuple(column for column in MESSAGE.c if column.name not in ("payload", "headers"))


class StoreOverview:
    """The queries, in one transaction."""

    def __init__(self, transaction: SqlTransaction) -> None:
        self._tx = transaction

    # --- messages --------------------------------------------------------------------------------------------------

    def outbound(self, which: WaitingFilter, limit: int) -> list[WaitingMessage]:
        """Messages that were handed over and are not done, in order of insertion."""
        wanted: list[ColumnElement[bool]] = [OUTBOUND, ROW.c.position > which.after]
        if which.position is not None:
            wanted.append(ROW.c.position == which.position)
        if which.endpoint is not None or which.key is not None:
            wanted.append(is_to(ROW.c, which.endpoint, which.key))
        about = (SOURCE.c.identifier, SOURCE.c.last_error, SOURCE.c.failure)
        query = (
            select(ROW, *about)
            .join_from(ROW, SOURCE, SOURCE.c.id == ROW.c.sequence_id, isouter=True)
            .where(*wanted)
            .order_by(ROW.c.position)
            .limit(limit)
        )
        return [outbound_seen(row) for row in self._tx.read(query)]

    def inbound(self, which: WaitingFilter, limit: int) -> list[WaitingMessage]:
        """Messages that were received and are not consumed, in order of insertion."""
        wanted: list[ColumnElement[bool]] = [INBOUND, MESSAGE.c.position > which.after]
        if which.position is not None:
            wanted.append(MESSAGE.c.position == which.position)
        if which.endpoint is not None:
            wanted.append(SERVICE == which.endpoint)  # noqa: SIM300 - a condition in SQL
        others = MESSAGE.alias("others")
        alike = and_(others.c.sequence == MESSAGE.c.sequence, others.c.kind == InboundKind.MESSAGE.value)
        lowest = select(func.min(others.c.number)).where(alike).scalar_subquery().label("lowest")
        about = (BUFFER.c.service, BUFFER.c.next, BUFFER.c.releases, BUFFER.c.attempts, BUFFER.c.retry_at)
        query = (
            select(*SLIM, *about, BUFFER.c.last_error, BUFFER.c.parked, lowest)
            .join_from(MESSAGE, BUFFER, BUFFER.c.sequence == MESSAGE.c.sequence, isouter=True)
            .where(*wanted)
            .order_by(MESSAGE.c.position)
            .limit(limit)
        )
        return [inbound_seen(row) for row in self._tx.read(query)]

    def whole_outbound(self, position: int) -> OutboundMessage | None:
        """One message with its body."""
        body = [column for column in RMS_BODY.c if column.name != "message_id"]
        query = select(ROW, *body).join_from(ROW, RMS_BODY, ROW.c.message_id == RMS_BODY.c.message_id)
        rows = self._tx.read(query.where(OUTBOUND, ROW.c.position == position))
        return outbound_message(rows[0]) if rows else None

    def whole_inbound(self, position: int) -> InboundMessage | None:
        """One message with its body."""
        rows = self._tx.read(select(MESSAGE).where(INBOUND, MESSAGE.c.position == position))
        return inbound_message(rows[0]) if rows else None

    # --- sequences -------------------------------------------------------------------------------------------------

    def sources(self, after: int, limit: int, *, active: bool) -> list[tuple[int, SourceInStore]]:
        """Source sequences, each with its position."""
        query = select(SOURCE).where(SOURCE.c.position > after).order_by(SOURCE.c.position).limit(limit)
        rows = self._tx.read(query.where(SOURCE.c.ended_at.is_(None)) if active else query)
        ids, keys = [row["id"] for row in rows], {row["key_id"] for row in rows if row["ended_at"] is None}
        numbered = select_any(ROW.c.sequence_id.label("name"), MANY)
        numbered = numbered.where(ROW.c.sequence_id.in_(ids), NUMBERED, WAITING).group_by(ROW.c.sequence_id)
        new = select_any(ROW.c.key_id.label("name"), MANY)
        new = new.where(ROW.c.key_id.in_(keys), not_(NUMBERED), WAITING).group_by(ROW.c.key_id)
        waiting = {row["name"]: row["many"] for row in self._tx.read(numbered)} if ids else {}
        waits_for_number = {row["name"]: row["many"] for row in self._tx.read(new)} if keys else {}
        newest = {row["key_id"]: row["id"] for row in rows}
        found = []
        for row in rows:
            many = waiting.get(row["id"], 0)
            if newest[row["key_id"]] == row["id"]:
                many += waits_for_number.get(row["key_id"], 0)
            found.append((row["position"], SourceInStore(rms_record(row), many)))
        return found

    def destinations(self, after: str, limit: int, *, active: bool) -> list[DestinationInStore]:
        """Destination sequences, ordered by identifier."""
        waits = select(MESSAGE.c.position).where(MESSAGE.c.sequence == DESTINATION.c.identifier, INBOUND).exists()
        query = (
            select(DESTINATION, BUFFER.c.last_error)
            .join_from(DESTINATION, BUFFER, BUFFER.c.sequence == DESTINATION.c.identifier, isouter=True)
            .where(DESTINATION.c.identifier > after)
            .order_by(DESTINATION.c.identifier)
            .limit(limit)
        )
        rows = self._tx.read(query.where(or_(DESTINATION.c.ended_at.is_(None), waits)) if active else query)
        names = [row["identifier"] for row in rows]
        counts = select_any(MESSAGE.c.sequence, MANY).where(MESSAGE.c.sequence.in_(names), INBOUND)
        waiting = (
            {row["sequence"]: row["many"] for row in self._tx.read(counts.group_by(MESSAGE.c.sequence))}
            if names
            else {}
        )
        return [
            DestinationInStore(rmd_record(row), waiting.get(row["identifier"], 0), row["last_error"]) for row in rows
        ]

    # --- sums ------------------------------------------------------------------------------------------------------

    def status(self, limit: int) -> StoreStatus:
        """Totals of the store.

        :param limit: the highest number of endpoints with keys, and of services.
        """
        not_yet = func.sum(case((ROW.c.acknowledged, 0), else_=1))
        pending = and_(ROW.c.acknowledged, ROW.c.expects_response, not_(ROW.c.answered))
        unanswered = func.sum(case((pending, 1), else_=0))
        oldest = func.min(case((and_(not_(ROW.c.acknowledged), IN_TIME), ROW.c.created_at)))
        sums = (not_yet.label("not_yet"), unanswered.label("unanswered"), oldest.label("oldest"))
        (sent,) = self._tx.read(select(*sums).where(WAITING))
        by_key = (
            select(
                *sums,
                func.max(ROW.c.attempts).label("attempts"),
                func.min(ROW.c.channel).label("channel"),
                ROW.c.key_id,
            )
            .where(WAITING)
            .group_by(ROW.c.key_id)
            .order_by(func.coalesce(oldest, func.max(ROW.c.created_at)))
            .limit(limit)
        )
        since = func.min(MESSAGE.c.received_at)
        (received,) = self._tx.read(select_any(MANY, since.label("oldest")).where(INBOUND))
        failing = case((BUFFER.c.attempts > 0, BUFFER.c.sequence))
        by_service = (
            select_any(
                SERVICE.label("service"),
                MANY,
                func.count(distinct(MESSAGE.c.sequence)).label("sequences"),
                func.count(distinct(failing)).label("failing"),
                since.label("oldest"),
            )
            .join_from(MESSAGE, BUFFER, BUFFER.c.sequence == MESSAGE.c.sequence, isouter=True)
            .where(INBOUND)
            .group_by(SERVICE)
            .order_by(since)
            .limit(limit)
        )
        (dead,) = self._tx.read(select_any(MANY, LETTER_BYTES).select_from(DEAD_LETTER))
        (doubt,) = self._tx.read(select_any(MANY, func.min(DECISION.c.decided_at).label("oldest")).where(UNFINISHED))
        return StoreStatus(
            unacknowledged=int(sent["not_yet"] or 0),
            unanswered=int(sent["unanswered"] or 0),
            unhandled=received["many"],
            oldest_unacknowledged=sent["oldest"],
            oldest_unhandled=received["oldest"],
            dead_letters=dead["many"],
            letter_bytes=int(dead["bytes"] or 0),
            in_doubt=doubt["many"],
            oldest_in_doubt=doubt["oldest"],
            outbound=tuple(_endpoint(row) for row in self._tx.read(by_key)),
            inbound=tuple(
                Inbound(
                    service=row["service"],
                    unhandled=row["many"],
                    sequences=row["sequences"],
                    oldest=row["oldest"],
                    failing=row["failing"],
                )
                for row in self._tx.read(by_service)
            ),
        )


def select_any(*columns: Any) -> Select[Any]:
    """`select` of columns of any types."""
    return select(*columns)


def _endpoint(row: Row) -> Outbound:
    key = key_of(row["key_id"], row["channel"])
    return Outbound(
        endpoint=key.endpoint,
        key=key.name,
        unacknowledged=int(row["not_yet"]),
        unanswered=int(row["unanswered"]),
        oldest=row["oldest"],
        attempts=row["attempts"],
    )


def outbound_seen(row: Row) -> WaitingMessage:
    """A row of `RMS_MESSAGE`, with the identifier, last error and failure of its sequence."""
    key = key_of(row["key_id"], row["channel"])
    sent = row["number"] is not None
    if row["acknowledged"]:
        state = (
            "acknowledged, not answered" if row["expects_response"] else "acknowledged, kept until all before it are"
        )
    elif not sent:
        state = "waits for a number" if row["not_before"] is None else "waits for its time"
    else:
        state = "sent, not acknowledged" if row["attempts"] else "waits to be sent"
    again: Any = row["due"] if sent and not (row["acknowledged"] and not row["replays"]) else None
    again = again if sent else row["not_before"]
    return WaitingMessage(
        direction=Direction.OUTBOUND,
        position=row["position"],
        message_id=row["message_id"],
        endpoint=key.endpoint,
        key=key.name,
        sequence=row["identifier"],
        number=row["number"],
        action=row["action"],
        correlation=row["correlation"],
        since=row["created_at"],
        state=state,
        attempts=row["attempts"],
        last_error=row["last_error"] or row["failure"],
        next_try=again,
        expires_at=row["expires_at"],
        not_before=row["not_before"],
        priority=row["priority"] or 0,
    )


def inbound_seen(row: Row) -> WaitingMessage:
    """A row of `INVOKER_MESSAGE`, with the state of its buffer and the lowest number that waits in it."""
    number, lowest = row["number"], row["lowest"]
    in_turn = row["releases"] == Release.NEXT.value
    first = number == lowest and (not in_turn or number == row["next"])
    if row["parked"] == number:
        state = "is being parked"
    elif first:
        state = "fails, and is tried again" if row["attempts"] else "is the next"
    elif in_turn and lowest != row["next"]:
        state = f"waits for number {row['next']}, which has not arrived"
    else:
        state = f"waits for number {lowest}"
    return WaitingMessage(
        direction=Direction.INBOUND,
        position=row["position"],
        message_id=row["message_id"],
        endpoint=row["service"] or "",
        sequence=row["sequence"],
        number=number,
        action=row["action"],
        correlation=row["correlation"],
        since=row["received_at"],
        state=state,
        attempts=row["attempts"] or 0 if first else 0,
        last_error=row["last_error"] if first else None,
        next_try=row["retry_at"] if first else None,
        expires_at=row["expires_at"],
        first=first,
    )
