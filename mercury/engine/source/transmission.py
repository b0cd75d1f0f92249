"""One transaction's work on one key: number, transmit, retransmit, create, close, terminate (figure 3-14)."""

from __future__ import annotations

from collections.abc import Callable

from mercury.engine import envelopes
from mercury.engine.channels import REPLIES_POLL_INTERVAL, hopeless, unfetchable_at
from mercury.engine.context import EngineContext
from mercury.engine.dead_letters import DAMAGED, dead_letter
from mercury.engine.emission import emit_transmitted
from mercury.engine.exchange import Outgoing, Purpose, Step
from mercury.engine.rmd_records import end_offered
from mercury.engine.source import back_channel
from mercury.engine.source.apply_effects import handle_rms, probe_after, release_acknowledged, save_rms
from mercury.engine.source.numbering import Numbering, replaced_before
from mercury.statemachine import effects, events
from mercury.statemachine.effects import Certainty
from mercury.statemachine.messages import SequenceAcknowledgement
from mercury.statemachine.retransmission import is_due
from mercury.statemachine.rms_counters import RmsWork
from mercury.statemachine.succession import NOTHING_TAKEN
from mercury.storage.api import Transaction
from mercury.storage.records import Channel, OutboundMessage, RmdRecord, RmsRecord, Role, SequenceKey
from mercury.wire.envelope import Envelope

#: Ended sequences of one key that are remembered at most: a key that is used from time to time has many in a day.
TOMBSTONES = 16
IsInFlight = Callable[[str, int], bool]


class PairEnds(Exception):
    """A sequence ends, and with it the one that it offered, which should have been locked before."""


class KeyWork:
    """One transaction's work on one key.

    :param is_in_flight: whether a message is being posted: then its time has not begun.
    :param pairs: lock the sequences that end together with the key's. It is seldom needed, so it is tried without.
    """

    def __init__(
        self, context: EngineContext, key: SequenceKey, now: float, is_in_flight: IsInFlight, *, pairs: bool = False
    ) -> None:
        self.context = context
        self.key = key
        self.now = now
        self._is_in_flight = is_in_flight
        self.step = Step(progress=1)
        self._pairs = pairs
        self._requests: dict[str, RmdRecord | None] = {}

    def do(self, tx: Transaction) -> None:
        """Everything that is due.

        :raises PairEnds: it has to be done again, with ``pairs``.
        """
        pairs = self._lock_pairs(tx) if self._pairs else {}
        tx.rms.lock([self.key])
        records = tx.rms.records(self.key)
        paired = {record.id for record in records if self._ends_pair(record)}
        for record in records:
            if record.machine.alive:
                self._handle(tx, record, events.Tick())
        numbering = Numbering(self.context, tx, self.key, records, self.now)
        numbering.run()
        for record, row in numbering.responses:
            request = self._request(tx, record.channel)
            self.step.responses.append(back_channel.response(self.context, record, row, request))
        for index, record in enumerate(records):
            if self._is_dormant(record, index < len(records) - TOMBSTONES):
                continue
            self._advance(tx, record, records[:index])
            if record.id in paired and not record.machine.alive and not self._pairs:
                raise PairEnds
            if not record.machine.alive and record.offered in pairs:
                end_offered(tx, self.context, pairs[record.offered], self.now)
            crowded = index < len(records) - TOMBSTONES and not record.machine.unanswered
            forgotten_at = self._forgotten_at(tx, record)
            if forgotten_at is not None and (crowded or forgotten_at <= self.now):
                self._forget(tx, record)
            else:
                save_rms(tx, record)

    def _is_dormant(self, record: RmsRecord, crowded: bool) -> bool:
        """Whether it has ended, is planned to be forgotten, and it is not the time: there is nothing to write."""
        if record.machine.alive or record.ended_at is None or crowded or record.holds:
            return False
        remembered = record.channel.policy.tombstone
        planned = record.due in (record.ended_at + remembered, record.ended_at + self._at_most_briefly(remembered))
        return planned and record.due is not None and record.due > self.now

    def _lock_pairs(self, tx: Transaction) -> dict[str, RmdRecord]:
        """The offered sequences that end when this key's sequences do: nobody can tell their end (RM-TRM-05)."""
        known = tx.rms.peek(self.key)
        return tx.rmd.lock(record.offered for record in known if record.offered and self._ends_pair(record))

    @staticmethod
    def _ends_pair(record: RmsRecord) -> bool:
        """Whether the end of this living sequence is the end of the one that it offered."""
        accepted = record.offered is not None and record.offer_accepted
        return accepted and record.machine.alive and record.channel.reply_to.anonymous

    # --- transmitting ----------------------------------------------------------------------------------------------

    def _advance(self, tx: Transaction, record: RmsRecord, earlier: list[RmsRecord]) -> None:
        """Post what is due of one sequence and find out when something is due next.

        :param earlier: the sequences of its key before it.
        """
        self._note_last_error(record, earlier)
        times: list[float | None] = []
        if record.machine.alive and not record.channel.back_channel:
            times.append(self._transmit(tx, record))
            self._control(tx, record, earlier)
        elif record.machine.alive:
            times.append(self._settle_back_channel(tx, record))
        times.append(record.machine.next_due(record.channel.policy, posts=not record.channel.back_channel))
        times.append(self._forgotten_at(tx, record))
        record.due = min((at for at in times if at is not None), default=None)
        record.planned_at = self.now

    def _note_last_error(self, record: RmsRecord, earlier: list[RmsRecord]) -> None:
        """Keep why nothing moves where an operator finds it without this process; it is over when an exchange works."""
        url = record.channel.endpoint
        trouble = self.context.endpoint_errors.get(url)
        if trouble is not None:
            record.last_error = trouble
        elif record.last_error is not None and record.last_error.startswith(f"{url}: "):
            record.last_error = None
        elif earlier and record.machine.acknowledged and record.last_error in (NOTHING_TAKEN, earlier[-1].last_error):
            record.last_error = None  # what kept the sequence before it from being taken is over

    def _transmit(self, tx: Transaction, record: RmsRecord) -> float | None:
        machine, policy = record.machine, record.channel.policy
        if machine.identifier is None or machine.abandoned:
            return None
        rows = self._rows(tx, record, self.now)
        if any(row.due > self.now and policy.retransmission.is_due(row.due, self.now) for row in rows):
            rows = self._rows(tx, record, None)  # the clock was set back: all bodies are needed
        if rows and rows[0].attempts >= 2 and machine.last_heard < self.now - probe_after(policy):
            rows = rows[:1]  # nothing comes back: one message finds out as well as a whole window (FC-03)
        if rows and envelopes.is_bare_last(rows[-1]) and machine.lowest_outstanding() < (rows[-1].number or 0):
            rows = rows[:-1]  # LIVE-03: some destinations take nothing after it; an acknowledgement lets it be tried
        due = [row for row in rows if policy.retransmission.is_due(row.due, self.now)]
        due = self._postpone_in_flight(tx, record, due)
        if self._shrinks_window(tx, record, due):
            return self._transmit(tx, record)
        damaged = [row for row in due if row.damaged and not row.acknowledged and not row.is_response]
        if damaged:
            self._give_up_damaged(tx, record, damaged)
            return None
        for row in due:
            if not row.acknowledged and policy.retransmission.exhausted(row.attempts, self.now - row.created_at):
                self._handle(tx, record, events.GaveUp())
                return None
        if due:
            self._handle(tx, record, events.Transmitted(max(row.number or 0 for row in due)))
        for row in due:
            row.attempts += 1
            row.due = self.now + policy.retransmission.delay(row.attempts, self.context.ids.chance())
            ask = row.attempts > 1 or row is due[-1] or (row.number or 0) % policy.ack_request_interval == 0
            pair = self._pair_acknowledgement(tx, record) if envelopes.is_bare_last(row) else ()
            envelope = envelopes.message(record, row, ask=ask, acknowledgements=pair)
            self._post(record, envelope, Purpose.MESSAGE, row.number, held=row.expects_response)
            emit_transmitted(tx, self.context.observers, record, row, self.now)
        tx.rms.transmitted(due)
        return min((row.due for row in rows), default=None)

    def _postpone_in_flight(
        self, tx: Transaction, record: RmsRecord, due: list[OutboundMessage]
    ) -> list[OutboundMessage]:
        """What waits for a thread, or is being posted, is not lost: its pause begins anew. Returns the rest."""
        wait, rest = [], []
        for row in due:
            if row.attempts and self._is_in_flight(record.id, row.number or 0):
                row.due = self.now + record.channel.policy.retransmission.delay(row.attempts, self.context.ids.chance())
                wait.append(row)
            else:
                rest.append(row)
        tx.rms.transmitted(wait)
        return rest

    @staticmethod
    def _rows(tx: Transaction, record: RmsRecord, now: float | None) -> list[OutboundMessage]:
        """What is in the window: not acknowledged, or acknowledged and to be sent again until it is answered."""
        machine, policy = record.machine, record.channel.policy
        many = machine.flow.limit(policy.window)
        if not record.channel.reply_to.anonymous:
            return tx.rms.unsettled(record, many, now)
        last = machine.window_end(policy)
        rows = tx.rms.unsettled(record, many + machine.unanswered, now)
        return [row for row in rows if row.acknowledged or (row.number or 0) <= last]

    def _shrinks_window(self, tx: Transaction, record: RmsRecord, due: list[OutboundMessage]) -> bool:
        """Whether the destination takes only the next number, as it turns out now."""
        machine, policy = record.machine, record.channel.policy
        before = machine.flow
        first = next((row for row in due if row.number == machine.lowest_outstanding()), None)
        if first is None or not first.attempts or before.limit(policy.window) == 1:
            return False
        # The pause may have been shorter by chance: then it was sent later than this.
        since = first.due - policy.retransmission.delay(first.attempts, 0.0)
        # What did not get there says nothing about what the destination takes.
        if machine.last_heard > since and not self.context.endpoint_errors.failed_since(record.channel.endpoint, since):
            self._handle(tx, record, events.Overdue())
        return machine.flow != before

    def _give_up_damaged(self, tx: Transaction, record: RmsRecord, rows: list[OutboundMessage]) -> None:
        """A number that cannot be sent would hold up the rest for ever: the sequence fails as a whole."""
        for row in rows:
            certainty = Certainty.UNKNOWN if row.attempts else Certainty.NOT_DELIVERED
            number = row.number or 0
            taken = tx.rms.take(record, ((number, number),))
            for each in taken:
                each.channel = record.channel  # its own may be unreadable
            dead_letter(tx, self.context, taken, DAMAGED, certainty, self.now)
        self._handle(tx, record, events.GaveUp())

    def _control(self, tx: Transaction, record: RmsRecord, earlier: list[RmsRecord]) -> None:
        """Post the message that creates, closes or terminates, if it is due.

        :param earlier: the sequences of its key before it.
        """
        machine, policy = record.machine, record.channel.policy
        work = machine.work(policy)
        if record.channel.plain:
            self._handle(tx, record, events.Settled())  # no peer knows of this sequence
            return
        longest = max(policy.retransmission.cap, policy.close_unacknowledged_after or 0.0)
        if work in (None, RmsWork.TRANSMIT) or not is_due(machine.control_due, self.now, longest):
            return
        if work is RmsWork.CREATE:
            attempts = sum(each.machine.control_attempts for each in replaced_before(earlier))
            over = policy.retransmission.exhausted(attempts + machine.control_attempts, self.now - record.created_at)
            over = over or self._hopeless(tx, record)
        else:
            over = machine.control_attempts >= policy.end_attempts and not machine.asks_final(policy)
        if over:
            self._handle(tx, record, events.GaveUp())
            return
        repeated = machine.control_attempts > 0
        delay = policy.retransmission.delay(machine.control_attempts + 1, self.context.ids.chance())
        self._handle(tx, record, events.ControlSent(self.now + delay))
        if work is RmsWork.CREATE:
            # The destination takes a successor for the end of the pair before it: say now what arrived of that.
            before = [each for each in earlier if record.follows and each.machine.identifier == record.follows]
            last_word = self._pair_acknowledgement(tx, before[0]) if before else ()
            created = envelopes.create_sequence(record, self.context.application.policy(None), last_word)
            self._post(record, created, Purpose.CREATE, repeated=repeated)
            return
        pair = self._pair_acknowledgement(tx, record)
        if work is RmsWork.CLOSE:
            closing = envelopes.close_sequence(record, self.context.ids.new(), pair)
            self._post(record, closing, Purpose.CLOSE, repeated=repeated)
        else:
            ending = envelopes.terminate_sequence(record, self.context.ids.new(), pair)
            self._post(record, ending, Purpose.TERMINATE, repeated=repeated)

    def _settle_back_channel(self, tx: Transaction, record: RmsRecord) -> float | None:
        """Without an address no end can be sent; the end of the request sequence ends this one (RM-TRM-05).

        Returns when to check again.
        """
        request = self._request(tx, record.channel)
        if record.channel.plain:
            over_at = unfetchable_at(request, self.context.settings.back_channel_grace)
            if over_at is None or over_at > self.now:
                return self.now + REPLIES_POLL_INTERVAL if over_at is None else over_at
            last = record.machine.last_number
            self._handle(tx, record, events.Acknowledged(((1, last),) if last else ()))
            self._handle(tx, record, events.End())
            self._handle(tx, record, events.Settled())
            return None
        if request is None or request.machine.tombstone:
            self._handle(tx, record, events.End())
            self._handle(tx, record, events.Settled())
            if record.machine.alive and record.machine.expires_at is None:
                record.machine.expires_at = self.now + self.context.settings.back_channel_grace
        return None

    def _hopeless(self, tx: Transaction, record: RmsRecord) -> bool:
        channel = record.channel
        if channel.role is not Role.RESPONSE or channel.pair is None or not record.machine.control_attempts:
            return False
        return hopeless(record, self._request(tx, channel), self.context.settings.response_grace, self.now)

    def _request(self, tx: Transaction, channel: Channel) -> RmdRecord | None:
        """The sequence of the requests that are answered on a channel."""
        if channel.pair is None:
            return None
        if channel.pair not in self._requests:
            self._requests[channel.pair] = tx.rmd.read(channel.pair)
        return self._requests[channel.pair]

    def _pair_acknowledgement(self, tx: Transaction, record: RmsRecord) -> envelopes.Acknowledgements:
        pair = record.offered if record.offer_accepted else record.channel.pair
        found = tx.rmd.read(pair) if pair else None
        if found is None or not found.machine.used:
            return ()
        # It is the last one there will be: everything that is stored counts, consumed or not.
        return (SequenceAcknowledgement(found.identifier, found.machine.accepted()),)

    # --- within ----------------------------------------------------------------------------------------------------

    def _handle(self, tx: Transaction, record: RmsRecord, event: events.RmsInput) -> tuple[effects.RmsEffect, ...]:
        return handle_rms(tx, self.context, record, event, self.now)

    def _post(
        self,
        record: RmsRecord,
        envelope: Envelope,
        purpose: Purpose,
        number: int | None = None,
        *,
        repeated: bool = False,
        held: bool = False,
    ) -> None:
        follows_end = record.offer_accepted and record.channel.reply_to.anonymous
        self.step.posts.append(
            Outgoing(
                url=record.channel.endpoint,
                envelope=envelope,
                purpose=purpose,
                key=record.channel.key,
                record_id=record.id,
                number=number,
                pair=record.offered if follows_end else None,
                repeated=repeated,
                held=held and record.channel.reply_to.anonymous,
            )
        )

    def _forgotten_at(self, tx: Transaction, record: RmsRecord) -> float | None:
        """When its tombstone ends: soon after its end if the requests that it answers are forgotten already."""
        if record.ended_at is None:
            return None
        remembered, channel = record.channel.policy.tombstone, record.channel
        if channel.role is Role.RESPONSE and self._request(tx, channel) is None:
            remembered = self._at_most_briefly(remembered)
        return record.ended_at + remembered

    def _at_most_briefly(self, remembered: float) -> float:
        return min(remembered, self.context.settings.remember_ended)

    def _forget(self, tx: Transaction, record: RmsRecord) -> None:
        """The tombstone's time is over; requests that were never answered do not vanish with it."""
        release_acknowledged(tx, record)
        left = tx.rms.take(record, ((1, max(1, record.machine.last_number)),))
        dead_letter(
            tx, self.context, left, "no response came before the sequence was forgotten", Certainty.UNKNOWN, self.now
        )
        tx.rms.delete(record)
