"""Fills a store with as many messages as an operator of a large one has, by statements that make many rows at once.

One message of each kind is stored as the engine stores it, and the others are copies of its row with names, numbers and
times of their own. Sequences have the records that belong to their rows. The checksums of copies are not theirs: a
process that ran on this store would take them for damaged, so it is only for reading.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    CTE,
    ColumnElement,
    FromClause,
    Table,
    Text,
    and_,
    case,
    cast,
    false,
    insert,
    literal,
    or_,
    select,
    update,
)

from mercury.operations.operator import Operations
from mercury.statemachine.effects import Certainty
from mercury.statemachine.events import FailureReason
from mercury.statemachine.invoker import InvokerBuffer
from mercury.statemachine.messages import EndpointReference
from mercury.statemachine.policy import DestinationPolicy
from mercury.statemachine.protocol import Protocol, RmVersion
from mercury.statemachine.ranges import RangeSet
from mercury.statemachine.rmd import RMDSequence
from mercury.statemachine.rms import RMSSequence
from mercury.statemachine.tables import InvokerState, RmdState, RmsState
from mercury.storage.audit import Actor, AuditEntry, TargetKind, Via
from mercury.storage.bulk import BulkAction
from mercury.storage.claims import SUSPENDED
from mercury.storage.letters import EVERY_LETTER, DeadLetter, Direction
from mercury.storage.nodes import Node, Traffic
from mercury.storage.records import (
    Channel,
    InboundMessage,
    InvokerRecord,
    OutboundMessage,
    RmdRecord,
    RmsRecord,
    SequenceKey,
)
from mercury.storage.sql.codec import invoker_values, rmd_values, rms_values
from mercury.storage.sql.reads.operators import audit_values
from mercury.storage.sql.schema import (
    AUDIT,
    CLAIM,
    DEAD_LETTER,
    DECISION,
    INCARNATION,
    INVOKER_BUFFER,
    INVOKER_MESSAGE,
    PAUSED_SERVICE,
    RMD_SEQUENCE,
    RMS_BODY,
    RMS_KEPT,
    RMS_KEY,
    RMS_MESSAGE,
    RMS_SEQUENCE,
    TRAFFIC,
)
from mercury.storage.sql.store import SqlStore
from mercury.storage.xa.decisions import Verdict
from mercury.storage.xa.names import Gtrid

#: The parts of the messages, in percent; the rest waits to be sent or acknowledged.
RECEIVED, DEAD, SETTLED = 30, 10, 10
#: Fewer do not have every kind of sequence and every page of a list.
LEAST_MESSAGES, LEAST_SEQUENCES = 1000, 40
ENDPOINTS = tuple(f"https://partner-{number}.example/services/orders" for number in range(20))
SERVICES = ("orders", "prices", "returns", "stock", "invoices", "payments", "parcels", "customers")
PAUSED = "prices"
REASONS = ("given up after 10 transmissions", "expired", "the destination refused the sequence")
ERRORS = ("LookupError: no article for this order", "ValueError: the amount is negative")
#: Sequences of each twenty, by their number: ten have ended.
SENDING, IDLE, CREATING = range(10, 17), 17, 18
WITH_GAP, FAILING, COMPLETE = (15, 16), (17, 18), 19
#: Those with messages.
SENDERS, RECEIVERS = (*SENDING, CREATING, 19), range(10, 20)
#: Messages of each sequence that the application has consumed.
PASSED = 100
#: The id of the store of a destination.
WAREHOUSE_STORE = "the-store-of-the-warehouse"
#: Seconds in which the messages came, and minutes of which the traffic is kept.
SPAN, MINUTES = 86_400.0, 360
ORDER = (
    b'<o:PlaceOrder xmlns:o="urn:shop"><o:id>4711</o:id><o:customer>Ada &amp; Sons</o:customer><o:items>'
    + b'<o:item count="2"><o:article>lamp</o:article><o:price>12.50</o:price></o:item>' * 5
    + b"</o:items></o:PlaceOrder>"
)
ACTION, ELEMENT = "urn:shop/PlaceOrder", "{urn:shop}PlaceOrder"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What pages of one thing show."""

    #: Identifiers of a source whose first message is not acknowledged, and of a destination with a gap.
    source: str
    destination: str
    #: The endpoint, the key and the correlation of the message to send.
    endpoint: str
    key: str
    correlation: str
    #: The positions of a message to send, and of one whose handler fails.
    outbound: int
    inbound: int
    letter: str
    gtrid: str
    #: The number of an action on many dead letters.
    bulk: int
    #: The MessageID of a message that is done.
    settled: str = "urn:uuid:settled-1"
    service: str = SERVICES[0]


def fill(store: SqlStore, messages: int, sequences: int, now: float) -> Shown:
    """Fill an empty store.

    :param messages: in all: to send, received, dead letters, and settled ones of which the correlation is kept.
    :param sequences: half of them sources, half of them destinations.
    :param now: seconds since the epoch.
    :raises ValueError: they are too few.
    """
    if messages < LEAST_MESSAGES or sequences < LEAST_SEQUENCES:
        raise ValueError(f"a store to look at has at least {LEAST_MESSAGES} messages, and {LEAST_SEQUENCES} sequences")
    received, dead, settled = (messages * percent // 100 for percent in (RECEIVED, DEAD, SETTLED))
    waiting, half = messages - received - dead - settled, sequences // 2
    sources = [_source(number, half, waiting, now) for number in range(half)]
    received_by = [_destination(number, half, received, now) for number in range(half)]
    source = sources[SENDING[2]]
    failing = received_by[FAILING[0]]
    source.store = WAREHOUSE_STORE
    _store_sequences(store, sources, received_by, now)
    outbound = _store_outbound(store, source, waiting, half, now)
    inbound = _store_inbound(store, failing, received, half, now)
    letter = _store_letters(store, dead, now)
    _store_settled(store, settled, now)
    destination = received_by[WITH_GAP[0]].identifier
    gtrid = _store_operations(store, (source.machine.identifier or "", destination), max(messages // 20, 200), now)
    with store.transaction() as tx:
        tx.peer_stores.agree(source.channel.endpoint, WAREHOUSE_STORE, now)
        tx.peer_stores.refuse(source.channel.endpoint, "another store", "http://elsewhere.example/", now)
    bulk = Operations(store, lambda: now).bulk_actions.begin(BulkAction.REDRIVE, EVERY_LETTER, Actor("Grace")).id
    if store.dialect.name == "postgresql":
        with store.reading() as connection:  # what autovacuum does by itself, at a time of its own
            connection.exec_driver_sql("vacuum analyze")
    return Shown(
        source=source.machine.identifier or "",
        destination=destination,
        endpoint=source.channel.endpoint,
        key=source.channel.key.name,
        correlation=_correlation(source.id, 1),
        outbound=outbound,
        inbound=inbound,
        letter=letter,
        gtrid=gtrid,
        bulk=bulk,
    )


# --- sequences -------------------------------------------------------------------------------------------------------


def _of(number: int, half: int, rows: int, kinds: Collection[int]) -> int:
    """How many rows each sequence of these kinds has, rounded up; of another kind none."""
    having = sum(1 for each in range(half) if each % 20 in kinds)
    return -(-rows // having) if number % 20 in kinds else 0


def _channel(number: int) -> Channel:
    key = SequenceKey(ENDPOINTS[number % len(ENDPOINTS)], f"customer-{number}")
    return Channel(key=key, reply_to=EndpointReference("https://shop.example/responses"))


def _source(number: int, half: int, waiting: int, now: float) -> RmsRecord:
    """Of the rows of a source, the first is not acknowledged; those up to half of the transmitted ones are."""
    kind, created = number % 20, now - SPAN - number
    mine = _of(number, half, waiting, SENDERS)
    sent, numbered = mine * 3 // 10, mine * 4 // 10
    machine = RMSSequence(RmVersion.RM11, RmsState.ENDED, now - 60.0, identifier=f"urn:uuid:source-{number:08}")
    record = RmsRecord(
        id=f"source-{number:08}",
        channel=_channel(number),
        machine=machine,
        created_at=created,
        create_message_id=f"urn:uuid:create-{number:08}",
    )
    if number % 4 == 0:
        record.offered, record.offer_accepted = _identifier(number), True
    if kind in SENDING or kind > CREATING:
        machine.state = RmsState.SENDING
        machine.last_number, machine.highest_sent = numbered, sent
        machine.acknowledged = RangeSet([(2, sent // 2)]) if sent >= 4 else RangeSet()
        record.due = now + 30.0
    elif kind == IDLE:
        machine.state, machine.last_number, machine.highest_sent = RmsState.IDLE, PASSED, PASSED
        machine.acknowledged = RangeSet([(1, PASSED)])
    elif kind == CREATING:
        machine.state, machine.identifier, machine.last_number = RmsState.CREATING, None, numbered
        record.due = now + 30.0
    else:
        machine.closed, machine.last_number, machine.highest_sent = True, PASSED, PASSED
        machine.acknowledged = RangeSet([(1, PASSED)])
        machine.last_message, machine.settled_at = PASSED, now - 600.0
        record.ended_at = now - 600.0
    if kind > CREATING:
        machine.failure, record.ended_at, record.due = FailureReason.REFUSED, now - 300.0, None
    if kind in (SENDING[-1], CREATING):
        record.last_error = "connection refused"
    return record


def _identifier(number: int) -> str:
    return f"urn:uuid:destination-{number:08}"


@dataclass(frozen=True, slots=True)
class _Destination:
    record: RmdRecord
    #: ``None`` = everything was delivered.
    buffer: InvokerRecord | None

    @property
    def identifier(self) -> str:
        return self.record.identifier


def _destination(number: int, half: int, received: int, now: float) -> _Destination:
    kind, identifier = number % 20, _identifier(number)
    mine = _of(number, half, received, RECEIVERS)
    service = SERVICES[number % len(SERVICES)] if number % 4 else None
    machine = RMDSequence(identifier, RmVersion.RM11, now - 60.0, RmdState.RECEIVING, used=True)
    gap = kind in WITH_GAP
    machine.received = RangeSet([(1, PASSED), (PASSED + 2, PASSED + 1 + mine)] if gap else [(1, PASSED + mine)])
    record = RmdRecord(
        machine=machine,
        protocol=Protocol(),
        acks_to=EndpointReference(f"{ENDPOINTS[number % len(ENDPOINTS)]}/acks"),
        created_at=now - SPAN - number,
        service=service,
        create_message_id=f"urn:uuid:theirs-{number:08}",
        to=f"https://shop.example/services/{service or 'responses'}",
        peer=f"192.0.2.{number % 250}",
    )
    if not mine:
        machine.state, machine.last_number, machine.ended_at = RmdState.ENDED_COMPLETE, PASSED, now - 600.0
        return _Destination(record, None)
    buffer = InvokerBuffer.for_policy(DestinationPolicy())
    buffer.passed = RangeSet([(1, PASSED)])
    buffer.state = InvokerState.EMPTY if gap else InvokerState.RELEASING
    held = InvokerRecord(sequence=identifier, machine=buffer, service=service, owner=record.owner)
    if kind in FAILING:
        held.attempts, held.retry_at, held.last_error = 4, now + 60.0, ERRORS[kind % len(ERRORS)]
    if kind == COMPLETE:
        machine.state, machine.last_number = RmdState.COMPLETE, PASSED + mine
        buffer.state, buffer.last = InvokerState.RELEASING_LAST, PASSED + mine
    return _Destination(record, held)


def _store_sequences(store: SqlStore, sources: list[RmsRecord], destinations: list[_Destination], now: float) -> None:
    keys = [each.channel.key for each in sources]
    buffers = [each.buffer for each in destinations if each.buffer is not None]
    held = [f"rms {each.channel.key.digest}" for each in sources if each.due is not None]
    held += [f"invoker {each.sequence}" for each in buffers]
    claims = [
        {
            "resource": resource,
            "owner": f"{SUSPENDED}Grace" if number % 200 == 0 else f"app-{number % 10}",
            "epoch": 1,
            "until": now + 30.0,
        }
        for number, resource in enumerate(held)
    ]
    with store.transaction() as tx:
        connection = tx.connection()
        for table, rows in (
            (RMS_KEY, [{"key_id": each.digest, "endpoint": each.endpoint, "name": each.name} for each in keys]),
            (RMS_SEQUENCE, [rms_values(each) for each in sources]),
            (RMD_SEQUENCE, [rmd_values(each.record) for each in destinations]),
            (INVOKER_BUFFER, [invoker_values(each) | {"turn": 0} for each in buffers]),
            (CLAIM, claims),
        ):
            connection.execute(insert(table), rows)


# --- messages --------------------------------------------------------------------------------------------------------


def _series(last: int) -> CTE:
    """The numbers from 1 on."""
    first = select(literal(1).label("n")).cte("series", recursive=True)
    return first.union_all(select(first.c.n + 1).where(first.c.n < last))


def _copies(
    table: Table,
    template: FromClause,
    others: FromClause,
    values: Mapping[str, Any],
    *where: ColumnElement[bool],
    order: Sequence[ColumnElement[Any]] = (),
    limit: int | None = None,
) -> Any:
    """A statement that inserts copies of a row with other values in some columns.

    :param others: the template, joined with what the copies are for; a copy for each row.
    """
    columns = [each for each in table.c if each.name in values or each.autoincrement is not True]
    selected = [values.get(each.name, template.c[each.name]) for each in columns]
    rows = select(*selected).select_from(others).where(*where).order_by(*order).limit(limit)
    return insert(table).from_select([each.name for each in columns], rows)


def _text(value: ColumnElement[Any]) -> ColumnElement[str]:
    return cast(value, Text)


def _correlation(sequence: str, number: int) -> str:
    return f"order-{sequence}-{number}"


def _store_outbound(store: SqlStore, shown: RmsRecord, many: int, half: int, now: float) -> int:
    """The messages to send; returns the position of the first of ``shown``."""
    name = "urn:uuid:the-message-to-send"
    with store.transaction() as tx:
        correlation = _correlation(shown.id, 1)
        tx.rms.append(
            OutboundMessage(
                message_id=name,
                channel=shown.channel,
                action=ACTION,
                payload=ORDER,
                correlation=correlation,
                created_at=now - SPAN,
            )
        )
    mine = _of(SENDING[0], half, many, SENDERS)
    row, source, series = RMS_MESSAGE.alias("template"), RMS_SEQUENCE, _series(mine)
    n = series.c.n
    having = or_(source.c.due.is_not(None), source.c.failure.is_not(None))
    numbered, sent = n <= source.c.last_number, n <= source.c.highest_sent
    acknowledged = and_(n >= 2, n <= source.c.highest_sent // 2)
    requests = and_(acknowledged, n % 5 == 0)
    values = {
        "message_id": source.c.id + literal("-") + _text(n),
        "key_id": source.c.key_id,
        "channel": source.c.channel,
        "correlation": literal("order-") + source.c.id + literal("-") + _text(n),
        "created_at": literal(now - SPAN) + n * literal(SPAN / mine),
        "sequence_id": case((numbered, source.c.id)),
        "number": case((numbered, n)),
        "attempts": case((sent, 1), else_=0),
        "due": literal(now + 30.0),
        "acknowledged": acknowledged,
        "expects_response": requests,
        "answered": false(),
    }
    others = row.join(source, having).join(series, or_(source.c.id != shown.id, n > 1))
    rows = _copies(
        RMS_MESSAGE, row, others, values, row.c.message_id == name, order=(n, source.c.position), limit=many - 1
    )
    body, copy = RMS_BODY.alias("template"), RMS_MESSAGE
    bodies = body.join(copy, copy.c.message_id != name)
    of_copy = {"message_id": copy.c.message_id}
    is_first = RMS_MESSAGE.c.message_id == name
    first = {"sequence_id": shown.id, "number": 1, "attempts": 3, "due": now + 30.0}
    with store.transaction() as tx:
        connection = tx.connection()
        connection.execute(update(RMS_MESSAGE).where(is_first).values(first))
        connection.execute(rows)
        connection.execute(_copies(RMS_BODY, body, bodies, of_copy, body.c.message_id == name))
        return int(connection.execute(select(RMS_MESSAGE.c.position).where(is_first)).scalar_one())


def _store_inbound(store: SqlStore, shown: _Destination, many: int, half: int, now: float) -> int:
    """The received messages; returns the position of the first of ``shown``."""
    name = "urn:uuid:the-received-message"
    with store.transaction() as tx:
        tx.invoker.add(
            [
                InboundMessage(
                    sequence=shown.identifier,
                    number=PASSED + 1,
                    message_id=name,
                    action=ACTION,
                    payload=ORDER,
                    element=ELEMENT,
                    received_at=now - SPAN,
                    correlation="their-order-1",
                )
            ]
        )
    mine = _of(FAILING[0], half, many, RECEIVERS)
    row, buffer, series = INVOKER_MESSAGE.alias("template"), INVOKER_BUFFER, _series(mine)
    n = series.c.n
    gap = case((RMD_SEQUENCE.c.received.like("% %"), 1), else_=0)
    number = buffer.c.next + gap + n - 1
    values = {
        "sequence": buffer.c.sequence,
        "number": number,
        "message_id": buffer.c.sequence + literal("-") + _text(number),
        "correlation": literal("their-") + buffer.c.sequence + literal("-") + _text(number),
        "received_at": literal(now - SPAN) + n * literal(SPAN / mine),
    }
    others = (
        row.join(buffer, buffer.c.attempts >= 0)
        .join(RMD_SEQUENCE, RMD_SEQUENCE.c.identifier == buffer.c.sequence)
        .join(series, or_(buffer.c.sequence != shown.identifier, n > 1))
    )
    rows = _copies(
        INVOKER_MESSAGE, row, others, values, row.c.message_id == name, order=(n, buffer.c.sequence), limit=many - 1
    )
    with store.transaction() as tx:
        connection = tx.connection()
        connection.execute(rows)
        query = select(INVOKER_MESSAGE.c.position).where(INVOKER_MESSAGE.c.message_id == name)
        return int(connection.execute(query).scalar_one())


def _letters(now: float) -> Iterator[DeadLetter]:
    """One of each group."""
    for number, endpoint in enumerate(ENDPOINTS):
        channel = _channel(number)
        for reason in REASONS:
            yield DeadLetter(
                id=f"letter-{number}-{REASONS.index(reason)}",
                direction=Direction.OUTBOUND,
                reason=reason,
                certainty=Certainty.UNKNOWN if reason == REASONS[0] else Certainty.NOT_DELIVERED,
                dead_at=now - SPAN,
                message_id=f"urn:uuid:dead-{number}-{REASONS.index(reason)}",
                endpoint=endpoint,
                key=channel.key.name,
                action=ACTION,
                payload=ORDER,
                correlation=f"dead-{number}",
                created_at=now - SPAN - 3600.0,
                channel=channel,
            )
    for number, service in enumerate(SERVICES):
        for error in ERRORS:
            yield DeadLetter(
                id=f"received-{number}-{ERRORS.index(error)}",
                direction=Direction.INBOUND,
                reason=error,
                certainty=Certainty.NOT_DELIVERED,
                dead_at=now - SPAN,
                message_id=f"urn:uuid:refused-{number}-{ERRORS.index(error)}",
                endpoint=service,
                sequence=_identifier(number),
                number=1,
                action=ACTION,
                payload=ORDER,
                element=ELEMENT,
                created_at=now - SPAN - 3600.0,
                owner=f"192.0.2.{number}",
                disowned=True,
            )


def _store_letters(store: SqlStore, many: int, now: float) -> str:
    letters = list(_letters(now))
    with store.transaction() as tx:
        tx.dead_letters.add(letters)
    series = _series(-(-many // len(letters)))
    row = DEAD_LETTER.alias("template")
    values = {
        "id": row.c.id + literal("-") + _text(series.c.n),
        "message_id": row.c.message_id + literal("-") + _text(series.c.n),
        "correlation": row.c.correlation + literal("-") + _text(series.c.n),
        "dead_at": row.c.dead_at + series.c.n,
    }
    others, order = row.join(series, series.c.n > 0), (series.c.n, row.c.position)
    rows = _copies(DEAD_LETTER, row, others, values, order=order, limit=max(0, many - len(letters)))
    with store.transaction() as tx:
        tx.connection().execute(rows)
    return letters[0].id


def _store_settled(store: SqlStore, many: int, now: float) -> None:
    ended = RMS_SEQUENCE.c.ended_at.is_not(None)
    with store.transaction() as tx:
        connection = tx.connection()
        series = _series(many)
        first = select(RMS_SEQUENCE.c.id).where(ended).order_by(RMS_SEQUENCE.c.position).limit(1).scalar_subquery()
        rows = select(
            literal("urn:uuid:settled-") + _text(series.c.n),
            literal("settled-") + _text(series.c.n),
            first,
            series.c.n,
            literal(now - SPAN) + series.c.n * literal(SPAN / many),
            literal(now - SPAN) + series.c.n * literal(SPAN / many),
        )
        connection.execute(insert(RMS_KEPT).from_select([each.name for each in RMS_KEPT.c], rows))


# --- operators -------------------------------------------------------------------------------------------------------


def _store_operations(store: SqlStore, targets: tuple[str, ...], actions: int, now: float) -> str:
    """Nodes, traffic, transactions in doubt and the audit; returns the name of a transaction."""
    for number in range(20):
        node = Node(
            id=f"app-{number}",
            host=f"app-{number}",
            pid=4711,
            version="0.1.0",
            started_at=now - SPAN,
            seen_at=now - 2.0 if number < 10 else now - 3600.0,
            services=SERVICES,
            roles=("sends", "serves"),
            threads=24,
        )
        store.note_node(node)
        done = [Traffic(service, 0, 0, 40, 38, 40, 2, 0.8) for service in SERVICES]
        store.add_traffic(node.id, now, [Traffic("", 300, 12), *done])
    gtrids = [str(Gtrid(store.id, f"{number:032x}", 1)) for number in range(50)]
    incarnations = [
        {"id": f"{number:032x}", "started_at": now - SPAN, "seen_at": now - 600.0, "dead": True}
        for number in range(len(gtrids))
    ]
    decisions = [
        {
            "gtrid": gtrid,
            "outcome": Verdict.COMMIT.value,
            "incarnation": f"{number:032x}",
            "branches": json.dumps({"app": 1000 + number}),
            "decided_at": now - 600.0 - number,
        }
        for number, gtrid in enumerate(gtrids)
    ]
    row, series, minutes = AUDIT.alias("template"), _series(-(-actions // len(targets))), _series(MINUTES - 1)
    values = {
        "at": row.c.at + series.c.n * literal(SPAN / actions),
        "target": case((series.c.n % 100 == 0, row.c.target), else_=row.c.target + literal("-") + _text(series.c.n)),
    }
    others, order = row.join(series, series.c.n > 0), (series.c.n, row.c.position)
    actions_of_others = _copies(AUDIT, row, others, values, order=order, limit=actions - len(targets))
    earlier = TRAFFIC.alias("template")
    before = earlier.join(minutes, minutes.c.n > 0)
    traffic = _copies(TRAFFIC, earlier, before, {"minute": earlier.c.minute - minutes.c.n})
    with store.transaction() as tx:
        connection = tx.connection()
        connection.execute(insert(INCARNATION), incarnations)
        connection.execute(insert(DECISION), decisions)
        connection.execute(insert(PAUSED_SERVICE), {"service": PAUSED, "paused_at": now - 60.0, "paused_by": "Grace"})
        connection.execute(insert(AUDIT), [_action(target, now) for target in targets])
        connection.execute(actions_of_others)
        connection.execute(traffic)
    return gtrids[0]


def _action(target: str, now: float) -> dict[str, object]:
    return audit_values(
        AuditEntry(
            at=now - SPAN,
            actor="Grace",
            via=Via.CLI,
            action="suspend",
            kind=TargetKind.SEQUENCE,
            target=target,
            before={"owner": "app-1"},
            after={"owner": f"{SUSPENDED}Grace"},
            note="the warehouse moves",
        )
    )
