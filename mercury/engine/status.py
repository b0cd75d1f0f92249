"""The status of sequences, for applications and operators."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

from mercury.engine.events import Side
from mercury.statemachine.events import FailureReason
from mercury.statemachine.faults import Ranges
from mercury.statemachine.rmd_table import RmdState
from mercury.statemachine.rms_table import RmsState
from mercury.storage.records import InvokerRecord, RmdRecord, RmsRecord
from mercury.storage.waiting import DestinationInStore


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceStatus:
    """One sequence on one side. Times are seconds since the epoch."""

    side: Side
    #: The sequence's identifier; empty until the destination has given one.
    identifier: str
    #: The endpoint and key of a source; the service of a destination (empty: responses).
    endpoint: str
    key: str
    #: The state in its table (docs/state-machines.md); that of a failed sequence is the one in which it failed.
    state: RmsState | RmdState
    #: A destination sequence that is closed takes no new messages.
    closed: bool = False
    #: Why it failed; ``None`` = it has not.
    failure: FailureReason | None = None
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

    @property
    def shown_state(self) -> str:
        """The state as operators see it: the name and the tuple of its table, or FAILED."""
        if self.failure is not None:
            return "FAILED"
        return f"{self.state.name} {self.state.value}" + (" closed" if self.closed else "")

    def as_dict(self) -> dict[str, object]:
        """The status as `mercury sequences` and ``/mercury/status/sequences`` show it, with values that JSON has."""
        failure = self.failure.value if self.failure is not None else ""
        shown = asdict(self) | {"side": self.side.value, "state": self.shown_state, "failure": failure}
        del shown["closed"]
        return shown


def status_of(record: RmsRecord, backlog: int) -> SequenceStatus:
    """The status of a source sequence. ``backlog``: rows of its key."""
    machine, channel = record.machine, record.channel
    fetchable = channel.plain and channel.back_channel  # replies that may be fetched again
    return SequenceStatus(
        side=Side.SOURCE,
        identifier=machine.identifier or "",
        endpoint=record.channel.endpoint,
        key=record.channel.key.name,
        state=machine.state,
        failure=machine.failure,
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
    return SequenceStatus(
        side=Side.DESTINATION,
        identifier=record.identifier,
        endpoint=record.service or "",
        key="",
        state=machine.state,
        closed=machine.closed,
        protocol=str(record.protocol),
        created_at=record.created_at,
        last_heard=machine.last_heard,
        ranges=machine.received.as_tuples(),
        highest=machine.received.highest,
        waiting=buffer.machine.waiting(machine.received) if buffer is not None else 0,
        last_error=(buffer.last_error or "") if buffer is not None else "",
    )
