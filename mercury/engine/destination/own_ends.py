"""Ends that the destination begins, on an operator's request: CloseSequence and TerminateSequence to AcksTo.

They are posted, with the final acknowledgement, until the source answers (RM11-CLS-03, RM11-TRM-02); a source that uses
MakeConnection fetches them. To any other source without an address, and in WS-RM 1.0, whose destinations send neither,
the next message is answered: by SequenceClosed or SequenceTerminated, with the final acknowledgement.
"""

from __future__ import annotations

from mercury.engine import envelopes
from mercury.engine.context import EngineContext
from mercury.engine.exchange import Outgoing, Purpose
from mercury.engine.rmd_records import handle_rmd, marker_rows
from mercury.statemachine import events
from mercury.statemachine.acknowledging import is_posted
from mercury.statemachine.events import DestinationEnd
from mercury.statemachine.messages import ANONYMOUS_ENDPOINT, EndpointReference, IncompleteSequenceBehavior
from mercury.statemachine.protocol import RmVersion
from mercury.statemachine.retransmission import Backoff, is_due
from mercury.storage.api import Transaction
from mercury.storage.records import RmdRecord
from mercury.wire.envelope import Envelope

#: Pauses before an end is posted again.
END_RETRY = Backoff(base=2.0, cap=60.0, jitter=0.0)
#: Seconds after which a sequence that cannot end yet is looked at again.
GAP_CHECK = 2.0
#: How often it is posted or fetched before no answer is waited for.
MOST_ATTEMPTS = 12


def send_own_end(context: EngineContext, tx: Transaction, record: RmdRecord, now: float) -> list[Outgoing]:
    """End a locked sequence, if an operator has requested it, or send the end again. The caller saves the record."""
    machine, policy = record.machine, context.application.policy(record.service)
    end = machine.own_end
    if end is None or machine.end_due is None or not is_due(machine.end_due, now, END_RETRY.cap):
        return []
    if _is_settled(record, end) or machine.end_attempts >= MOST_ATTEMPTS:
        machine.handle(events.EndAnswered(), now, policy)
        return []
    if not machine.end_attempts and _breaks_order(tx, record):
        machine.end_itself(end, now + GAP_CHECK)
        return []
    posts = is_posted(record.acks_to) and machine.rm is RmVersion.RM11
    next_due = now + END_RETRY.delay(machine.end_attempts + 1, 0.0) if posts else None
    requested = handle_rmd(tx, context, record, events.EndSent(end, next_due), now)
    tx.invoker.add(marker_rows(record, requested))
    if posts:
        envelope = own_end_envelope(context, record)
        purpose, url = Purpose.DESTINATION_END, record.acks_to.url
        return [Outgoing(url=url, envelope=envelope, purpose=purpose, rmd=record.identifier, owner=record.owner)]
    if not record.acks_to.polled or machine.rm is RmVersion.RM10:
        machine.handle(events.EndAnswered(), now, policy)
    return []


def own_end_envelope(context: EngineContext, record: RmdRecord) -> Envelope:
    """The CloseSequence or TerminateSequence of a sequence that this side has ended. The answer is in its reply, or, if
    it is fetched, is posted to the service."""
    machine, policy = record.machine, context.application.policy(record.service)
    assert machine.own_end is not None
    reply_to = EndpointReference(record.to) if record.acks_to.polled else ANONYMOUS_ENDPOINT
    acknowledgement = machine.acknowledgement(policy)
    return envelopes.end_by_destination(record, machine.own_end, context.ids.new(), acknowledgement, reply_to)


def is_begun(record: RmdRecord) -> bool:
    """Whether a client can fetch the end of a sequence that this side has ended."""
    machine = record.machine
    return machine.own_end is not None and 0 < machine.end_attempts < MOST_ATTEMPTS and machine.final


def _breaks_order(tx: Transaction, record: RmdRecord) -> bool:
    """Whether the end of a sequence would deliver messages behind a gap before those that are missing.

    Their numbers were acknowledged, and the source does not know that they are discarded (WS-RM 1.0). The missing ones
    come in a successor. So the end waits until no number is missing.
    """
    received = record.machine.received
    whole = not received or received.covers(1, received.highest)
    buffer = None if whole or record.machine.in_order_only else tx.invoker.read(record.identifier)
    if buffer is None or not buffer.machine.in_order:
        return False
    keeps = buffer.machine.behavior is IncompleteSequenceBehavior.NO_DISCARD
    return record.machine.rm is RmVersion.RM10 and keeps and not buffer.machine.may_skip_gaps


def _is_settled(record: RmdRecord, end: DestinationEnd) -> bool:
    """Whether the source knows the end already, because it has begun it, or has ended a closed sequence."""
    machine = record.machine
    if end is DestinationEnd.CLOSE:
        return machine.tombstone or (machine.closed and not machine.end_attempts)
    return machine.tombstone and not machine.end_attempts
