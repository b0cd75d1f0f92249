"""Responses that leave on the connection of a request (HTTP-05), read from committed rows, many at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mercury.engine import envelopes
from mercury.engine.context import EngineContext
from mercury.engine.dead_letters import DAMAGED, dead_letter
from mercury.engine.exchange import PendingResponse, Response
from mercury.engine.refusal import with_status
from mercury.statemachine.effects import Certainty
from mercury.statemachine.faults import Fault, FaultCode
from mercury.statemachine.messages import AckRequested
from mercury.storage.api import Transaction
from mercury.storage.letters import LetterFilter
from mercury.storage.records import OutboundMessage, RmdRecord, RmsRecord
from mercury.wire.encode import encode, fault_status
from mercury.wire.envelope import HttpMessage

#: The most bytes of stored responses that one transaction reads; a single response may be larger.
MAX_RESPONSE_BYTES = 16 * 1024 * 1024

_APPLICATION_FAULT = Fault(code=FaultCode.SENDER, reason="")


def response(context: EngineContext, record: RmsRecord, row: OutboundMessage, request: RmdRecord | None) -> Response:
    """A numbered response in its envelope, for any exchange of its request.

    :param request: the sequence of the request; the envelope carries its acknowledgement (HTTP-06).
    """
    acknowledgements: envelopes.Acknowledgements = ()
    if request is not None:
        acknowledgements = (request.machine.acknowledgement(context.application.policy(request.service)),)
    envelope = envelopes.message(record, row, acknowledgements=acknowledgements, timed=context.timed)
    fault = record.channel.plain and (row.is_fault or row.damaged)
    return Response(
        request=row.request or "",
        envelope=envelope,
        status=fault_status(_APPLICATION_FAULT, envelope.soap) if fault else None,  # HTTP-03
    )


def in_reply(found: Response, waiting: PendingResponse) -> HttpMessage:
    """A response as the HTTP reply to one of the exchanges that wait for it.

    LIVE-02: some clients answer the AckRequested of a response before they have recorded it, and acknowledge nothing.
    """
    written = found.written.get((waiting.repeated, waiting.mtom))
    if written is not None:  # all waiting exchanges share one copy of a large response
        return written
    envelope = found.envelope
    if waiting.repeated and envelope.sequence is not None:
        envelope = replace(envelope, ack_requests=(AckRequested(envelope.sequence.identifier),))
    http = encode(replace(envelope, mtom=True) if waiting.mtom else envelope)
    if found.status is not None:
        http = with_status(http, found.status)
    found.written[waiting.repeated, waiting.mtom] = http
    return http


def stored_responses(
    tx: Transaction, context: EngineContext, waiting: Sequence[PendingResponse], now: float
) -> tuple[list[Response], frozenset[str]]:
    """The stored ones of the responses that exchanges wait for, read by one query.

    :return: responses of at most `MAX_RESPONSE_BYTES`, or a single larger one; and the requests whose responses were
        not read because of that limit.
    """
    wanted = {each.request: each.sequence for each in waiting}
    found: dict[str, Response] = {}
    unread: set[str] = set()
    for row in tx.rms.responses_to(wanted, MAX_RESPONSE_BYTES):
        about = row.request or ""
        if about in found or not row.channel.back_channel:
            continue
        if row.unread:
            unread.add(about)
            continue
        if row.damaged:
            _dead_letter_once(tx, context, row, now)
        record = next((known for known in tx.rms.peek(row.channel.key) if known.id == row.sequence_id), None)
        if record is not None:
            found[about] = response(context, record, row, tx.rmd.read(wanted[about]))
    return list(found.values()), frozenset(unread.difference(found))


def _dead_letter_once(tx: Transaction, context: EngineContext, row: OutboundMessage, now: float) -> None:
    """Make a damaged response a dead letter, once; a fault is sent in its place at every request for it."""
    key = row.channel.key
    which = LetterFilter(endpoint=key.endpoint, key=key.name, message_id=row.message_id, reason=DAMAGED)
    if not tx.dead_letters.find(which, 1):
        dead_letter(tx, context, [row], DAMAGED, Certainty.UNKNOWN, now)
