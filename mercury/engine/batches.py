"""Batches of messages between two nodes of Mercury: what both sides agree on when a sequence is created.

Each side states in CreateSequence or its response which batches it takes, and the other side sends no others. A peer
that is not Mercury ignores the element and states nothing, so it gets single messages.
"""

from __future__ import annotations

from collections.abc import Iterator

from mercury.statemachine.messages import BatchLimits
from mercury.statemachine.policy import DestinationPolicy
from mercury.storage.records import RmsRecord
from mercury.wire.envelope import Envelope, MessageBatch
from mercury.wire.scan import Limits

#: The least bytes of an element in a body, less one for the elements of the batch itself: bodies within the limit in
#: bytes never exceed the limit on elements.
_BYTES_OF_ELEMENT = 3
#: A batch may use this part of the bytes of a message: namespace declarations and attributes make it larger.
_PART = 2


def taken_batches(limits: Limits, policy: DestinationPolicy) -> BatchLimits | None:
    """The batches that this side takes; ``None`` = none. Each is within all limits of one message."""
    if not policy.batches:
        return None
    size = min(limits.max_bytes // _PART, _BYTES_OF_ELEMENT * limits.max_elements)
    messages = min(limits.max_batch, policy.max_batch or limits.max_batch)
    return BatchLimits(messages, size) if messages > 1 else None


def agree(record: RmsRecord, stated: BatchLimits | None) -> None:
    """Store in a source sequence which batches its destination takes.

    :param stated: what the destination has stated; ``None`` = it takes none.
    """
    policy = record.channel.policy
    record.batch_messages = record.batch_size = 0
    if stated is not None and policy.batch > 1:
        record.batch_messages = min(policy.batch, stated.messages)
        record.batch_size = min(policy.batch_bytes, stated.size)


def related_names(envelope: Envelope) -> Iterator[str]:
    """The messages that an envelope relates to; those of a batch each relate to one."""
    if envelope.relates_to is not None:
        yield envelope.relates_to
    if isinstance(envelope.body, MessageBatch):
        for message in envelope.body.messages:
            if message.relates_to is not None:
                yield message.relates_to
