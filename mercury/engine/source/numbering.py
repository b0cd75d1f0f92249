"""Assigns message numbers to rows that the application handed over (figure 3-14).

A row gets a number when it can be sent. While the window is full the other rows wait without numbers. Numbering
continues when a quarter of the window is free: otherwise every acknowledgement would cause a transaction for a few
messages.
"""

from __future__ import annotations

from collections.abc import Sequence

from mercury.engine.channels import unfetchable_at
from mercury.engine.context import EngineContext
from mercury.engine.dead_letters import ABANDONED, DAMAGED, dead_letter
from mercury.engine.source.apply_effects import handle_rms, holds_back
from mercury.engine.source.batching import waits_for_batch
from mercury.engine.source.in_window import WINDOW_BYTES
from mercury.engine.source.lifetimes import (
    EXPIRED,
    MOST_EXPIRED,
    is_being_created,
    is_expired,
    waits_until,
    withdraw_expired,
)
from mercury.engine.source.peer_store import store_of, tell_replaced
from mercury.statemachine import effects, events
from mercury.statemachine.effects import Certainty, RmsEffect
from mercury.statemachine.events import FailureReason
from mercury.statemachine.flow_control import opened, room_for_numbers
from mercury.statemachine.protocol import RmVersion
from mercury.statemachine.rms import RMSSequence
from mercury.statemachine.rms_table import RmsState
from mercury.statemachine.succession import NOTHING_TAKEN, successor_pause, took_nothing
from mercury.storage.api import Transaction
from mercury.storage.records import Channel, OutboundKind, OutboundMessage, RmsRecord, Role, SequenceKey

#: Rows with so many bytes may be all that fits into a transaction.
MANY_BYTES = WINDOW_BYTES // 8
#: The reason of a dead letter of a response that no client can fetch.
TOO_LATE = "the client ended its sequence before the response was there"


class Numbering:
    """One transaction's numbering of the rows of one locked key.

    :param records: the key's sequences; a new sequence is added to this list.
    """

    def __init__(
        self, context: EngineContext, tx: Transaction, key: SequenceKey, records: list[RmsRecord], now: float
    ) -> None:
        #: Whether more rows may get numbers at once: this transaction has only a part of them.
        self.leaves_rows = False
        #: Responses that can leave on a back-channel now, each with its sequence.
        self.responses: list[tuple[RmsRecord, OutboundMessage]] = []
        self._context = context
        self._tx = tx
        self._key = key
        self._records = records
        self._now = now
        self._numbered: dict[str, list[OutboundMessage]] = {}
        #: The free numbers of the window; ``None`` = no window.
        self._room: int | None = None
        #: Until when the rows were to wait before, in the future.
        self._held: float | None = None

    def run(self) -> int:
        """Assign numbers to the waiting rows, in order of insertion. Returns the bytes of their bodies."""
        self._end_wait()
        rows = self._waiting()
        if not rows:
            return 0
        done: list[OutboundMessage] = []
        late: list[OutboundMessage] = []
        collects = self._collects_until(rows)
        for place, row in enumerate(rows):
            current = self._records[-1] if self._records and self._records[-1].machine.alive else None
            if row.damaged:
                if not row.channel.key.endpoint:  # the key is damaged too
                    row.channel = self._records[-1].channel if self._records else Channel(key=self._key)
                dead_letter(self._tx, self._context, [row], DAMAGED, Certainty.NOT_DELIVERED, self._now)
                if not row.is_response:
                    done.append(row)
                    continue  # a fault is sent in place of a damaged response
            if self._too_old(row):
                done.append(row)
                continue
            if row.channel.plain and self._unfetchable(row.channel):
                late.append(row)
                continue
            if row.kind is OutboundKind.ABANDON:
                self._write()  # the abandoned rows are found by number
            if row.kind is not OutboundKind.MESSAGE and self._end(row, current):
                done.append(row)
                continue
            if current is None or not current.machine.takes_messages:
                if current is not None and holds_back(current):
                    current.holds_successor = True  # its successor starts when no message of this one can arrive late
                    self._write()
                    done += self._abandon(rows[place:]) or self._expired(rows[place:])
                    self.leaves_rows = False
                    break
                if row.channel.back_channel and not row.channel.plain:
                    late.append(row)
                    continue
                current = self._create(row.channel, row.owner or "")
            current.rows_wait_until = waits_until(row, current, self._held, self._now) or collects
            if current.rows_wait_until is not None:
                done += self._wait(current, rows[place:])
                break
            if self._room == 0 or (row.expects_response and current.machine.crowded(row.channel.policy)):
                current.window_full = True
                done += self._expired(rows[place:])
                self.leaves_rows = False
                break
            self._assign(row, current)
            if row.expires_at is not None and is_being_created(current):
                current.rows_wait_until = row.expires_at
                done += self._wait(current, rows[place + 1 :])
                break
        dead_letter(self._tx, self._context, late, TOO_LATE, Certainty.NOT_DELIVERED, self._now)
        self._tx.rms.discard([*done, *late])
        self._write()
        return sum(len(row.payload) for row in rows)

    def _collects_until(self, rows: list[OutboundMessage]) -> float | None:
        """Until when the rows wait for others to fill a batch; ``None`` = they do not wait."""
        current = self._records[-1] if self._records else None
        if not rows or current is None or not current.machine.takes_messages:
            return None
        return waits_for_batch(rows, current, self._now)

    def _unfetchable(self, channel: Channel) -> bool:
        """Whether the sequence by which the client would fetch a reply has ended."""
        if not channel.back_channel:
            return False
        over_at = unfetchable_at(self._tx.rmd.read(channel.pair or ""), self._context.settings.back_channel_grace)
        return over_at is not None and over_at <= self._now

    def _too_old(self, row: OutboundMessage) -> bool:
        """Whether a message without a number has expired or reached the limit by age; then it becomes a dead letter."""
        if row.expires_at is not None and is_expired(row, self._now):
            dead_letter(self._tx, self._context, [row], EXPIRED, Certainty.NOT_DELIVERED, self._now)
            return True
        limit = row.channel.policy.retransmission.max_age
        if row.kind is not OutboundKind.MESSAGE or row.relates_to is not None or limit is None:
            return False
        if self._now - (row.not_before or row.created_at) < limit:
            return False
        reason = f"given up: it waited for {limit:g} s (source.retransmission.max_age)"
        dead_letter(self._tx, self._context, [row], reason, Certainty.NOT_DELIVERED, self._now)
        return True

    def _end_wait(self) -> None:
        """Forget until when rows were to wait: the rows say it again."""
        for record in self._records[-1:]:
            until = record.rows_wait_until
            if record.machine.state is RmsState.NEW:  # it only held the rows
                self._tx.rms.delete(record)
                self._records.remove(record)
                continue
            self._held = until if until is not None and until > self._now else None
            if self._held is None or not is_being_created(record):
                record.rows_wait_until = None
            if until is not None and self._held is None:
                withdraw_expired(self._tx, self._context, record, self._now)

    def _wait(self, current: RmsRecord, rows: list[OutboundMessage]) -> list[OutboundMessage]:
        """Let rows wait until the time of the sequence (`RmsRecord.rows_wait_until`). Returns those that are dead
        letters instead."""
        self._write()
        abandoned = self._abandon(rows)
        gone = abandoned or self._expired(rows)
        self.leaves_rows = bool(abandoned)
        if abandoned:
            current.rows_wait_until = None
        return gone

    def _expired(self, rows: list[OutboundMessage]) -> list[OutboundMessage]:
        """Make dead letters of rows that have expired behind one that waits. Returns them.

        :param rows: those that were read, from the one that waits on.
        """
        if not rows or not (self.leaves_rows or any(row.expires_at is not None for row in rows)):
            return []
        found = self._tx.rms.expired(self._key, self._now, MOST_EXPIRED)
        gone = [row for row in found if row.position >= rows[0].position and not row.damaged]
        dead_letter(self._tx, self._context, gone, EXPIRED, Certainty.NOT_DELIVERED, self._now)
        return gone

    def _waiting(self) -> list[OutboundMessage]:
        """The rows that can get a number now."""
        batch = self._context.settings.number_batch
        current = self._records[-1] if self._records else None
        if current is None or not current.machine.takes_messages or current.channel.back_channel:
            return self._part(batch)
        current.window_full = False
        policy, machine = current.channel.policy, current.machine
        room = room_for_numbers(machine, policy)
        if batch < room:
            return self._part(batch)
        rows = self._part(room + 1)  # the row above the room shows that the window is full
        if len(rows) <= room:
            return rows
        if self._tx.rms.abandoned(self._key):  # an abandonment is not limited by the window
            return self._part(batch)
        self._room = opened(machine, policy, room)
        return rows

    def _part(self, most: int) -> list[OutboundMessage]:
        """The first waiting rows, and whether others may follow them."""
        rows = self._tx.rms.unnumbered(self._key, most, WINDOW_BYTES)
        self.leaves_rows = len(rows) == most or sum(len(row.payload) for row in rows) >= MANY_BYTES
        return rows

    def _write(self) -> None:
        """Write the assigned numbers."""
        for record in self._records:
            if record.id in self._numbered:
                self._tx.rms.number(record, self._numbered.pop(record.id))
                if record.channel.back_channel:
                    # From now on the exchange of any request may carry it.
                    self._handle(record, events.Transmitted(record.machine.last_number))
                    surplus = record.machine.last_number - self._context.settings.replies_kept
                    if record.channel.plain and surplus > 0:
                        self._handle(record, events.Acknowledged(((1, surplus),)))  # the oldest count as fetched

    def _end(self, row: OutboundMessage, current: RmsRecord | None) -> bool:
        """Handle the row by which the application ends a key. ``False`` = the row needs a number: LastMessage of WS-RM
        1.0."""
        if self._ends_another(row):
            return True
        if current is None or not current.machine.last_number:
            if current is not None:
                self._handle(current, events.End(abandon=row.kind is OutboundKind.ABANDON))
            return True  # to end a key without a sequence has no effect
        numbered = current.machine.rm is RmVersion.RM10 and row.kind is OutboundKind.END and not current.channel.plain
        if numbered and not current.channel.back_channel and current.machine.takes_messages:
            row.last = True
            return False
        self._handle(current, events.End(abandon=row.kind is OutboundKind.ABANDON))
        return True

    def _ends_another(self, row: OutboundMessage) -> bool:
        """Whether a row ends a sequence that is no longer the newest. That one is ended: its successor is not meant."""
        newest = (*self._records[-1:], *replaced_before(self._records[:-1]))
        if row.sequence_id is None or any(record.id == row.sequence_id for record in newest):
            return False
        for record in self._records:
            if record.id == row.sequence_id:
                self._handle(record, events.End(abandon=row.kind is OutboundKind.ABANDON))
        return True

    def _abandon(self, rows: list[OutboundMessage]) -> list[OutboundMessage]:
        """If the key is abandoned, make the rows up to the abandonment dead letters. Returns these rows."""
        if not self._tx.rms.abandoned(self._key):
            return []
        ends = [place for place, row in enumerate(rows) if row.kind is OutboundKind.ABANDON]
        gone = rows[: ends[-1] + 1] if ends else rows  # the abandonment is the last of these rows
        dead_letter(self._tx, self._context, gone, ABANDONED, Certainty.NOT_DELIVERED, self._now)
        for record in self._records:
            self._handle(record, events.End(abandon=True))
        return gone

    def _create(self, channel: Channel, owner: str) -> RmsRecord:
        new, rm = self._context.ids.new, channel.policy.protocol.rm
        plain, replaced = channel.plain, replaced_before(self._records)
        # A CreateSequence that is sent anew makes no offer if the one before dropped its own (`effects.WithoutOffer`).
        offers = channel.policy.offer and not any(each.offered is None for each in replaced)
        record = RmsRecord(
            id=new(),
            channel=channel,
            machine=RMSSequence.offered(rm, new(), None, self._now) if plain else RMSSequence.start(rm, self._now),
            created_at=self._now,
            create_message_id=new(),
            offered=new() if offers and channel.role is Role.REQUEST else None,
            follows=followed(self._records),
            owner=owner,
            store=store_of(self._tx, channel),
        )
        if replaced:
            record.created_at = replaced[0].created_at  # the limit by age counts from the first attempt
        before = [each.machine for each in self._records]
        if before and took_nothing(before[-1]):
            # Each sequence leaves a tombstone at the peer, and a peer may end new sequences as fast as they are made.
            pause = successor_pause(before, channel.policy.retransmission, self._context.ids.chance())
            record.machine.put_off_control(self._now + pause)
            record.last_error = self._records[-1].last_error or NOTHING_TAKEN
        if self._records:
            self._records[-1].window_full = self._records[-1].holds_successor = False
            tell_replaced(self._tx, self._context, self._records[-1], record, self._now)
        self._room = None if channel.back_channel else record.machine.window(channel.policy)
        self._tx.rms.insert(record)
        self._records.append(record)
        if len(self._records) > 1:  # an abandonment does not wait for the rows before it, so none may be left
            self._tx.rms.discard([row for row in self._tx.rms.abandonments(self._key) if self._ends_another(row)])
        return record

    def _assign(self, row: OutboundMessage, record: RmsRecord) -> None:
        requested = self._handle(record, events.Number(last=row.last, expects_response=row.expects_response))
        number = next((effect.number for effect in requested if isinstance(effect, effects.Numbered)), None)
        if number is None:
            return
        row.sequence_id, row.number, row.due = record.id, number, self._now
        self._numbered.setdefault(record.id, []).append(row)
        if self._room is not None:
            self._room -= 1
        if record.channel.back_channel and row.relates_to is not None:
            self.responses.append((record, row))

    def _handle(self, record: RmsRecord, event: events.RmsInput) -> tuple[RmsEffect, ...]:
        return handle_rms(self._tx, self._context, record, event, self._now)


def followed(records: Sequence[RmsRecord]) -> str | None:
    """The identifier of the predecessor of a new sequence: the latest sequence whose messages the destination may have.
    A sequence without an identifier has sent no messages; its predecessor counts instead.

    :param records: the earlier sequences of the key, oldest first.
    """
    if not records:
        return None
    return records[-1].machine.identifier or records[-1].follows


def replaced_before(records: Sequence[RmsRecord]) -> list[RmsRecord]:
    """The sequences at the end of these that were replaced by a new CreateSequence."""
    found: list[RmsRecord] = []
    for record in reversed(records):
        if record.machine.failure is not FailureReason.REPLACED:
            break
        found.insert(0, record)
    return found
