"""What operators do to dead letters: to some by identifier, and the transaction on some that a bulk action repeats."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from mercury.client.dead_letters import BATCH, redrive, refusal, refusals
from mercury.engine.addresses import split_url
from mercury.engine.ids import Ids, RandomIds
from mercury.errors import ConfigurationError
from mercury.operations.acting import NotPossible, entry_of
from mercury.statemachine.effects import Certainty
from mercury.storage.audit import Actor, AuditEntry, TargetKind
from mercury.storage.bulk import BulkAction
from mercury.storage.letters import DeadLetter, Direction
from mercury.storage.records import Role, SequenceKey
from mercury.storage.sql import steering
from mercury.storage.sql.reads import letters
from mercury.storage.sql.reads.letters import LetterMark
from mercury.storage.sql.store import SqlStore
from mercury.storage.sql.transaction import SqlTransaction
from mercury.wire.payload import check_payload
from mercury.wire.scan import DEFAULT_LIMITS, limits_of_body

#: Bytes of the letters of one piece, from which on it has no further one.
PIECE_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterWork:
    """What is done to dead letters, by whom, and why."""

    action: BulkAction
    actor: Actor
    #: Of `BulkAction.REDIRECT`: the other endpoint.
    endpoint: str | None = None
    #: Also letters that may take effect twice.
    allow_duplicate: bool = False
    reason: str = ""
    #: The bulk action that it is a part of.
    bulk: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Handled:
    """The result of an action on dead letters."""

    #: The identifiers of those that it was done to, in the order in which they are sent.
    done: tuple[str, ...] = ()
    #: Those that stay dead letters, each with the reason.
    refused: tuple[tuple[str, str], ...] = ()


class LetterActions:
    """Actions on dead letters. Each letter is deleted in the transaction that sends, delivers or discards it, with its
    entry in the audit. A crash leaves the rest as dead letters.

    Actions on letters by identifier ignore identifiers of none. Each raises `StorageError` if the store failed; some
    pieces (`first_piece`) may be done then.

    :param clock: seconds since the epoch.
    """

    def __init__(self, store: SqlStore, clock: Callable[[], float], ids: Ids | None = None) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids or RandomIds()

    def redrive(
        self, names: Iterable[str], actor: Actor, *, allow_duplicate: bool = False, reason: str = ""
    ) -> Handled:
        """Send or deliver dead letters again: see `mercury.client.dead_letters.DeadLetters.redrive`.

        :param names: their identifiers.
        :param allow_duplicate: also those that may take effect twice.
        """
        work = LetterWork(action=BulkAction.REDRIVE, actor=actor, allow_duplicate=allow_duplicate, reason=reason)
        return self._all(names, work)

    def redirect(
        self, names: Iterable[str], endpoint: str, actor: Actor, *, allow_duplicate: bool = False, reason: str = ""
    ) -> Handled:
        """Send outbound dead letters to another endpoint, each under its key.

        :param names: their identifiers.
        :param endpoint: the URL.
        :param allow_duplicate: also those that the old endpoint may have.
        :raises NotPossible: the endpoint is no URL.
        """
        work = LetterWork(
            action=BulkAction.REDIRECT,
            actor=actor,
            endpoint=checked_endpoint(endpoint),
            allow_duplicate=allow_duplicate,
            reason=reason,
        )
        return self._all(names, work)

    def discard(self, names: Iterable[str], actor: Actor, *, reason: str = "") -> Handled:
        """Delete dead letters for good.

        :param names: their identifiers.
        """
        return self._all(names, LetterWork(action=BulkAction.DISCARD, actor=actor, reason=reason))

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
        checked = check_payload(payload, limits=limits_of_body(DEFAULT_LIMITS))
        with self._store.transaction() as tx:
            found = tx.dead_letters.locked([identifier])
            if not found:
                raise NotPossible(f"there is no dead letter {identifier}")
            letter = found[0]
            waiting = tx.rms.rows([letter.message_id]) if letter.message_id else {}
            why = refusal(tx, letter, waiting, allow_duplicate)
            if why is None and letter.attachments is not None:
                why = "its attachments belong to the original"
            if why is not None:
                raise NotPossible(why)
            new = replace(letter, message_id=self._ids.new(), payload=checked.xml)
            if letter.direction is Direction.INBOUND:
                new = replace(new, element=checked.name)
            now = self._clock()
            tx.dead_letters.remove([identifier])
            redrive(tx, new, now)
            before, after = {"payload": _digest(letter.payload)}, {"payload": _digest(checked.xml)}
            after["message_id"] = str(new.message_id)
            kind = TargetKind.DEAD_LETTER
            steering.note(tx, entry_of(now, actor, "edit", kind, letter.id, before, after, reason))
        return str(new.message_id)

    def handle(self, tx: SqlTransaction, names: Sequence[str], work: LetterWork) -> Handled:
        """Make an action on some dead letters, in a transaction of the caller's: each is read once, and locked.

        :param names: their identifiers, in the order in which they are sent; those of none are ignored.
        """
        now = self._clock()
        locked = {letter.id: letter for letter in tx.dead_letters.locked(names)}
        found = [locked[name] for name in names if name in locked]
        why = _refusals(tx, found, work)
        taken = [letter for letter in found if letter.id not in why]
        tx.dead_letters.remove([letter.id for letter in taken])
        if work.action is not BulkAction.DISCARD:
            for letter in taken:
                redrive(tx, letter if work.endpoint is None else _redirected(letter, work.endpoint), now)
        steering.note(tx, *(_entry(letter, work, now) for letter in taken))
        return Handled(done=tuple(letter.id for letter in taken), refused=tuple(why.items()))

    def _all(self, names: Iterable[str], work: LetterWork) -> Handled:
        wanted = frozenset(names)
        with self._store.transaction() as tx:
            rest = sorted(letters.marks_of(tx, wanted), key=lambda mark: mark.key)
        done: list[str] = []
        refused: list[tuple[str, str]] = []
        while rest:
            piece = first_piece(rest)
            with self._store.transaction() as tx:
                handled = self.handle(tx, [mark.id for mark in piece], work)
            rest = rest[len(piece) :]
            done += handled.done
            refused += handled.refused
        return Handled(done=tuple(done), refused=tuple(refused))


def first_piece(rest: Sequence[LetterMark]) -> list[LetterMark]:
    """The first of these letters, as many as one transaction reads with their bodies: at most `BATCH`, and no further
    one after `PIECE_BYTES`."""
    size, found = 0, []
    for mark in rest[:BATCH]:
        found.append(mark)
        size += mark.size
        if size >= PIECE_BYTES:
            break
    return found


def checked_endpoint(endpoint: str) -> str:
    """An endpoint that dead letters can be redirected to.

    :raises NotPossible: it is no URL.
    """
    try:
        split_url(endpoint)
    except (ConfigurationError, ValueError) as error:
        raise NotPossible(f"{endpoint} is not an endpoint: {error}") from error
    return endpoint


def _refusals(tx: SqlTransaction, found: Sequence[DeadLetter], work: LetterWork) -> dict[str, str]:
    """Why some of these letters stay dead letters, by identifier."""
    if work.action is BulkAction.DISCARD:
        return {}
    if work.action is BulkAction.REDIRECT:
        return refusals(tx, found, work.allow_duplicate, _not_redirected)
    return refusals(tx, found, work.allow_duplicate)


def _not_redirected(letter: DeadLetter) -> str | None:
    if letter.direction is Direction.INBOUND:
        return "it was received: only messages that were to be sent have an endpoint"
    if letter.channel is None or letter.channel.role is not Role.REQUEST:
        return "it is a response: it goes to the peer that sent the request"
    return None


def _redirected(letter: DeadLetter, endpoint: str) -> DeadLetter:
    if letter.channel is None:
        return letter
    key = SequenceKey(endpoint, letter.channel.key.name)
    return replace(letter, channel=replace(letter.channel, key=key, pair=None, identity=None, wsa_to=None))


def _entry(letter: DeadLetter, work: LetterWork, now: float) -> AuditEntry:
    before: Mapping[str, object] = {"endpoint": letter.endpoint, "reason": letter.reason}
    after: Mapping[str, object] = {}
    if work.action is BulkAction.DISCARD:
        before = _about(letter)
    elif work.action is BulkAction.REDIRECT:
        after = {"endpoint": work.endpoint}
    else:
        after = {"certainty": letter.certainty.value}
    action, kind = work.action.value, TargetKind.DEAD_LETTER
    return entry_of(now, work.actor, action, kind, letter.id, before, after, work.reason, work.bulk)


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
