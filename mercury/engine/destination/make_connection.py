"""WS-MakeConnection: a client without an address polls for its messages (MC-01).

The messages are in ordinary source sequences, whose endpoint is the anonymous URI of the client. Nothing is posted to
it: each MakeConnection gets one message that is due. An unacknowledged message is due again after its retransmission
pause, so a lost answer does no harm. Protocol answers and acknowledgements go out on the connection of the request, as
for a client without any address (MC-06).
"""

from __future__ import annotations

from mercury.engine.destination.batch import Batch
from mercury.engine.destination.inbound_exchange import Fetched, InboundExchange
from mercury.engine.destination.own_ends import is_begun, own_end_envelope
from mercury.engine.destination.selection import is_time, selects_received, selects_source
from mercury.engine.source.polled import PolledWork
from mercury.statemachine import events
from mercury.statemachine.faults import Fault, FaultCode
from mercury.statemachine.messages import MakeConnection
from mercury.storage.records import RmdRecord
from mercury.wire.envelope import Envelope


def fetch(batch: Batch, exchange: InboundExchange, body: MakeConnection) -> None:
    """Answer a MakeConnection with the next selected message that is due, and the due acknowledgements (MC-02)."""
    exchange.fault = _selection_fault(body)
    if exchange.fault is not None or exchange.arrival.request is not None:
        return
    received = [known for known in batch.rmds.values() if selects_received(exchange, known)]
    for known in received:
        batch.acknowledge(exchange, known)
    waiting = [record for record in batch.records() if selects_source(exchange, record)]
    waiting.sort(key=lambda record: record.fetch_due or 0.0)
    exchange.fetched = Fetched(
        next((end for known in received if (end := _own_end(batch, known))), None), pending=False
    )
    for record in waiting:
        if exchange.fetched.envelope is not None:
            break
        work = PolledWork(batch.context, record.channel.key, batch.now)
        found = work.fetch(batch.tx, record, batch.sequences_before(record))
        batch.save_fetched(record)
        exchange.fetched = Fetched(found, pending=False)
    more = any(record.fetch_due is not None and is_time(record.fetch_due, batch.now) for record in waiting)
    exchange.fetched = Fetched(exchange.fetched.envelope, pending=more)


def _own_end(batch: Batch, record: RmdRecord) -> Envelope | None:
    """The CloseSequence or TerminateSequence by which this side ends a sequence; ``None`` = there is none to fetch."""
    if not is_begun(record):
        return None
    envelope = own_end_envelope(batch.context, record)
    assert record.machine.own_end is not None
    batch.raise_rmd(record, events.EndSent(record.machine.own_end, None))
    return envelope


def _selection_fault(body: MakeConnection) -> Fault | None:
    """MC-03"""
    if body.unsupported:
        return Fault(
            code=FaultCode.UNSUPPORTED_SELECTION,
            reason="The selection is not understood.",
            sender=False,
            subject=body.unsupported[0],
        )
    if body.address is None and body.identifier is None:
        return Fault(code=FaultCode.MISSING_SELECTION, reason="Nothing is selected.", sender=False)
    return None


def fetched(batch: Batch, exchange: InboundExchange) -> None:
    """Plan the next MakeConnection after a message was fetched: at once if the peer says that more wait (MC-04).

    If the peer says so and sent nothing new, the next one is sent after a growing pause, as if it had not answered.
    """
    request = exchange.arrival.request
    record = batch.rms_by_id(request.record_id or "") if request is not None else None
    if record is None or not exchange.arrival.fetched or is_make_connection_fault(exchange):
        return
    if exchange.envelope.message_pending and not _is_new(batch, exchange):
        return
    pause = record.channel.policy.polling.delay(1, batch.context.ids.chance())
    at = batch.now if exchange.envelope.message_pending else batch.now + pause
    record.polls, record.poll_due = 0, at
    record.due = at if record.due is None else min(record.due, at)
    batch.save_fetched(record)


def _is_new(batch: Batch, exchange: InboundExchange) -> bool:
    """Whether the arrival is a message of a sequence that was not received before."""
    header = exchange.envelope.sequence
    known = batch.rmd(exchange, header.identifier) if header is not None else None
    return header is not None and known is not None and header.message_number not in known.machine.received


def is_make_connection_fault(exchange: InboundExchange) -> bool:
    """Whether an arrival is a fault about the MakeConnection that it answers, so the peer does not support it."""
    request = exchange.arrival.request
    if request is None or not exchange.arrival.fetched or not isinstance(exchange.envelope.body, Fault):
        return False
    return exchange.envelope.relates_to in (None, request.envelope.message_id)
