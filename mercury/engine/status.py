"""The status of sequences, for applications and operators."""

from __future__ import annotations

from dataclasses import dataclass, replace

from mercury.statemachine.faults import Ranges
from mercury.storage.records import InvokerRecord, RmdRecord, RmsRecord
from mercury.storage.waiting import DestinationInStore


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceStatus:
    """One sequence on one side. Times are seconds since the epoch."""

    #: ``source`` or ``destination``.
    side: str
    #: The sequence's identifier; empty until the destination has given one.
    identifier: str
    #: The endpoint and key of a source; the service of a destination (empty: responses).
    endpoint: str
    key: str
    #: The state's name and tuple, as docs/state-machines.md has them.
    state: str
    #: Why it failed, or empty.
    failure: str
    protocol: str
    created_at: float
    last_heard: float
    #: Numbers acknowledged (source) or received (destination).
    ranges: Ranges
    #: The highest number assigned (source) or received (destination).
    highest: int
    #: Source: how many rows are not acknowledged or not answered. Destination: how many messages are not delivered.
    waiting: int
    last_error: str


def status_of(record: RmsRecord, backlog: int) -> SequenceStatus:
    """The status of a source sequence. ``backlog``: rows of its key."""
    machine, channel = record.machine, record.channel
    fetchable = channel.plain and channel.back_channel  # replies that may be fetched again
    return SequenceStatus(
        side="source",
        identifier=machine.identifier or "",
        endpoint=record.channel.endpoint,
        key=record.channel.key.name,
        state=f"{machine.state.name} {machine.state.value}" if machine.failure is None else "FAILED",
        failure=machine.failure.value if machine.failure is not None else "",
        protocol=str(record.channel.policy.protocol),
        created_at=record.created_at,
        last_heard=machine.last_heard,
        ranges=machine.acknowledged.as_tuples(),
        highest=machine.last_number,
        waiting=backlog if machine.alive and not fetchable else 0,
        last_error=record.last_error or "",
    )


def destination_in_store(found: DestinationInStore) -> SequenceStatus:
    """The status of a destination sequence as a store returns it, with the number of undelivered messages."""
    return replace(destination_status(found.record, None), waiting=found.waiting, last_error=found.last_error or "")


def destination_status(record: RmdRecord, buffer: InvokerRecord | None) -> SequenceStatus:
    """The status of a destination sequence with its invoker buffer."""
    machine = record.machine
    passed = buffer.machine.passed.count if buffer is not None else machine.received.count
    return SequenceStatus(
        side="destination",
        identifier=record.identifier,
        endpoint=record.service or "",
        key="",
        state=f"{machine.state.name} {machine.state.value}" + (" closed" if machine.closed else ""),
        failure="",
        protocol=str(record.protocol),
        created_at=record.created_at,
        last_heard=machine.last_heard,
        ranges=machine.received.as_tuples(),
        highest=machine.received.highest,
        waiting=max(0, machine.received.count - passed),
        last_error=(buffer.last_error or "") if buffer is not None else "",
    )
