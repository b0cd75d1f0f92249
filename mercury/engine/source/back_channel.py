"""Responses that leave on the connection of a request (HTTP-05), read from committed rows, many at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mercury.engine import envelopes
from mercury.engine.context import EngineContext
from mercury.engine.dead_letters import DAMAGED, dead_letter
from mercury.engine.exchange import PendingResponse, Response, size_of
from mercury.engine.ids import Ids
from mercury.engine.refusal import with_status
from mercury.engine.source.batching import may_be_batched
from mercury.statemachine.effects import Certainty
from mercury.statemachine.faults import Fault, FaultCode
from mercury.statemachine.messages import AckRequested, BatchLimits
from mercury.storage.api import Transaction
from mercury.storage.letters import LetterFilter
from mercury.storage.records import OutboundMessage, RmdRecord, RmsRecord
from mercury.wire import ns
from mercury.wire.encode import encode, fault_status
from mercury.wire.envelope import BatchedMessage, Envelope, HttpMessage, MessageBatch, Payload

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
        batches=BatchLimits(record.batch_messages, record.batch_size) if may_be_batched(record, row) else None,
    )


def in_reply(found: Sequence[Response], waiting: Sequence[PendingResponse], ids: Ids) -> HttpMessage:
    """Responses as the HTTP reply to one of the exchanges that wait for them.

    What does not fit in one envelope is not sent: its requests are repeated.

    LIVE-02: some clients answer the AckRequested of a response before they have recorded it, and acknowledge nothing.

    :param found: at least one response.
    :param waiting: what the exchange waits for, or has waited for.
    """
    repeated, mtom = any(each.repeated for each in waiting), waiting[0].mtom
    together = _together(found)
    if len(together) > 1:
        return encode(_requesting(_batch(together, ids), repeated=repeated))
    first = together[0]
    written = first.written.get((repeated, mtom))
    if written is not None:  # all waiting exchanges share one copy of a large response
        return written
    envelope = _requesting(first.envelope, repeated=repeated)
    http = encode(replace(envelope, mtom=True) if mtom else envelope)
    if first.status is not None:
        http = with_status(http, first.status)
    first.written[repeated, mtom] = http
    return http


def _requesting(envelope: Envelope, *, repeated: bool) -> Envelope:
    if not repeated or envelope.sequence is None:
        return envelope
    return replace(envelope, ack_requests=(AckRequested(envelope.sequence.identifier),))


def _number(response: Response) -> int:
    sequence = response.envelope.sequence
    return 0 if sequence is None else sequence.message_number


def _follows(response: Response, before: Response) -> bool:
    """Whether a response may be the next one of a batch."""
    sequence, last = response.envelope.sequence, before.envelope.sequence
    same = sequence is not None and last is not None and sequence.identifier == last.identifier
    return response.batches is not None and same and _number(response) == _number(before) + 1


def _together(found: Sequence[Response]) -> list[Response]:
    """The first ones, by their numbers, that fit in one envelope."""
    ordered = sorted(found, key=_number)
    together, size = ordered[:1], size_of(ordered[0].envelope) or 0
    limits = together[0].batches
    for each in ordered[1:]:
        size += size_of(each.envelope) or 0
        if limits is None or len(together) >= limits.messages or size > limits.size or not _follows(each, together[-1]):
            break
        together.append(each)
    return together


def _batch(together: Sequence[Response], ids: Ids) -> Envelope:
    """Responses in one envelope, with the newest acknowledgement."""
    envelopes = [response.envelope for response in together]
    messages = [
        BatchedMessage(each.message_id or "", each.action, each.body, each.relates_to, each.expires_in, each.origin)
        for each in envelopes
        if isinstance(each.body, Payload)
    ]
    return replace(
        envelopes[0],
        action=ns.BATCH_ACTION,
        message_id=ids.new(),
        relates_to=None,
        expires_in=None,
        origin=None,
        body=MessageBatch(tuple(messages)),
        acknowledgements=envelopes[-1].acknowledgements,
    )


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
