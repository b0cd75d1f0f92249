"""Lists waiting messages, makes them due now, or parks them. Works while processes run on the store."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from mercury.engine.ids import Ids, RandomIds
from mercury.errors import Conflict, MercuryError
from mercury.statemachine.effects import Certainty
from mercury.storage.api import Transaction
from mercury.storage.letters import PARKED, Direction, outbound_letter
from mercury.storage.records import InboundMessage, InvokerRecord, OutboundMessage, RmsRecord
from mercury.storage.sql.overview import StoreOverview
from mercury.storage.sql.store import SqlStore
from mercury.storage.sql.transaction import SqlTransaction
from mercury.storage.waiting import WaitingFilter, WaitingMessage

log = logging.getLogger("mercury.client")

#: Attempts of a change that conflicts with running processes.
TRIES = 20


#: Is called in the transaction of a change: with the action (``retry``, ``park``) and the id of the message.
Note: TypeAlias = Callable[[SqlTransaction, str, str], None]


class NotPossible(MercuryError):
    """The operation is not possible for this message; the text says why."""


@dataclass(frozen=True, slots=True)
class Whole:
    """A waiting message with its body."""

    seen: WaitingMessage
    message: OutboundMessage | InboundMessage


class WaitingMessages:
    """The messages of a SQL store that are not settled.

    Changes lock the rows that they change, or are conditional on the version that was read. A process that runs on the
    store and conflicts with a change rolls back and reads again.

    :param clock: seconds since the epoch.
    :param note: is called in the transaction of each change, with the action and the message.
    """

    def __init__(
        self, store: SqlStore, clock: Callable[[], float], ids: Ids | None = None, note: Note | None = None
    ) -> None:
        self._store = store
        self._note = note or _no_note
        self._clock = clock
        self._ids = ids or RandomIds()

    def find(self, direction: Direction, which: WaitingFilter, limit: int) -> list[WaitingMessage]:
        """A page of the waiting messages that match a filter, in order of insertion.

        :raises StorageError: the store failed.
        """
        with self._store.transaction() as tx:
            looking = StoreOverview(tx)
            return (looking.outbound if direction is Direction.OUTBOUND else looking.inbound)(which, limit)

    def whole(self, direction: Direction, position: int) -> Whole | None:
        """One waiting message with its body; ``None`` = it does not wait any more.

        :raises StorageError: the store failed.
        """
        found = self.find(direction, WaitingFilter(position=position), 1)
        with self._store.transaction() as tx:
            looking = StoreOverview(tx)
            message: OutboundMessage | InboundMessage | None
            if direction is Direction.OUTBOUND:
                message = looking.whole_outbound(position)
            else:
                message = looking.whole_inbound(position)
        return Whole(found[0], message) if found and message is not None else None

    def retry(self, direction: Direction, position: int) -> None:
        """Make a message due now. Other conditions that it waits for do not change.

        :raises NotPossible: the message does not wait any more, or is not the next one.
        :raises StorageError: the store failed; nothing is changed.
        """
        if direction is Direction.OUTBOUND:
            self._outbound(position, self._resend)
        else:
            self._first(position, None)

    def park(self, direction: Direction, position: int) -> None:
        """Park a message, so that the messages behind it are processed.

        An outbound message without a number becomes a dead letter immediately. An inbound message becomes a dead letter
        as soon as a process with its service reads it, also between two attempts; its client gets a fault.

        :raises NotPossible: the message does not wait any more, is not the next one, or has a number that the receiver
            waits for.
        :raises StorageError: the store failed; nothing is changed.
        """
        if direction is Direction.OUTBOUND:
            self._outbound(position, self._dead_letter)
        else:
            self._first(position, PARKED)

    # --- outbound --------------------------------------------------------------------------------------------------

    def _outbound(self, position: int, change: Callable[[SqlStore, OutboundMessage], None]) -> None:
        whole = self.whole(Direction.OUTBOUND, position)
        if whole is None or not isinstance(whole.message, OutboundMessage):
            raise NotPossible(f"out-{position} does not wait any more")
        change(self._store, whole.message)

    def _resend(self, store: SqlStore, message: OutboundMessage) -> None:
        with store.transaction() as tx:
            row, record = self._locked(tx, message)
            if record is None or row.number is None:
                raise NotPossible(
                    "it has no number yet: it is sent as soon as its sequence exists and its window has room"
                )
            now = self._clock()
            tx.rms.resend(record, [row.number], now)
            record.due = now
            tx.rms.save(record)
            self._note(tx, "retry", f"out-{row.position}")
        log.info("an operator makes a message due", extra=_about(message))

    def _dead_letter(self, store: SqlStore, message: OutboundMessage) -> None:
        with store.transaction() as tx:
            row, _ = self._locked(tx, message)
            if row.number is not None:
                raise NotPossible(
                    f"it has number {row.number} of its sequence already, and the receiver waits for every number: "
                    "it can be tried again (mercury messages retry), or the sequence terminated (Sender.terminate)"
                )
            tx.rms.discard([row])
            now = self._clock()
            letter = outbound_letter(row, self._ids.new(), PARKED, Certainty.NOT_DELIVERED, now)
            tx.dead_letters.add([letter])
            for record in tx.rms.records(message.channel.key):
                if record.rows_wait_until is not None:  # others may have waited for its time
                    record.due = now
                    tx.rms.save(record)
            self._note(tx, "park", f"out-{row.position}")
        log.warning("an operator parks a message", extra=_about(message))

    @staticmethod
    def _locked(tx: Transaction, message: OutboundMessage) -> tuple[OutboundMessage, RmsRecord | None]:
        """Lock the key; returns the current row and its sequence."""
        key = message.channel.key
        tx.rms.lock([key])
        row = tx.rms.row(message.message_id)
        if row is None:
            raise NotPossible("it does not wait any more")
        records = {record.id: record for record in tx.rms.records(key)}
        record = records.get(row.sequence_id or "")
        return row, record if record is not None and record.machine.alive else None

    # --- inbound ---------------------------------------------------------------------------------------------------

    def _first(self, position: int, parked: str | None) -> None:
        """Change the buffer of a message that must be the next one in it."""
        for left in range(TRIES, 0, -1):
            try:
                self._mark(position, parked)
                return
            except Conflict:
                if left == 1:
                    raise

    def _mark(self, position: int, parked: str | None) -> None:
        with self._store.transaction() as tx:
            record = tx.invoker.read(_inbound(tx, position).sequence or "")
            if record is None:
                raise NotPossible("its sequence does not exist any more")
            # Again: a delivery between the two would have changed the buffer before it was read, so that saving it
            # does not conflict.
            seen = _inbound(tx, position)
            if not seen.first:
                raise NotPossible(f"it is not its turn: it {seen.state}")
            record.retry_at = None
            if parked is not None:
                _reserve(record, seen)
            tx.invoker.save_delivered(record, consumed=())
            self._note(tx, "retry" if parked is None else "park", seen.id)
        text = "an operator makes a message due" if parked is None else "an operator parks a message"
        log.info(text, extra={"sequence": seen.sequence, "number": seen.number, "message_id": seen.message_id})


def _inbound(tx: SqlTransaction, position: int) -> WaitingMessage:
    found = StoreOverview(tx).inbound(WaitingFilter(position=position), 1)
    if not found:
        raise NotPossible(f"in-{position} does not wait any more")
    return found[0]


def _no_note(_tx: SqlTransaction, _action: str, _message: str) -> None:
    """Default without an audit."""


def _reserve(record: InvokerRecord, seen: WaitingMessage) -> None:
    if record.parked not in (None, seen.number):
        raise NotPossible(f"number {record.parked} of its sequence is being parked; try again when that is done")
    record.parked = seen.number


def _about(message: OutboundMessage) -> dict[str, object]:
    return {"message_id": message.message_id, "endpoint": message.channel.endpoint, "key": message.channel.key.name}
