"""Messages that wait: listed, retried at once, or parked. Works beside running processes."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from mercury.engine.ids import Ids, RandomIds
from mercury.errors import Conflict, MercuryError
from mercury.statemachine.effects import Certainty
from mercury.storage.api import Transaction
from mercury.storage.letters import PARKED, outbound_letter
from mercury.storage.records import (
    Direction,
    InboundMessage,
    InvokerRecord,
    OutboundMessage,
    RmsRecord,
)
from mercury.storage.sql.overview import StoreOverview
from mercury.storage.sql.store import SqlStore
from mercury.storage.waiting import WaitingFilter, WaitingMessage

log = logging.getLogger("mercury.client")

#: How often a change is tried that a running process was quicker than.
TRIES = 20


class NotPossible(MercuryError):
    """What was asked for cannot be done to this message; the text says why."""


@dataclass(frozen=True, slots=True)
class Whole:
    """A message that waits, with its body."""

    seen: WaitingMessage
    message: OutboundMessage | InboundMessage


class WaitingMessages:
    """The messages of a SQL store that are not done.

    Changes are made under the locks of the rows that they change, or on the condition that nobody has changed them
    meanwhile: a process that runs on the store gives up what it was about to do, and reads again.

    :param clock: seconds since the epoch.
    """

    def __init__(self, store: SqlStore, clock: Callable[[], float], ids: Ids | None = None) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids or RandomIds()

    def find(self, direction: Direction, which: WaitingFilter, limit: int) -> list[WaitingMessage]:
        """A page of those that a filter means, in the order in which they came.

        :raises StorageError: the store failed.
        """
        with self._store.transaction() as tx:
            looking = StoreOverview(tx)
            return (looking.outbound if direction is Direction.OUTBOUND else looking.inbound)(which, limit)

    def whole(self, direction: Direction, position: int) -> Whole | None:
        """One of them with its body; ``None`` = it does not wait any more.

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
        """Make one due now, without a pause; what it waits for besides stays as it is.

        :raises NotPossible: it does not wait any more, or it is not its turn.
        :raises StorageError: the store failed; nothing is changed.
        """
        if direction is Direction.OUTBOUND:
            self._outbound(position, self._resend)
        else:
            self._first(position, None)

    def park(self, direction: Direction, position: int) -> None:
        """Take one out of the way, so that the rest goes on.

        An outbound one without a number becomes a dead letter here and now. An inbound one becomes one as soon as a
        process that hosts its service reads it, also between two tries; its client gets a fault.

        :raises NotPossible: it does not wait any more, it is not its turn, or its number cannot be left out.
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
                    "it has no number yet: it is sent as soon as its sequence is made and has room for it"
                )
            now = self._clock()
            tx.rms.resend(record, [row.number], now)
            record.due = now
            tx.rms.save(record)
        log.info("an operator makes a message due", extra=_about(message))

    def _dead_letter(self, store: SqlStore, message: OutboundMessage) -> None:
        with store.transaction() as tx:
            row, _ = self._locked(tx, message)
            if row.number is not None:
                raise NotPossible(
                    f"it has number {row.number} of its sequence already, and the receiver waits for every number: "
                    "it can be tried again (mercury messages retry), or the sequence be given up (Sender.terminate)"
                )
            tx.rms.discard([row])
            letter = outbound_letter(row, self._ids.new(), PARKED, Certainty.NOT_DELIVERED, self._clock())
            tx.dead_letters.add([letter])
        log.warning("an operator parks a message", extra=_about(message))

    @staticmethod
    def _locked(tx: Transaction, message: OutboundMessage) -> tuple[OutboundMessage, RmsRecord | None]:
        """The row as it is now, and its sequence; the key is locked."""
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
        """Change the buffer in which a message is the next one."""
        for left in range(TRIES, 0, -1):
            try:
                self._mark(position, parked)
                return
            except Conflict:
                if left == 1:
                    raise

    def _mark(self, position: int, parked: str | None) -> None:
        with self._store.transaction() as tx:
            found = StoreOverview(tx).inbound(WaitingFilter(position=position), 1)
            if not found:
                raise NotPossible(f"in-{position} does not wait any more")
            seen = found[0]
            record = tx.invoker.read(seen.sequence or "")
            if record is None:
                raise NotPossible("its sequence is forgotten")
            if not seen.first:
                raise NotPossible(f"it is not its turn: it {seen.state}")
            record.retry_at = None
            if parked is not None:
                _reserve(record, seen)
            tx.invoker.save_delivered(record, consumed=())
        text = "an operator makes a message due" if parked is None else "an operator parks a message"
        log.info(text, extra={"sequence": seen.sequence, "number": seen.number, "message_id": seen.message_id})


def _reserve(record: InvokerRecord, seen: WaitingMessage) -> None:
    if record.parked not in (None, seen.number):
        raise NotPossible(f"number {record.parked} of its sequence is being parked; try again when that is done")
    record.parked = seen.number


def _about(message: OutboundMessage) -> dict[str, object]:
    return {"message_id": message.message_id, "endpoint": message.channel.endpoint, "key": message.channel.key.name}
