"""Writes the log lines of events. It is an observer like those of an application."""

from __future__ import annotations

import logging

from mercury.engine.events import (
    DeadLettered,
    DestinationReplaced,
    Event,
    HandlerFailed,
    SequenceCreated,
    SequenceEnded,
    SequenceFailed,
    Side,
    StoreRefused,
)
from mercury.errors import named
from mercury.statemachine.ranges import as_text
from mercury.texts import printable

log = logging.getLogger("mercury.engine")
lifecycle = logging.getLogger("mercury.engine.lifecycle")
destination = logging.getLogger("mercury.engine.destination")
invocation = logging.getLogger("mercury.engine.invocation")

#: Events that are logged. They are rare; an event that occurs for each message is not logged.
KINDS: tuple[type[Event], ...] = (
    DeadLettered,
    HandlerFailed,
    SequenceCreated,
    SequenceEnded,
    SequenceFailed,
    StoreRefused,
    DestinationReplaced,
)


def write(event: Event) -> None:
    """Write the line of an event of `KINDS`."""
    match event:
        case DeadLettered():
            _dead_lettered(event)
        case HandlerFailed():
            _handler_failed(event)
        case SequenceCreated(side=side):
            text = "sequence created" if side is Side.DESTINATION else "sequence started"
            lifecycle.info(text, extra=_about(event))
        case SequenceEnded(expired=True, messages=messages) if messages:
            destination.warning("sequence ended by its time", extra=_about(event))
        case SequenceEnded():
            log.info("sequence ended", extra=_about(event))
        case SequenceFailed(unfetched=unfetched, dead_letters=letters):
            if not (unfetched and letters):  # the log line of the dead letters has the same facts
                about = {"sequence": event.sequence, "endpoint": event.endpoint, "key": event.key}
                text = "the sequence failed: %r; %d messages are dead letters"
                log.error(text, event.reason, letters, extra=about)
        case StoreRefused(address=address, expected=expected, found=found):
            text = (
                "%s: another store answers there (%s instead of %s): nothing is sent to it. If it is a new "
                "destination, say so: mercury sequences new-destination '%s' --store STORE, with the store of this "
                "process"
            )
            log.error(text, address, found, expected, event.endpoint, extra={"endpoint": event.endpoint})
        case DestinationReplaced(before=before, store=store, in_doubt=in_doubt):
            about = {"sequence": event.sequence, "endpoint": event.endpoint, "key": event.key}
            text = "a new destination: the key goes on at the store %s; in doubt at %s: %s"
            log.warning(text, store, before, as_text(in_doubt) or "nothing", extra=about)


def _dead_lettered(event: DeadLettered) -> None:
    first, count, certainty = event.letters[0], len(event.letters), event.certainty.value
    about = {"sequence": first.sequence, "number": first.number, "message_id": first.message_id}
    if count > 1:
        log.error("%d dead letters: %r (%s)", count, event.reason, certainty, extra=about)
    else:
        log.error("dead letter: %r (%s)", event.reason, certainty, extra=about)


def _handler_failed(event: HandlerFailed) -> None:
    """Log the failure, with its traceback unless the previous try failed with the same error."""
    about = {
        "sequence": event.sequence,
        "number": event.number,
        "message_id": event.message_id,
        "attempt": event.attempt,
    }
    who = f"the handler of {event.handler}" if event.service is not None else f"the callback {event.handler}"
    if event.repeated:
        invocation.error("%s failed again: %s", who, printable(named(event.error)), extra=about)
    else:
        invocation.error("%s failed", who, exc_info=event.error, extra=about)


def _about(event: SequenceCreated | SequenceEnded) -> dict[str, object]:
    if event.side is Side.SOURCE:
        return {"sequence": event.sequence, "endpoint": event.endpoint, "key": event.key}
    return {"sequence": event.sequence, "service": event.service}
