"""What has happened to a sequence or a message, from the times that its rows and the audit have. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from mercury.client.dead_letters import REDRIVEN
from mercury.storage.audit import AuditEntry
from mercury.storage.letters import DeadLetter
from mercury.storage.records import InboundMessage, InvokerRecord, OutboundMessage, RmdRecord, RmsRecord
from mercury.storage.searching import Settled
from mercury.storage.waiting import WaitingMessage
from mercury.texts import span, times


@dataclass(frozen=True, slots=True)
class Happening:
    """One line of a timeline."""

    #: Seconds since the epoch; ``None`` = it is known to have happened, and not when.
    at: float | None
    what: str
    #: The operator who did it; ``None`` = Mercury or a peer did.
    by: str | None = None


def of_source(record: RmsRecord, actions: Iterable[AuditEntry], dead: Iterable[DeadLetter]) -> tuple[Happening, ...]:
    """The timeline of a source sequence."""
    machine = record.machine
    found = [Happening(record.created_at, "created, to send messages of its key")]
    if record.follows is not None:
        found.append(Happening(record.created_at, f"follows the sequence {record.follows}"))
    if machine.identifier is not None and machine.last_heard > record.created_at:
        found.append(Happening(machine.last_heard, "last heard of the other side"))
    if machine.expires_at is not None:
        found.append(Happening(machine.expires_at, "expires"))
    if machine.settled_at is not None:
        found.append(Happening(machine.settled_at, "its end is confirmed"))
    if record.ended_at is not None:
        failed = machine.failure is not None
        found.append(Happening(record.ended_at, f"failed: {machine.failure.value}" if machine.failure else "ended"))
        if failed and record.last_error:
            found.append(Happening(record.ended_at, record.last_error))
    return _ordered(found, actions, dead)


def of_destination(
    record: RmdRecord, buffer: InvokerRecord | None, actions: Iterable[AuditEntry], dead: Iterable[DeadLetter]
) -> tuple[Happening, ...]:
    """The timeline of a destination sequence."""
    machine = record.machine
    found = [Happening(record.created_at, f"created by {record.identity or record.peer or 'this side'}")]
    if buffer is not None and buffer.follows is not None:
        found.append(Happening(record.created_at, f"follows the sequence {buffer.follows}"))
    if machine.last_heard > record.created_at:
        found.append(Happening(machine.last_heard, "last message of the other side"))
    if machine.expires_at is not None:
        found.append(Happening(machine.expires_at, "expires"))
    if machine.closed:
        found.append(Happening(None, "closed: it takes no new message"))
    if record.given_up:
        found.append(Happening(None, "given up to make room for other sequences"))
    if machine.ended_at is not None:
        found.append(Happening(machine.ended_at, "ended"))
    if buffer is not None and buffer.attempts:
        found.append(Happening(buffer.retry_at, f"the handler is called again (failed {times(buffer.attempts)})"))
    return _ordered(found, actions, dead)


def of_message(
    seen: WaitingMessage, message: OutboundMessage | InboundMessage, actions: Iterable[AuditEntry]
) -> tuple[Happening, ...]:
    """The timeline of a waiting message."""
    if isinstance(message, OutboundMessage):
        found = [Happening(message.created_at, "stored: handed over by the application, or redriven by an operator")]
        if message.number is not None:
            found.append(Happening(None, f"got number {message.number} of its sequence"))
        if message.attempts:
            found.append(Happening(None, f"transmitted {times(message.attempts)}"))
        if message.acknowledged:
            found.append(Happening(None, "acknowledged"))
        if message.answered:
            found.append(Happening(None, "its response is stored"))
    else:
        again = message.sequence.startswith(REDRIVEN)
        text = "redriven by an operator" if again else "received, stored and acknowledged by the policy of its service"
        found = [Happening(message.received_at, text)]
        if seen.attempts:
            found.append(Happening(None, f"its handler has failed {times(seen.attempts)}: {seen.last_error}"))
    if seen.next_try is not None:
        found.append(Happening(seen.next_try, "the next attempt"))
    return _ordered(found, actions, ())


def of_settled(message: Settled) -> tuple[Happening, ...]:
    """The timeline of a message that is done, from its commit to its delivery."""
    number = "" if message.number is None else f" as number {message.number} of its sequence"
    took = span(message.settled_at - message.created_at)
    return (
        Happening(message.created_at, "handed over by the application, and stored"),
        Happening(None, f"transmitted{number}"),
        Happening(
            message.settled_at,
            f"done, after {took}: the other side has acknowledged it, and answered it if it is a request",
        ),
    )


def _ordered(
    found: list[Happening], actions: Iterable[AuditEntry], dead: Iterable[DeadLetter]
) -> tuple[Happening, ...]:
    found += [Happening(each.at, each.action, each.actor) for each in actions]
    found += [
        Happening(each.dead_at, f"message {each.number or ''} became a dead letter: {each.reason}") for each in dead
    ]
    known = [each.at for each in found]
    # What has no time stays behind the line before it.
    last = 0.0
    order: list[float] = []
    for at in known:
        last = last if at is None else at
        order.append(last)
    return tuple(found[place] for place in sorted(range(len(found)), key=lambda place: (order[place], place)))
