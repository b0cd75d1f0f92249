"""The bytes that each sequence and each peer may always store, however much the others store, and the limits of one
sequence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mercury.statemachine.messages import IncompleteSequenceBehavior

if TYPE_CHECKING:
    from mercury.engine.settings import EngineSettings
    from mercury.statemachine.policy import DestinationPolicy
    from mercury.storage.records import InvokerRecord, RmdRecord


def share(settings: EngineSettings) -> int:
    """The guaranteed bytes of one sequence. If all sequences that may be open use them, a limit is just reached."""
    return min(
        settings.max_backlog_bytes_per_peer // settings.max_sequences_per_peer,
        settings.max_backlog_bytes // settings.max_sequences,
    )


def small_amount(settings: EngineSettings) -> int:
    """The bytes below which dead letters of other peers do not count against a peer."""
    return min(settings.max_backlog_bytes_per_peer, settings.max_backlog_bytes) // 16


def unblocks_rest(record: RmdRecord, buffer: InvokerRecord, number: int) -> bool:
    """Whether the other messages of a sequence wait for this one: it is taken above the limits of the sequence."""
    if buffer.machine.behavior is IncompleteSequenceBehavior.DISCARD_ENTIRE_SEQUENCE:
        return number == record.machine.received.first_missing()  # nothing is delivered before all of it is received
    return number == buffer.machine.next


def sequence_limit(policy: DestinationPolicy, record: RmdRecord, buffer: InvokerRecord, size: int) -> str | None:
    """Which limit of a sequence a new message is above, for people; ``None`` = none.

    :param size: the message's bytes.
    """
    if record.machine.received.count - buffer.machine.passed.count >= policy.max_backlog:
        return "Too many messages wait for the application"
    if record.received_bytes - buffer.consumed_bytes + size > policy.max_backlog_bytes:
        return "Too many bytes wait for the application"
    return None
