"""Makes dead letters of messages, in the transaction that removes them from their buffer, at both ends."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mercury.engine.context import EngineContext
from mercury.engine.emission import emit_dead_lettered
from mercury.statemachine.effects import Certainty
from mercury.storage.api import Transaction
from mercury.storage.letters import DeadLetter, inbound_letter, outbound_letter
from mercury.storage.records import InboundMessage, OutboundMessage

#: Reason: the application abandoned the unacknowledged messages.
ABANDONED = "the application ended the sequence without waiting for it"
#: Reason: the stored message is damaged.
DAMAGED = "its row in the store is damaged"
#: Reason of a request: its response is missing in a response sequence that ended.
LOST = "its response is lost: the sequence of the responses ended without it"
#: Reason of a response: the client has not fetched it.
UNFETCHED = "its client ended the sequence of the request and has not fetched it"
#: Reason of an acknowledged request: its sequence ended without a response.
NO_RESPONSE = "its sequence ended before a response came"


def dead_letter(
    tx: Transaction,
    context: EngineContext,
    rows: Sequence[OutboundMessage],
    reason: str,
    certainty: Certainty,
    now: float,
) -> list[DeadLetter]:
    """Make dead letters of rows that were removed from the buffer; of an end of a sequence only if it is damaged."""
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
    """Make dead letters of messages that are never delivered.

    :param disowned: the peer gets a fault for the message, and may send it again as another message.
    :param certainty: whether the message may have been delivered.
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
    for letter in letters:
        if letter.owner is not None:
            context.letters.add(letter.owner, letter.sequence, letter.size)
