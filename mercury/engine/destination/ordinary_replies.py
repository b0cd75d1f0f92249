"""Ordinary replies: responses that travel outside any sequence, because none was offered or taken (LIVE-06).

A reply that comes in gets an invoker buffer of its own, with one message in it: there is no number to order it by. One
that goes out stands in the buffer of a sequence that the peer does not know; see `Role.REPLY`.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from dataclasses import replace

from mercury.engine.addresses import server_of
from mercury.engine.application import FUTURE
from mercury.engine.destination.batch import Batch
from mercury.engine.destination.inbound_exchange import InboundExchange
from mercury.engine.destination.ownership import may_answer
from mercury.statemachine import events
from mercury.statemachine.faults import Fault, FaultCode
from mercury.statemachine.invoker import InvokerBuffer
from mercury.statemachine.messages import IncompleteSequenceBehavior
from mercury.storage.records import InboundMessage, InvokerRecord, OutboundMessage, RmdRecord, RmsRecord, Role
from mercury.wire import ns
from mercury.wire.envelope import Payload

log = logging.getLogger("mercury.engine.reception")

#: How the buffers of single replies are named.
REPLY = "reply:"
#: CreateSequence for responses is given up when it was taken so often, in some seconds, and not answered.
SILENT = 4
#: Sequences of which it is remembered; of others it is counted anew.
REMEMBERED = 10_000
#: Faults that say nothing about whether WS-ReliableMessaging is understood there.
_AWAY = frozenset({FaultCode.DESTINATION_UNREACHABLE, FaultCode.ENDPOINT_UNAVAILABLE})


class SilentCreations:
    """CreateSequence that was taken without a word: how often, by source sequence."""

    def __init__(self) -> None:
        self._counts: OrderedDict[str, int] = OrderedDict()

    def are_enough(self, record_id: str) -> bool:
        """Count another one; whether they are so many that none will be answered."""
        count = self._counts.pop(record_id, 0) + 1
        if count >= SILENT:
            return True
        self._counts[record_id] = count
        if len(self._counts) > REMEMBERED:
            self._counts.popitem(last=False)
        return False


def taken(batch: Batch, exchange: InboundExchange, body: Payload) -> bool:
    """Take a message outside any sequence if it is the response to a request of ours; returns whether it is."""
    row = _request(batch, exchange)
    if row is None or exchange.envelope.action.startswith(tuple(ns.RM_VERSION)) or _says_nothing(exchange, body):
        return False
    _store(batch, exchange, body)
    return True


def taken_alone(batch: Batch, exchange: InboundExchange, request: OutboundMessage, body: Payload) -> bool:
    """Take a response that lies behind a gap if nothing before it matters to who waits for it; returns whether.

    A future waits for its own response only. What fills the gap may never come.
    """
    if not request.expects_response or not (request.callback or "").startswith(FUTURE):
        return False
    _store(batch, exchange, body)
    return True


def fault_taken(batch: Batch, exchange: InboundExchange, fault: Fault) -> bool:
    """Take a fault if it is what the application at the peer answers to a request of ours; returns whether it is.

    It is when the request is acknowledged and no sequence was agreed upon for responses. Otherwise it is about the
    delivery of the request, which goes on.
    """
    raw, row = exchange.envelope.fault, _request(batch, exchange)
    generic = fault.code in (FaultCode.SENDER, FaultCode.RECEIVER) and fault.identifier is None and not fault.busy
    if raw is None or row is None or not generic or exchange.arrival.http.status == 503:
        return False
    request = batch.rms_by_id(row.sequence_id or "")
    if request is None or request.offer_accepted or (row.number or 0) not in request.machine.acknowledged:
        return False
    _store(batch, exchange, raw)
    return True


def answered_plainly(batch: Batch, record: RmsRecord, fault: Fault) -> bool:
    """A sequence for responses is refused where they go to: they are posted there as they are. Returns whether."""
    requested = record.channel.role is Role.RESPONSE and record.machine.alive and record.machine.identifier is None
    if not requested or fault.busy or not fault.sender or fault.code in _AWAY:
        return False
    _post_plainly(batch, record)
    return True


def unanswered_plainly(batch: Batch, record: RmsRecord) -> None:
    """CreateSequence for responses is taken where they go to, time and again, and never answered: they are posted there
    as they are. A client of CXF's with an address that offers nothing knows the element under another name only.
    """
    if record.channel.role is Role.RESPONSE and record.machine.alive and record.machine.identifier is None:
        _post_plainly(batch, record)


def _post_plainly(batch: Batch, record: RmsRecord) -> None:
    batch.tx.rms.delete(record)
    record.channel = replace(record.channel, role=Role.REPLY)
    record.due = batch.now
    identifier, no_discard = batch.context.ids.new(), IncompleteSequenceBehavior.NO_DISCARD
    created = events.Created(identifier=identifier, expires_at=None, incomplete_behavior=no_discard)
    record.machine.handle(created, batch.now, record.channel.policy)
    batch.tx.rms.insert(record)
    log.info("responses are posted outside any sequence", extra={"endpoint": record.channel.endpoint})


def answers(batch: Batch, exchange: InboundExchange, row: OutboundMessage, sequence: RmdRecord | None) -> bool:
    """Whether an arrival may answer this request of ours; if not, the log says so."""
    if may_answer(exchange.arrival, row, batch.rms_by_id(row.sequence_id or ""), sequence):
        return True
    about = {"message_id": row.message_id, "peer": exchange.arrival.peer, "identity": exchange.arrival.identity}
    log.warning("a response is ignored: its request went to another peer", extra=about)
    return False


def _request(batch: Batch, exchange: InboundExchange) -> OutboundMessage | None:
    """The request of ours that an arrival answers, where its responses may come from, while it waits for one."""
    relates_to = exchange.envelope.relates_to
    if relates_to is None or exchange.envelope.sequence is not None or exchange.arrival.service is not None:
        return None
    row = batch.related(relates_to)
    if row is None or not row.expects_response:
        return None
    return row if answers(batch, exchange, row, None) else None


def _says_nothing(exchange: InboundExchange, body: Payload) -> bool:
    """An empty Body is a response like another, but not under 202: then it only carries acknowledgements."""
    reply_to = exchange.envelope.reply_to
    return not body.xml and (exchange.arrival.http.status == 202 or (reply_to is not None and reply_to.none))


def _store(batch: Batch, exchange: InboundExchange, body: Payload) -> None:
    """Keep the first response for its callback; another one is the same again."""
    envelope = exchange.envelope
    row = batch.tx.rms.answered(envelope.relates_to or "")
    if row is None or row.answered:
        return
    policy = batch.context.application.policy(None)
    machine = InvokerBuffer(in_order=True, assurance=policy.assurance, behavior=IncompleteSequenceBehavior.NO_DISCARD)
    identifier = f"{REPLY}{batch.context.ids.new()}"
    channel = row.channel
    owner = channel.identity or server_of(channel.endpoint)
    batch.tx.invoker.insert(InvokerRecord(sequence=identifier, machine=machine, owner=owner))
    batch.add_reply(
        InboundMessage(
            sequence=identifier,
            number=1,
            last=True,
            message_id=envelope.message_id,
            action=envelope.action,
            payload=body.xml,
            element=body.name,
            is_fault=body.is_fault,
            headers=envelope.headers,
            relates_to=envelope.relates_to,
            received_at=batch.now,
            correlation=row.correlation,
        )
    )
    request = batch.rms_by_id(row.sequence_id or "")
    if request is not None:
        batch.raise_rms(request, events.ResponseStored())
