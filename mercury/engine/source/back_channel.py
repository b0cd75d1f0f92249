"""Responses that go out on the connection of a request (HTTP-05): from what is committed, many at a time."""

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

#: Bytes of stored responses that one transaction reads; a single one may be larger.
MAX_RESPONSE_BYTES = 16 * 1024 * 1024

_APPLICATION_FAULT = Fault(code=FaultCode.SENDER, reason="")


def response(context: EngineContext, record: RmsRecord, row: OutboundMessage, request: RmdRecord | None) -> Response:
    """A numbered response, in the envelope that any exchange of its request may carry.

    :param request: the sequence of the request; the envelope acknowledges what is known of it (HTTP-06).
    """
    acknowledgements: envelopes.Acknowledgements = ()
    if request is not None:
        acknowledgements = (request.machine.acknowledgement(context.application.policy(request.service)),)
    envelope = envelopes.message(record, row, acknowledgements=acknowledgements)
    fault = record.channel.plain and (row.is_fault or row.damaged)
    return Response(
        request=row.request or "",
        envelope=envelope,
        status=fault_status(_APPLICATION_FAULT, envelope.soap) if fault else None,  # HTTP-03
    )


def in_reply(found: Response, waiting: PendingResponse) -> HttpMessage:
    """A response as the reply to one of the exchanges that wait for it.

    LIVE-02: some clients answer AckRequested on a response before they have recorded it, and acknowledge nothing.
    """
    written = found.written.get(waiting.repeated)
    if written is not None:  # a large one is in memory once, however many wait for it
        return written
    envelope = found.envelope
    if waiting.repeated and envelope.sequence is not None:
        envelope = replace(envelope, ack_requests=(AckRequested(envelope.sequence.identifier),))
    http = encode(envelope)
    if found.status is not None:
        http = with_status(http, found.status)
    found.written[waiting.repeated] = http
    return http


def stored_responses(
    tx: Transaction, context: EngineContext, waiting: Sequence[PendingResponse], now: float
) -> tuple[list[Response], frozenset[str]]:
    """Of the responses that are waited for those that can go out: one question, however many wait.

    :return: the responses, `MAX_RESPONSE_BYTES` of them or one; and the requests whose responses are not read for that.
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
    """A fault goes out in the place of a response that the store gives back altered, whenever it is asked for."""
    key = row.channel.key
    which = LetterFilter(endpoint=key.endpoint, key=key.name, message_id=row.message_id, reason=DAMAGED)
    if not tx.dead_letters.find(which, 1):
        dead_letter(tx, context, [row], DAMAGED, Certainty.UNKNOWN, now)
