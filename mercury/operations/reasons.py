"""What a sequence waits for: the kind of reason, and words. Pure."""

from __future__ import annotations

import datetime
import enum
from collections.abc import Iterable
from dataclasses import dataclass

from mercury.engine.source.apply_effects import LOST_BY_DESTINATION
from mercury.statemachine.deliverable import Release
from mercury.statemachine.tables import RmdState, RmsState
from mercury.storage.searching import DestinationSeen, SourceSeen
from mercury.texts import counted, times


class WaitKind(enum.Enum):
    """Why a sequence waits."""

    #: An operator has suspended it, or has paused its service.
    SUSPENDED = "suspended"
    PAUSED = "paused"
    #: Messages before those that wait have not arrived.
    GAP = "gap"
    #: Its handler refuses the next message.
    HANDLER = "handler"
    #: Its last attempt to send has failed.
    ERROR = "error"
    #: It has failed, and sends nothing any more.
    FAILED = "failed"
    #: It goes on by itself.
    PROGRESS = "progress"


#: The kinds for which an operator has to look at a sequence.
STUCK = frozenset({WaitKind.SUSPENDED, WaitKind.PAUSED, WaitKind.GAP, WaitKind.HANDLER, WaitKind.ERROR})


@dataclass(frozen=True, slots=True)
class Wait:
    """What a sequence waits for."""

    kind: WaitKind
    #: In words.
    text: str

    @property
    def stuck(self) -> bool:
        """Whether an operator has to look at it."""
        return self.kind in STUCK


def moment(at: float) -> str:
    """A time in UTC, to the second, for example ``2026-11-24 03:14:15 UTC``."""
    return datetime.datetime.fromtimestamp(at, datetime.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def why_source_waits(seen: SourceSeen, now: float) -> Wait | None:
    """What a source sequence waits for; ``None`` = nothing is left to do.

    :param now: seconds since the epoch.
    """
    record, machine = seen.record, seen.record.machine
    error = f": {record.last_error}" if record.last_error else ""
    if machine.failure is not None:
        return Wait(WaitKind.FAILED, f"failed: {machine.failure.value}{error}")
    if machine.state is RmsState.ENDED:
        return None
    by = seen.holder.suspended_by if seen.holder is not None else None
    if by is not None:
        return Wait(WaitKind.SUSPENDED, f"suspended by {by}")
    if record.last_error == LOST_BY_DESTINATION:
        return Wait(WaitKind.ERROR, record.last_error)
    waits = bool(seen.waiting.value or seen.waiting.more)
    if not waits and machine.state in (RmsState.NEW, RmsState.IDLE):
        return None
    again = f"; the next attempt is at {moment(record.due)}" if record.due is not None and record.due > now else ""
    if record.last_error:
        return Wait(WaitKind.ERROR, f"the last attempt has failed{error}{again}")
    if record.holds_successor:
        return Wait(WaitKind.PROGRESS, "its successor starts when no message of this sequence can arrive late")
    if machine.state in (RmsState.CREATING, RmsState.CREATING_LAST):
        return Wait(WaitKind.PROGRESS, f"waits for the other side to create the sequence{again}")
    if machine.starved:
        return Wait(WaitKind.PROGRESS, f"the destination has no room for more messages{again}")
    if record.window_full:
        sent = counted(machine.in_flight, "message is", "messages are")
        return Wait(WaitKind.PROGRESS, f"the window is full: {sent} sent and not acknowledged")
    if machine.in_flight:
        numbers = _messages(machine.acknowledged.gaps(1, machine.highest_sent))
        return Wait(WaitKind.PROGRESS, f"waits for the acknowledgement of {numbers}{again}")
    if machine.unanswered:
        return Wait(WaitKind.PROGRESS, f"waits for responses to {counted(machine.unanswered, 'request', 'requests')}")
    if machine.state is RmsState.ENDING:
        return Wait(WaitKind.PROGRESS, f"waits for the other side to confirm its end{again}")
    if waits:
        return Wait(WaitKind.PROGRESS, "its messages are sent as soon as a process works on it")
    return None


def why_destination_waits(seen: DestinationSeen, now: float) -> Wait | None:
    """What a destination sequence waits for; ``None`` = nothing is left to do.

    :param now: seconds since the epoch.
    """
    record, buffer = seen.record, seen.buffer
    machine = record.machine
    if seen.waiting and buffer is not None:
        by = seen.holder.suspended_by if seen.holder is not None else None
        if by is not None:
            return Wait(WaitKind.SUSPENDED, f"suspended by {by}")
        if seen.paused_by is not None:
            return Wait(WaitKind.PAUSED, f"its service is paused by {seen.paused_by}")
        if seen.predecessor_waits:
            return Wait(WaitKind.PROGRESS, f"its predecessor {buffer.follows} is not delivered completely")
        if buffer.attempts:
            return Wait(WaitKind.HANDLER, _failing(buffer.attempts, buffer.last_error, buffer.retry_at, now))
        if buffer.machine.work is Release.NEXT and buffer.machine.next not in machine.received:
            received = machine.received
            gap = next(received.gaps(buffer.machine.next, received.highest), (buffer.machine.next,) * 2)
            return Wait(
                WaitKind.GAP, f"waits for {_messages([gap])}, which {'has' if gap[0] == gap[1] else 'have'} not arrived"
            )
        if buffer.machine.work is Release.ALL:
            return Wait(WaitKind.PROGRESS, "its messages are delivered when all of them have arrived")
        return Wait(WaitKind.PROGRESS, "its messages are delivered as soon as a process works on it")
    suspended = seen.holder is not None and seen.holder.suspended_by is not None
    if suspended and seen.holder is not None:
        return Wait(WaitKind.SUSPENDED, f"suspended by {seen.holder.suspended_by}")
    if machine.state is RmdState.LAST_KNOWN:
        return Wait(
            WaitKind.GAP,
            f"waits for {_messages(machine.received.gaps(1, machine.last_number or 0))}, which have not arrived",
        )
    return None


def _failing(attempts: int, error: str | None, retry_at: float | None, now: float) -> str:
    again = f"; the next attempt is at {moment(retry_at)}" if retry_at is not None and retry_at > now else ""
    return f"its handler has failed {times(attempts)}: {error or 'unknown error'}{again}"


def _messages(numbers: Iterable[tuple[int, int]]) -> str:
    """The first ranges of some message numbers."""
    found = tuple(numbers)
    texts = [str(low) if low == high else f"{low} to {high}" for low, high in found[:3]]
    more = f" and {counted(len(found) - 3, 'more range', 'more ranges')}" if len(found) > 3 else ""
    single = len(found) == 1 and found[0][0] == found[0][1]
    return f"message{'' if single else 's'} {', '.join(texts)}{more}"
