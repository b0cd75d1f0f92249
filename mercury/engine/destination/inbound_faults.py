"""Handles inbound faults: about a sequence, about an acknowledgement, or about a message."""

from __future__ import annotations

import logging

from mercury.engine.destination.batch import Batch
from mercury.engine.destination.inbound_exchange import InboundExchange
from mercury.engine.destination.make_connection import is_make_connection_fault
from mercury.engine.destination.ordinary_replies import post_plainly_after_refusal
from mercury.engine.destination.worker import repeat_acknowledgement
from mercury.engine.events import MessageRefused
from mercury.engine.exchange import Outgoing, Purpose
from mercury.engine.source.apply_effects import dead_letter_unanswered
from mercury.statemachine import events
from mercury.statemachine.faults import ABOUT_A_SEQUENCE, OF_RM, Fault, FaultCode, Ranges
from mercury.storage.records import RmdRecord, RmsRecord

log = logging.getLogger("mercury.engine.reception")


def faulted(batch: Batch, exchange: InboundExchange, fault: Fault) -> None:
    """Handle a fault. It is never answered (FLT-14)."""
    request = exchange.arrival.request
    if request is not None and not exchange.arrival.fetched and not _answers(batch, request, exchange):
        batch.warn(exchange, "a fault is ignored: it is the answer to another request", sequence=fault.identifier)
        return
    if request is not None and request.purpose in (Purpose.ACKNOWLEDGEMENT, Purpose.DESTINATION_END):
        _about_acknowledgement(batch, exchange, request, fault)
        return
    if request is not None and is_make_connection_fault(exchange):
        batch.warn(exchange, f"the peer does not take MakeConnection: {fault.reason!r}", endpoint=request.url)
        return
    record = _source(batch, exchange, fault)
    if record is None and _ends_received(batch, exchange, fault):
        return
    if record is None:
        log.info("a fault names no known sequence or message: %r", fault.reason, extra={"fault": fault.code.value})
        return
    if post_plainly_after_refusal(batch, record, fault):
        return
    before, record.last_error = record.last_error, f"{fault.code.value}: {fault.reason}"
    # Every retransmission may get the same fault, and a peer may alternate between two.
    news = record.last_error != before and batch.context.peer_log.allow(exchange.arrival.owner, batch.now)
    log.log(
        logging.WARNING if news else logging.DEBUG,
        "the peer answers with fault %s: %r",
        fault.code.value,
        fault.reason,
        extra={"sequence": record.machine.identifier, "number": request.number if request else None},
    )
    if fault.code in OF_RM:
        alive = record.machine.alive
        final, offered = _final_ranges(exchange, record, fault), record.offered is not None
        batch.raise_rms(record, events.FaultReceived(fault, final, offered))
        if alive and not record.machine.alive and fault.code is FaultCode.UNKNOWN_SEQUENCE:
            # A peer that no longer knows the sequence no longer knows the requests in it.
            dead_letter_unanswered(batch.tx, batch.context, record, batch.now)
        return
    batch.change_rms(record)
    if fault.busy:
        return
    if request is not None and request.last is not None:
        _send_singly(batch, record, request.number or 0, request.last)
    key = record.channel.key
    event = MessageRefused(
        at=batch.now,
        endpoint=key.endpoint,
        key=key.name,
        message_id=exchange.envelope.relates_to,
        reason=record.last_error,
    )
    batch.context.observers.emit(batch.tx, event)


def _send_singly(batch: Batch, record: RmsRecord, first: int, last: int) -> None:
    """The destination refuses a batch as a whole: its messages, and those after them, are sent singly."""
    record.batch_messages = 1  # not 0, which would say that it is not Mercury: then it is not asked after a start
    batch.tx.rms.resend(record, range(first, last + 1), batch.now)
    record.due = batch.now


def _answers(batch: Batch, request: Outgoing, exchange: InboundExchange) -> bool:
    return batch.context.security.answers(request.envelope, request.url, exchange.envelope)


def _about_acknowledgement(batch: Batch, exchange: InboundExchange, request: Outgoing, fault: Fault) -> None:
    """ST-D12, ST-D13: a source that does not know its own sequence will send nothing more of it."""
    record = batch.rmds.get(request.rmd or "")
    if record is None:
        return
    if fault.code in (FaultCode.UNKNOWN_SEQUENCE, FaultCode.SEQUENCE_TERMINATED) and record.machine.used:
        _end_received(batch, record)
        return
    what = "an acknowledgement" if request.purpose is Purpose.ACKNOWLEDGEMENT else "the end of a sequence"
    batch.warn(exchange, f"{what} was refused: {fault.reason!r}", sequence=request.rmd)
    if fault.code not in ABOUT_A_SEQUENCE and request.purpose is Purpose.ACKNOWLEDGEMENT:
        repeat_acknowledgement(record, batch.now)  # the source could not process it now
        batch.change_rmd(record)


def _ends_received(batch: Batch, exchange: InboundExchange, fault: Fault) -> bool:
    """Whether a fault says that its sender, the source of a sequence that is received here, has ended it (FLT-01)."""
    if fault.code is not FaultCode.SEQUENCE_TERMINATED or fault.identifier is None:
        return False
    record = batch.rmd(exchange, fault.identifier)
    if record is None:
        return False
    if not record.machine.tombstone:
        why = f"a source has ended its sequence by a fault: {fault.reason!r}"
        batch.warn(exchange, why, sequence=fault.identifier)
        _end_received(batch, record)
    return True


def _end_received(batch: Batch, record: RmdRecord) -> None:
    """End a received sequence as one that expires: its last number is not known. The worker deletes an unused one."""
    record.machine.end_by(batch.now)
    batch.change_rmd(record)
    if record.machine.used:
        batch.raise_rmd(record, events.Tick())
        batch.raise_rmd(record, events.EndAnswered())


def _source(batch: Batch, exchange: InboundExchange, fault: Fault) -> RmsRecord | None:
    """The source sequence of a fault: by its detail, by the request that it answers, or by the message it relates
    to."""
    if fault.identifier is not None:
        named = batch.rms(exchange, fault.identifier)
        if named is not None or fault.code in ABOUT_A_SEQUENCE:
            return named  # a fault about a piggybacked acknowledgement must not fail the sequence of its message
    request = exchange.arrival.request
    if request is not None and request.record_id is not None and not exchange.arrival.fetched:
        record = batch.rms_by_id(request.record_id)
        if record is None or request.purpose is not Purpose.CREATE:
            return record
        if request.envelope.message_id != record.create_message_id:
            return None  # CreateSequence is another message by now: the offer of the first one was refused before
        return record
    relates_to = exchange.envelope.relates_to
    if relates_to is None:
        return None
    made = batch.rms_by_create(exchange, relates_to)
    if made is not None:
        return made
    row = batch.related(relates_to)
    return batch.rms_of(exchange, row) if row is not None else None


def _final_ranges(exchange: InboundExchange, record: RmsRecord, fault: Fault) -> Ranges | None:
    """WS-RM 1.0 has no Final: an acknowledgement with the fault that ends a sequence is the final one."""
    ends = fault.code is FaultCode.SEQUENCE_TERMINATED
    for acknowledgement in exchange.envelope.acknowledgements:
        if acknowledgement.identifier == record.machine.identifier and (acknowledgement.final or ends):
            return acknowledgement.ranges
    return None
