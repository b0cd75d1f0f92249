"""WS-MakeConnection: a client that nothing can be posted to asks for what waits for it (MC-01).

What waits are the records of every other sequence: nothing is posted to the anonymous URI of a client, and one message
at a time is handed out when it is due. A message that is not acknowledged is handed out again after its pause, so it
does not matter whether the answer arrived. Answers of the protocol and acknowledgements go out on the connection of
what they answer, as to a client without any address (MC-06).
"""

from __future__ import annotations

from mercury.engine.destination.batch import Batch
from mercury.engine.destination.inbound_exchange import Fetched, InboundExchange
from mercury.engine.destination.selection import is_time, selects_received, selects_source
from mercury.engine.source.polled import PolledWork
from mercury.statemachine.faults import Fault, FaultCode
from mercury.statemachine.messages import MakeConnection


def fetch(batch: Batch, exchange: InboundExchange, body: MakeConnection) -> None:
    """Find the next message that is due and selected, with the acknowledgements that wait (MC-02)."""
    exchange.fault = _selection_fault(body)
    if exchange.fault is not None or exchange.arrival.request is not None:
        return
    for known in batch.rmds.values():
        if selects_received(exchange, known):
            batch.acknowledge(exchange, known)
    waiting = [record for record in batch.records() if selects_source(exchange, record)]
    waiting.sort(key=lambda record: record.fetch_due or 0.0)
    exchange.fetched = Fetched(None, pending=False)
    for record in waiting:
        if exchange.fetched.envelope is not None:
            break
        work = PolledWork(batch.context, record.channel.key, batch.now)
        found = work.fetch(batch.tx, record, batch.sequences_before(record))
        batch.keep_fetched(record)
        exchange.fetched = Fetched(found, pending=False)
    more = any(record.fetch_due is not None and is_time(record.fetch_due, batch.now) for record in waiting)
    exchange.fetched = Fetched(exchange.fetched.envelope, pending=more)


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
    if record is None or not exchange.arrival.fetched or is_about_the_question(exchange):
        return
    if exchange.envelope.message_pending and not _is_new(batch, exchange):
        return
    pause = record.channel.policy.polling.delay(1, batch.context.ids.chance())
    at = batch.now if exchange.envelope.message_pending else batch.now + pause
    record.polls, record.poll_due = 0, at
    record.due = at if record.due is None else min(record.due, at)
    batch.keep_fetched(record)


def _is_new(batch: Batch, exchange: InboundExchange) -> bool:
    """Whether it is a message of a sequence that has not arrived before."""
    header = exchange.envelope.sequence
    known = batch.rmd(exchange, header.identifier) if header is not None else None
    return header is not None and known is not None and header.message_number not in known.machine.received


def is_about_the_question(exchange: InboundExchange) -> bool:
    """Whether what came in answer to a MakeConnection is a fault about that: the peer does not take it."""
    request = exchange.arrival.request
    if request is None or not exchange.arrival.fetched or not isinstance(exchange.envelope.body, Fault):
        return False
    return exchange.envelope.relates_to in (None, request.envelope.message_id)
