"""Actions of operators on dead letters: one, or all that match a filter, in transactions of a limited size."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from mercury.client.dead_letters import BATCH, deliver, order, refusal
from mercury.engine.addresses import split_url
from mercury.engine.ids import Ids, RandomIds
from mercury.errors import ConfigurationError
from mercury.operations.acting import NotPossible, note
from mercury.statemachine.effects import Certainty
from mercury.storage.audit import Actor, TargetKind
from mercury.storage.letters import DeadLetter, Direction, LetterFilter, redriven_outbound
from mercury.storage.records import Role, SequenceKey
from mercury.storage.sql.reads import letters
from mercury.storage.sql.store import SqlStore
from mercury.storage.sql.transaction import SqlTransaction
from mercury.wire.payload import check_payload

#: The most letters, and the most refusals, that a result lists.
MOST_LISTED = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far an action on many dead letters is, and at its end its result."""

    done: int = 0
    #: The identifiers of the first of them.
    ids: tuple[str, ...] = ()
    refused: int = 0
    #: The first refused ones, each with the reason; they stay dead letters.
    refusals: tuple[tuple[str, str], ...] = ()


#: Is called after each transaction.
OnProgress = Callable[[Progress], None]
#: Handles one dead letter in a transaction; returns why it is refused, ``None`` = it is done.
_Each = Callable[[SqlTransaction, DeadLetter], str | None]


class LetterActions:
    """Actions on dead letters. Each letter is deleted in the transaction that sends, delivers or discards it, with its
    entry in the audit. A crash leaves the rest as dead letters.

    The actions take effect on letters that were dead-lettered before they began. Each raises `StorageError` if the
    store failed; a part may be done then.

    :param clock: seconds since the epoch.
    """

    def __init__(self, store: SqlStore, clock: Callable[[], float], ids: Ids | None = None) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids or RandomIds()

    def redrive(
        self,
        which: LetterFilter,
        actor: Actor,
        *,
        allow_duplicate: bool = False,
        progress: OnProgress | None = None,
        reason: str = "",
    ) -> Progress:
        """Send or deliver dead letters again: see `mercury.client.dead_letters.DeadLetters.redrive`.

        :param allow_duplicate: also those that may take effect twice.
        """

        def each(tx: SqlTransaction, letter: DeadLetter) -> str | None:
            why = self._refusal(tx, letter, allow_duplicate)
            why = why or self._again(tx, letter)
            if why is None:
                self._note(tx, actor, "redrive", letter, {"certainty": letter.certainty.value}, reason)
            return why

        return self._all(which, each, progress)

    def redirect(
        self,
        which: LetterFilter,
        endpoint: str,
        actor: Actor,
        *,
        allow_duplicate: bool = False,
        progress: OnProgress | None = None,
        reason: str = "",
    ) -> Progress:
        """Send outbound dead letters to another endpoint, each under its key.

        :param endpoint: the URL.
        :param allow_duplicate: also those that the old endpoint may have.
        :raises NotPossible: the endpoint is no URL.
        """
        try:
            split_url(endpoint)
        except (ConfigurationError, ValueError) as error:
            raise NotPossible(f"{endpoint} is not an endpoint: {error}") from error

        def each(tx: SqlTransaction, letter: DeadLetter) -> str | None:
            why = self._refusal(tx, letter, allow_duplicate) or _not_redirected(letter)
            if why is None and letter.channel is not None:
                key = SequenceKey(endpoint, letter.channel.key.name)
                channel = replace(letter.channel, key=key, pair=None, identity=None, wsa_to=None)
                why = self._again(tx, replace(letter, channel=channel))
            if why is None:
                self._note(tx, actor, "redirect", letter, {"endpoint": endpoint}, reason)
            return why

        return self._all(which, each, progress)

    def send_edited(
        self, identifier: str, payload: bytes, actor: Actor, *, allow_duplicate: bool = False, reason: str = ""
    ) -> str:
        """Send or deliver a dead letter with another payload, as a new message with a MessageID of its own.

        :param payload: standalone XML of one element.
        :param allow_duplicate: also if the other side may have the original.
        :returns: the new MessageID.
        :raises NotPossible: there is no such dead letter, or it cannot be sent.
        :raises PayloadError: the payload is no such XML.
        """
        checked = check_payload(payload)
        with self._store.transaction() as tx:
            found = tx.dead_letters.find(LetterFilter(ids=frozenset([identifier])), 1)
            if not found:
                raise NotPossible(f"there is no dead letter {identifier}")
            letter = found[0]
            why = self._refusal(tx, letter, allow_duplicate)
            if why is None and letter.attachments is not None:
                why = "its attachments belong to the original"
            new = replace(letter, message_id=self._ids.new(), payload=checked.xml)
            if letter.direction is Direction.INBOUND:
                new = replace(new, element=checked.name)
            why = why or self._again(tx, new)
            if why is not None:
                raise NotPossible(why)
            after = {"message_id": new.message_id, "payload": _digest(checked.xml)}
            self._note(tx, actor, "edit", letter, after, reason, before={"payload": _digest(letter.payload)})
        return str(new.message_id)

    def discard(
        self, which: LetterFilter, actor: Actor, *, progress: OnProgress | None = None, reason: str = ""
    ) -> Progress:
        """Delete dead letters for good."""

        def each(tx: SqlTransaction, letter: DeadLetter) -> str | None:
            if tx.dead_letters.delete(letter.id) is not None:
                self._note(tx, actor, "discard", letter, {}, reason, before=_about(letter))
            return None

        return self._all(which, each, progress)

    # --- all of them -----------------------------------------------------------------------------------------------

    def _all(self, which: LetterFilter, each: _Each, progress: OnProgress | None) -> Progress:
        now = self._clock()
        until = now if which.dead_before is None else min(now, which.dead_before)
        wanted = which if which.ids is not None else replace(which, dead_before=until)
        so_far = Progress()
        for batch in self._batches(wanted):
            with self._store.transaction() as tx:
                found = {letter.id: letter for letter in tx.dead_letters.find(LetterFilter(ids=frozenset(batch)))}
                results = [(name, each(tx, found[name])) for name in batch if name in found]
            refused = [(name, why) for name, why in results if why is not None]
            so_far = Progress(
                done=so_far.done + len(results) - len(refused),
                ids=(*so_far.ids, *(name for name, why in results if why is None))[:MOST_LISTED],
                refused=so_far.refused + len(refused),
                refusals=(*so_far.refusals, *refused)[:MOST_LISTED],
            )
            if progress is not None:
                progress(so_far)
        return so_far

    def _batches(self, which: LetterFilter) -> Iterator[Sequence[str]]:
        """The identifiers of the letters, in the order in which they are sent."""
        if which.ids is not None and len(which.ids) <= BATCH:
            with self._store.transaction() as tx:  # by the index, not by reading the whole table for a few
                few = sorted(tx.dead_letters.find(which), key=order)
            yield [letter.id for letter in few]
            return
        after: int | None = 0
        while after is not None:
            with self._store.transaction() as tx:
                found, after = letters.marks(tx, which, after)
            names = [mark.id for mark in sorted(found, key=letters.LetterMark.order)]
            for start in range(0, len(names), BATCH):
                yield names[start : start + BATCH]

    def _again(self, tx: SqlTransaction, letter: DeadLetter) -> str | None:
        """Delete a letter, and send or deliver it. Returns why it cannot be done; ``None`` = it is done."""
        now = self._clock()
        if tx.dead_letters.delete(letter.id) is None:
            return "another action has taken it meanwhile"
        if letter.direction is Direction.OUTBOUND:
            tx.rms.append(redriven_outbound(letter, now))
        else:
            deliver(tx, letter, now)
        return None

    def _refusal(self, tx: SqlTransaction, letter: DeadLetter, allow_duplicate: bool) -> str | None:
        waiting = tx.rms.rows([letter.message_id]) if letter.message_id else {}
        return refusal(tx, letter, waiting, allow_duplicate)

    def _note(
        self,
        tx: SqlTransaction,
        actor: Actor,
        action: str,
        letter: DeadLetter,
        after: Mapping[str, object],
        reason: str,
        *,
        before: Mapping[str, object] | None = None,
    ) -> None:
        known = before if before is not None else {"endpoint": letter.endpoint, "reason": letter.reason}
        note(tx, self._clock, actor, action, TargetKind.DEAD_LETTER, letter.id, known, after, reason)


def _not_redirected(letter: DeadLetter) -> str | None:
    if letter.direction is Direction.INBOUND:
        return "it was received: only messages that were to be sent have an endpoint"
    if letter.channel is None or letter.channel.role is not Role.REQUEST:
        return "it is a response: it goes to the peer that sent the request"
    return None


def _about(letter: DeadLetter) -> dict[str, object]:
    """What the audit keeps of a discarded letter."""
    return {
        "message_id": letter.message_id,
        "endpoint": letter.endpoint,
        "key": letter.key,
        "number": letter.number,
        "correlation": letter.correlation,
        "reason": letter.reason,
        "certainty": Certainty(letter.certainty).value,
        "payload": _digest(letter.payload),
    }


def _digest(payload: bytes) -> str:
    """The size and the checksum of a payload: the audit keeps no contents of messages."""
    return f"{len(payload)} bytes, sha256 {hashlib.sha256(payload).hexdigest()}"
