"""Selects the message that answers a MakeConnection (MC-05)."""

from __future__ import annotations

from mercury.engine.context import EngineContext
from mercury.engine.source.after_start import ThisProcess
from mercury.engine.source.fetched import needs_control
from mercury.engine.source.transmission import KeyWork
from mercury.statemachine import events
from mercury.storage.api import Transaction
from mercury.storage.records import OutboundMessage, RmsRecord, SequenceKey
from mercury.wire.envelope import Envelope

#: How often a reply outside any sequence is sent: it is never acknowledged, and a transmission may be lost.
UNSEQUENCED_FETCHES = 3


class PolledWork(KeyWork):
    """The work of one MakeConnection on one locked key."""

    _one_message = True

    def __init__(self, context: EngineContext, key: SequenceKey, now: float) -> None:
        super().__init__(context, key, now, ThisProcess())
        self._more = False
        self._chosen: OutboundMessage | None = None

    def fetch(self, tx: Transaction, record: RmsRecord, earlier: list[RmsRecord]) -> Envelope | None:
        """The due message of a sequence; sets in the record when the next one is due. The caller saves the record.

        :param earlier: the earlier sequences of its key.
        """
        machine = record.machine
        at = self._transmit(tx, record) if machine.alive else None
        if machine.alive and not self.step.posts:
            self._control(tx, record, earlier)
        if self._chosen is not None and record.channel.plain and self._chosen.attempts >= UNSEQUENCED_FETCHES:
            number = self._chosen.number or 0
            self._handle(tx, record, events.Acknowledged(((number, number),)))
            self._handle(tx, record, events.Settled())
        times = [self.now if self._more else at]
        if machine.alive and needs_control(record):
            times.append(machine.control_due)
        record.fetch_due = min((each for each in times if each is not None), default=None)
        return self.step.posts[0].envelope if self.step.posts else None

    def _choose(self, due: list[OutboundMessage]) -> list[OutboundMessage]:
        """Choose one message for each MakeConnection; the next MakeConnection gets the next message."""
        self._more = len(due) > 1
        self._chosen = next((row for row in due if not row.unread), None)
        return [] if self._chosen is None else [self._chosen]
