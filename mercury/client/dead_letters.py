"""Lists, redrives and discards dead letters."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from mercury.statemachine.effects import Certainty
from mercury.statemachine.invoker import InvokerBuffer
from mercury.statemachine.messages import IncompleteSequenceBehavior
from mercury.statemachine.policy import DeliveryAssurance
from mercury.storage.api import StorageManager, Transaction
from mercury.storage.letters import (
    DeadLetter,
    Direction,
    LetterCount,
    LetterFilter,
    redriven_inbound,
    redriven_outbound,
)
from mercury.storage.records import Channel, InvokerRecord

log = logging.getLogger("mercury.client")

#: The number of dead letters in one transaction.
BATCH = 100
#: The sequence name of the buffer that an inbound letter is redriven to.
REDRIVEN = "urn:mercury:redriven:"

#: Reasons for not redriving a dead letter unless duplicates are allowed.
MAY_HAVE_ARRIVED = "the other side may have it already: it is redriven only if duplicates are allowed"
MAY_COME_AGAIN = "its sender received a fault and may send it again: it is redriven only if duplicates are allowed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Redriven:
    """The result of an attempt to redrive dead letters."""

    #: The redriven letters, in the order in which they are sent.
    done: tuple[DeadLetter, ...] = ()
    #: The letters that stay dead letters, each with the reason.
    refused: tuple[tuple[DeadLetter, str], ...] = ()


class DeadLetters:
    """The dead letters of a store.

    :param clock: seconds since the epoch.
    """

    def __init__(self, store: StorageManager, clock: Callable[[], float]) -> None:
        self._store = store
        self._clock = clock

    def find(self, which: LetterFilter, limit: int | None = None) -> list[DeadLetter]:
        """The dead letters that match a filter, the oldest first; at most ``limit``.

        :raises StorageError: the store failed.
        """
        with self._store.transaction() as tx:
            return tx.dead_letters.find(which, limit)

    def count(self, which: LetterFilter) -> list[LetterCount]:
        """The numbers of dead letters that match a filter, grouped, the highest number first.

        :raises StorageError: the store failed.
        """
        with self._store.transaction() as tx:
            return tx.dead_letters.count(which)

    def discard(self, which: LetterFilter) -> int:
        """Delete the dead letters that match a filter. Returns their number.

        :raises StorageError: the store failed; a part of them may be deleted.
        """
        count = 0
        while True:
            with self._store.transaction() as tx:
                taken = tx.dead_letters.discard(which, BATCH)
            if taken is None:
                return count
            count += taken

    def redrive(self, which: LetterFilter, *, allow_duplicate: bool = False) -> Redriven:
        """Redrive the dead letters that match a filter. Each is deleted in the transaction that redrives it.

        An outbound message is handed over again, with its MessageID, after the messages that wait under its key;
        messages that were dead-lettered together keep the order of their numbers. An inbound request is delivered to
        its service again, without order and without a response, because its sequence may have ended.

        :param allow_duplicate: redrive also messages that may have been delivered, or that their sender may send again.
        :raises StorageError: the store failed; a part may be redriven, the others stay dead letters.
        """
        letters = sorted(self.find(which), key=order)
        done: list[DeadLetter] = []
        refused: list[tuple[DeadLetter, str]] = []
        for start in range(0, len(letters), BATCH):
            self._redrive(letters[start : start + BATCH], allow_duplicate, done, refused)
        return Redriven(done=tuple(done), refused=tuple(refused))

    def _redrive(
        self,
        letters: Sequence[DeadLetter],
        allow_duplicate: bool,
        done: list[DeadLetter],
        refused: list[tuple[DeadLetter, str]],
    ) -> None:
        now = self._clock()
        with self._store.transaction() as tx:
            why = refusals(tx, letters, allow_duplicate)
            accepted = [letter for letter in letters if letter.id not in why]
            taken = [letter for letter in accepted if tx.dead_letters.delete(letter.id) is not None]
            for letter in taken:
                redrive(tx, letter, now)
        refused += ((letter, why[letter.id]) for letter in letters if letter.id in why)
        done += taken
        for letter in taken:
            log.info("a dead letter is redriven", extra={"message_id": letter.message_id, "key": letter.key})


def order(letter: DeadLetter) -> tuple[float, bool, int]:
    """The sort key: messages that were dead-lettered together by number, those without a number last."""
    return letter.dead_at, letter.number is None, letter.number or 0


def refusals(
    tx: Transaction,
    letters: Sequence[DeadLetter],
    allow_duplicate: bool,
    further: Callable[[DeadLetter], str | None] = lambda _: None,
) -> dict[str, str]:
    """Why some of these letters stay dead letters, by identifier; the others are redriven in this order.

    :param further: returns why a letter that can be redriven stays nevertheless; ``None`` = it does not.
    """
    waiting = set(tx.rms.rows([letter.message_id for letter in letters if letter.message_id]))
    found: dict[str, str] = {}
    for letter in letters:
        why = refusal(tx, letter, waiting, allow_duplicate) or further(letter)
        if why is not None:
            found[letter.id] = why
        elif letter.direction is Direction.OUTBOUND and letter.message_id is not None:
            waiting.add(letter.message_id)  # of two letters of one message, the second stays
    return found


def refusal(tx: Transaction, letter: DeadLetter, waiting: Collection[str], allow_duplicate: bool) -> str | None:
    """Why a letter cannot be redriven; ``None`` = it can.

    :param waiting: the MessageIDs of the letters whose message waits already.
    """
    if letter.damaged:
        return "its stored data are damaged"
    if letter.certainty is Certainty.UNKNOWN and not allow_duplicate:
        return MAY_HAVE_ARRIVED
    if letter.disowned and not allow_duplicate:
        return MAY_COME_AGAIN
    if letter.direction is Direction.INBOUND:
        return None if letter.endpoint else "it is a response, and the request that it answers is not waiting any more"
    if letter.channel is None or letter.message_id is None:
        return "it is not known how it was sent"
    if letter.message_id in waiting:
        return "a message with its MessageID is waiting already"
    if letter.channel.back_channel and not _fetched(tx, letter.channel):
        return "it is a response, and its client has ended the sequence that it would fetch it from"
    return None


def _fetched(tx: Transaction, channel: Channel) -> bool:
    """Whether a client still fetches responses of a back-channel."""
    records = tx.rms.peek(channel.key)
    return bool(records) and records[-1].machine.takes_messages


def redrive(tx: Transaction, letter: DeadLetter, now: float) -> None:
    """Send or deliver the message of a letter again, in the transaction that deletes the letter."""
    if letter.direction is Direction.OUTBOUND:
        tx.rms.append(redriven_outbound(letter, now))
    else:
        _deliver(tx, letter, now)


def _deliver(tx: Transaction, letter: DeadLetter, now: float) -> None:
    """Put the message of an inbound letter into a new buffer, which is deleted with it. Its old sequence does not
    change."""
    message = redriven_inbound(letter, f"{REDRIVEN}{letter.id}", now)
    machine = InvokerBuffer(
        in_order=True, assurance=DeliveryAssurance.EXACTLY_ONCE, behavior=IncompleteSequenceBehavior.NO_DISCARD
    )
    tx.invoker.insert(InvokerRecord(sequence=message.sequence, machine=machine, service=letter.endpoint))
    tx.invoker.add([message])
