"""What an arrival means: each header block and body goes to the part that knows it."""

from __future__ import annotations

from typing import assert_never

from mercury.engine import lifecycle, messages, replies, responses
from mercury.engine.batch import Batch
from mercury.engine.drafts import Draft, unknown_sequence
from mercury.engine.parts import Parts
from mercury.statemachine import events
from mercury.statemachine.faults import Fault
from mercury.statemachine.messages import (
    ANONYMOUS_ENDPOINT,
    CloseSequence,
    CloseSequenceResponse,
    CreateSequence,
    CreateSequenceResponse,
    EndpointReference,
    MakeConnection,
    SequenceAcknowledgement,
    TerminateSequence,
    TerminateSequenceResponse,
)
from mercury.wire.envelope import Payload


def handle(batch: Batch, draft: Draft) -> None:
    """Handle one arrival: header blocks first, then the body, then what was asked to be acknowledged."""
    envelope = draft.envelope
    draft.fault_to = _fault_to(batch.parts, draft)
    standalone = isinstance(envelope.body, Payload) and not envelope.body.xml and envelope.sequence is None
    problems = list(envelope.problems)
    for acknowledgement in envelope.acknowledgements:
        problems += _acknowledged(batch, draft, acknowledgement)
    match envelope.body:
        case CreateSequence():
            lifecycle.create(batch, draft, envelope.body)
        case CreateSequenceResponse():
            lifecycle.created(batch, draft, envelope.body)
        case CloseSequence() | TerminateSequence():
            lifecycle.end(batch, draft, envelope.body)
        case CloseSequenceResponse() | TerminateSequenceResponse():
            lifecycle.ended(batch, draft, envelope.body)
        case MakeConnection():
            draft.fault = lifecycle.make_connection(envelope.body)
        case Fault():
            if not replies.fault_taken(batch, draft, envelope.body):
                responses.faulted(batch, draft, envelope.body)
        case Payload():
            if envelope.sequence is not None:
                messages.sequenced(batch, draft, envelope.sequence, envelope.body)
            elif replies.taken(batch, draft, envelope.body):
                pass
            elif not standalone or not (envelope.acknowledgements or envelope.ack_requests or problems):
                messages.bare(draft, envelope.body)
        case _:
            assert_never(envelope.body)
    for asked in envelope.ack_requests:
        problems += _ack_wanted(batch, draft, asked.identifier)
    if draft.fault is None and draft.reply is None and standalone and problems:
        draft.fault = problems[0]  # RM-ACK-09: one that rides along must not abort its message


def _acknowledged(batch: Batch, draft: Draft, acknowledgement: SequenceAcknowledgement) -> list[Fault]:
    record = batch.rms(draft, acknowledgement.identifier)
    if record is None:
        return [unknown_sequence(acknowledgement.identifier)]  # RM-ACK-13
    event = events.Finished if acknowledgement.final else events.Acknowledged
    problems = batch.raise_rms(record, event(acknowledgement.ranges))
    if acknowledgement.nacks:
        # RM-ACK-05: at once the first time; a destination that says it again and again is sent to by the pauses.
        batch.tx.rms.resend(record, acknowledgement.nacks, batch.now, most_attempts=1)
        record.due = batch.now
    return problems


def _ack_wanted(batch: Batch, draft: Draft, identifier: str) -> list[Fault]:
    record = batch.rmd(draft, identifier)
    if record is None:
        return [unknown_sequence(identifier)]
    batch.raise_rmd(record, events.AckWanted())
    batch.acknowledge(draft, record)
    return []


def _fault_to(parts: Parts, draft: Draft) -> EndpointReference:
    """Where faults about this arrival go; only to an address that is allowed."""
    for endpoint in (draft.envelope.fault_to, draft.envelope.reply_to):
        if endpoint is not None and endpoint.addressable and parts.settings.addresses.allows(endpoint.address):
            return endpoint
    return ANONYMOUS_ENDPOINT
