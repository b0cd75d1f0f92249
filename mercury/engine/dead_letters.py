"""Making dead letters of messages, in the transaction that takes them out of their buffer. Both ends do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mercury.engine.context import EngineContext
from mercury.engine.emission import emit_dead_lettered
from mercury.statemachine.effects import Certainty
from mercury.storage.api import Transaction
from mercury.storage.letters import inbound_letter, outbound_letter
from mercury.storage.records import DeadLetter, InboundMessage, OutboundMessage

#: Why messages died that the application did not wait for.
ABANDONED = "the application ended the sequence without waiting for it"
#: Why messages died that the store gave back altered.
DAMAGED = "what the store kept of it was damaged"
#: Why requests died whose responses have left a gap in a sequence that ended.
LOST = "its response is lost: the sequence of the responses ended without it"
#: Why responses died that could only be fetched.
UNFETCHED = "its client ended the sequence of the request and has not fetched it"
#: Why requests died that the destination has acknowledged.
NO_RESPONSE = "its sequence ended before a response came"


def dead_letter(
    tx: Transaction,
    context: EngineContext,
    rows: Sequence[OutboundMessage],
    reason: str,
    certainty: Certainty,
    now: float,
) -> list[DeadLetter]:
    """Make dead letters of rows that were taken from the buffer. Ends of a sequence leave none, unless damaged."""
    gone = [row for row in rows if row.action or row.damaged]
    letters = [outbound_letter(row, context.ids.new(), reason, certainty, now) for row in gone]
    _store_letters(tx, context, letters, now)
    return letters


def dead_letter_inbound(
    tx: Transaction,
    context: EngineContext,
    service: str | None,
    messages: Iterable[InboundMessage],
    reason: str,
    now: float,
    *,
    disowned: bool = False,
    certainty: Certainty = Certainty.NOT_DELIVERED,
    owner: str | None = None,
) -> int:
    """Make dead letters of messages that are never given to the application.

    :param disowned: the peer is told so, and may send the same again as another message.
    :param certainty: whether a handler may have done its work.
    :param owner: the peer that has caused it (`RmdRecord.owner`).
    :returns: the bytes of the dead letters.
    """
    letters = [
        inbound_letter(message, service, context.ids.new(), reason, certainty, now, disowned=disowned, owner=owner)
        for message in messages
    ]
    _store_letters(tx, context, letters, now)
    return sum(letter.size for letter in letters)


def _store_letters(tx: Transaction, context: EngineContext, letters: list[DeadLetter], now: float) -> None:
    if letters:
        tx.dead_letters.add(letters)
        emit_dead_lettered(tx, context.observers, letters, now)
