"""One transaction's work on one key: number, transmit, retransmit, create, close, terminate (figure 3-14)."""

from __future__ import annotations

from collections.abc import Sequence

from mercury.engine import envelopes
from mercury.engine.attachments import parts_to_send
from mercury.engine.batches import taken_batches
from mercury.engine.channels import gives_up_responses
from mercury.engine.context import EngineContext
from mercury.engine.dead_letters import DAMAGED, dead_letter
from mercury.engine.exchange import Outgoing, Purpose, Step
from mercury.engine.rmd_records import end_offered
from mercury.engine.source import back_channel
from mercury.engine.source.after_start import AfterStart, ThisProcess
from mercury.engine.source.apply_effects import handle_rms, release_acknowledged, save_rms
from mercury.engine.source.batching import count_transmission, in_batches
from mercury.engine.source.fetched import count_as_fetched, plan_fetches, settle_back_channel
from mercury.engine.source.in_window import rows_in_window
from mercury.engine.source.last_error import note_last_error
from mercury.engine.source.numbering import Numbering, replaced_before
from mercury.engine.source.open_exchanges import put_off_end
from mercury.engine.source.pair_acknowledgements import of_pair
from mercury.engine.source.polling import plan_poll
from mercury.statemachine import effects, events, flow_control
from mercury.statemachine.effects import Certainty
from mercury.statemachine.retransmission import is_due
from mercury.statemachine.rms_counters import RmsWork
from mercury.storage.api import Transaction
from mercury.storage.records import Channel, OutboundMessage, RmdRecord, RmsRecord, Role, SequenceKey
from mercury.wire.envelope import Envelope

TOMBSTONES = 16  #: The most of one key: a key that is used from time to time may end many sequences a day.
#: Seconds until a sequence is worked on again that was due and on which the work had no effect: a defect of Mercury.
STALLED_PAUSE = 60.0


class PairEnds(Exception):
    """A sequence ends together with the one that it offered, which must be locked first."""


class KeyWork:
    """One transaction's work on one key.

    :param process: what is known in this process only.
    :param pairs: lock also the offered sequences that end with those of the key. Needed only after `PairEnds`.
    """

    _one_message = False  #: Whether only one message is sent.

    def __init__(
        self, context: EngineContext, key: SequenceKey, now: float, process: ThisProcess, *, pairs: bool = False
    ) -> None:
        self.context, self.key, self.now = context, key, now
        self._process = process
        self._after_start = AfterStart(process.since)
        self.step = Step(progress=1)
        self.owner = ""  #: That this turn counts for (`RmsRecord.owner`).
        self.bytes = 0  #: Of the bodies that were read.
        self.due: float | None = None  #: When the key is due next, after its work.
        self.holds_rows = True  #: What is appended to the key later gets no numbers at once.
        self.waits, self.gathers = True, False  #: For acknowledgements of the key; so may what is appended to it.
        self.sent, self.asks = 0, False  #: How many messages leave, and whether any is a request.
        self._pairs = pairs
        self._requests: dict[str, RmdRecord | None] = {}

    def do(self, tx: Transaction) -> None:
        """Do all due work of the key.

        :raises PairEnds: repeat the work with ``pairs``.
        """
        pairs = tx.rmd.lock(self.ending_pairs(tx)) if self._pairs else {}
        tx.rms.lock([self.key], records=True, rows=True)
        records = tx.rms.records(self.key)
        paired = {record.id for record in records if self._ends_pair(record)}
        for record in records:
            if record.machine.alive:
                count_as_fetched(tx, self.context, record, self.now)
                self._handle(tx, record, events.Tick())
                self._after_start.look(record)
        numbering = Numbering(self.context, tx, self.key, records, self.now)
        self.bytes += numbering.run()
        self.owner = records[-1].owner if records else ""
        for record, row in numbering.responses:
            request = self._request(tx, record.channel)
            self.step.responses.append(back_channel.response(self.context, record, row, request))
        for index, record in enumerate(records):
            if self._is_dormant(record, index < len(records) - TOMBSTONES):
                continue
            posted = len(self.step.posts)
            self._advance(tx, record, records[:index])
            if record.id in paired and not record.machine.alive and not self._pairs:
                raise PairEnds
            if not record.machine.alive and record.offered in pairs:
                end_offered(tx, self.context, pairs[record.offered], self.now)
            crowded = index < len(records) - TOMBSTONES and not record.machine.unanswered
            forgotten_at = self._forgotten_at(tx, record)
            if forgotten_at is not None and (crowded or forgotten_at <= self.now):
                self._forget(tx, record)
                continue
            if len(self.step.posts) == posted and self._is_stalled(tx, record):
                record.due = self.now + STALLED_PAUSE
                self.step.stalled.append(self.key)
            if numbering.leaves_rows and record is records[-1]:
                record.due = self.now  # nothing may follow the transaction of an acknowledgement
            save_rms(tx, record)
        alive = [each.machine for each in records if each.machine.alive]
        self.waits = any(machine.lowest_outstanding() <= machine.last_number for machine in alive)
        self.holds_rows = any(record.holds_rows for record in records)
        self.gathers = any(each.batch_messages > 1 and each.machine.in_flight > 0 for each in records[-1:])
        self.due = min((record.due for record in records if record.due is not None), default=None)

    def _is_stalled(self, tx: Transaction, record: RmsRecord) -> bool:
        """Whether a sequence is due again at once although the work has changed nothing."""
        if record.due is None or record.due > self.now:
            return False
        return any(each.id == record.id and each.machine == record.machine for each in tx.rms.peek(self.key))

    def _is_dormant(self, record: RmsRecord, crowded: bool) -> bool:
        """Whether a sequence is a tombstone that is not due yet: then it has no work."""
        if record.machine.alive or record.ended_at is None or crowded or record.holds_rows:
            return False
        remembered = record.channel.policy.tombstone
        planned = record.due in (record.ended_at + remembered, record.ended_at + self._at_most_briefly(remembered))
        return planned and record.due is not None and record.due > self.now

    def ending_pairs(self, tx: Transaction) -> list[str]:
        """The offered sequences that end with this key's sequences, as their peer cannot end them (RM-TRM-05)."""
        known = tx.rms.peek(self.key)
        return [record.offered for record in known if record.offered and self._ends_pair(record)]

    @staticmethod
    def _ends_pair(record: RmsRecord) -> bool:
        """Whether the end of this live sequence ends the one that it offered."""
        accepted = record.offered is not None and record.offer_accepted
        return accepted and record.machine.alive and record.channel.reply_to.anonymous

    # --- transmitting ----------------------------------------------------------------------------------------------

    def _advance(self, tx: Transaction, record: RmsRecord, earlier: list[RmsRecord]) -> None:
        """Post the due messages of one sequence, and set the time of its next work.

        :param earlier: the earlier sequences of its key.
        """
        note_last_error(self.context, record, earlier)
        times: list[float | None] = []
        sent = record.machine.highest_sent
        record.fetch_due = None
        posts = not record.channel.back_channel and not record.channel.polled
        if record.machine.alive and posts:
            self._after_start.ask(record, self.now)
            times.append(self._transmit(tx, record))
            self._control(tx, record, earlier)
        elif record.machine.alive and record.channel.polled:
            times.append(plan_fetches(tx, self.context, record, self._request(tx, record.channel), self.now))
        elif record.machine.alive:
            times.append(settle_back_channel(tx, self.context, record, self._request(tx, record.channel), self.now))
        if plan_poll(tx, self.context, record, self.now, sent=record.machine.highest_sent > sent):
            self._post(record, envelopes.make_connection(record, self.context.ids.new()), Purpose.POLL)
        times += (record.poll_due, record.rows_wait_until)
        times.append(record.machine.next_due(record.channel.policy, posts=posts and not record.channel.plain))
        times.append(self._forgotten_at(tx, record))
        record.due = min((at for at in times if at is not None), default=None)
        record.planned_at = self.now

    def _transmit(self, tx: Transaction, record: RmsRecord) -> float | None:
        machine, policy = record.machine, record.channel.policy
        if machine.identifier is None or machine.abandoned:
            return None
        rows = rows_in_window(tx, self.context, record, self.now, one=self._one_message)
        ends = rows and not rows[-1].unread and envelopes.is_bare_last(rows[-1])
        bare_last = rows[-1].number if ends else None
        ends_at: float | None = None
        if bare_last is not None:
            fetches, ended_at = record.channel.reply_to.anonymous, rows[-1].created_at
            ends_at = flow_control.last_message_at(machine, bare_last, ended_at, fetches=fetches)
            if ends_at is None or ends_at > self.now:
                rows = rows[:-1]
        due = [row for row in rows if policy.retransmission.is_due(row.due, self.now)]
        due = self._postpone_in_flight(tx, record, due)
        if self._shrinks_window(tx, record, due):
            return self._transmit(tx, record)
        damaged = [row for row in due if row.damaged and not row.acknowledged and not row.is_response]
        if damaged:
            self._give_up_damaged(tx, record, damaged)
            return None
        for row in due:
            over = policy.retransmission.exhausted(row.attempts, self.now - (row.not_before or row.created_at))
            if not row.acknowledged and (over or self._gives_up_response(tx, record, row)):
                self._handle(tx, record, events.GaveUp())
                return None
        due = self._choose(due)
        self.bytes += sum(len(row.payload) for row in due)
        self.sent, self.asks = len(due), any(row.expects_response for row in due)
        if due:
            again = tuple(row.number or 0 for row in due if row.attempts)
            self._handle(tx, record, events.Transmitted(max(row.number or 0 for row in due), again))
        beside = self._acknowledgement_beside_replies(tx, record) if due else ()
        for together in in_batches(record, due, self.context.answered_together.most(self.key, self.now)):
            self._transmit_together(tx, record, together, beside, last=together[-1] is due[-1])
        tx.rms.transmitted(due)
        times = [row.due for row in rows]
        return min(times if ends_at is None or ends_at <= self.now else [*times, ends_at], default=None)

    def _transmit_together(
        self,
        tx: Transaction,
        record: RmsRecord,
        rows: Sequence[OutboundMessage],
        acknowledgements: envelopes.Acknowledgements,
        *,
        last: bool,
    ) -> None:
        """Post one message, or several as a batch.

        :param acknowledgements: those beside it.
        :param last: no more messages are due now.
        """
        row, again, timed = rows[0], rows[0].attempts > 0, self.context.timed
        request_ack = count_transmission(tx, self.context, record, rows, self.now, last=last)
        if len(rows) > 1:
            new = self.context.ids.new()
            envelope = envelopes.batch(record, rows, new, self.now, request_ack, acknowledgements, timed=timed)
        else:
            pair = of_pair(self.context, tx, record) if envelopes.is_bare_last(row) else acknowledgements
            parts = parts_to_send(self.context.store, row.attachments)
            envelope = envelopes.message(record, row, self.now, request_ack, pair, parts, timed=timed)
        end, held = rows[-1].number if len(rows) > 1 else None, row.expects_response
        self._post(record, envelope, Purpose.MESSAGE, row.number, last=end, repeated=again, held=held)

    def _choose(self, due: list[OutboundMessage]) -> list[OutboundMessage]:
        """Those of the due rows that leave now."""
        return due if self.context.rates is None else self.context.rates.sendable(self.key.endpoint, due, self.now)

    def _postpone_in_flight(
        self, tx: Transaction, record: RmsRecord, due: list[OutboundMessage]
    ) -> list[OutboundMessage]:
        """Restart the interval of rows that wait or are being posted: they are not lost. Returns the others."""
        machine, policy = record.machine, record.channel.policy
        wait, rest = [], []
        for row in due:
            if row.attempts and self._process.is_in_flight(record.id, row.number or 0, row.acknowledged):
                row.due = self.now + flow_control.pause_after(machine, policy, row.attempts, self.context.ids.chance())
                wait.append(row)
            else:
                rest.append(row)
        tx.rms.transmitted(wait)
        return rest

    def _shrinks_window(self, tx: Transaction, record: RmsRecord, due: list[OutboundMessage]) -> bool:
        """Whether the window shrinks now: the destination seems to accept only the next number."""
        machine, policy = record.machine, record.channel.policy
        before = machine.flow
        first = next((row for row in due if row.number == machine.lowest_outstanding()), None)
        if first is None or record.channel.polled:
            return False
        since = flow_control.overdue_since(machine, policy, first.attempts, first.due)
        # A message that did not arrive does not show what the destination accepts.
        if since is not None and not self.context.endpoint_errors.failed_since(record.channel.endpoint, since):
            self._handle(tx, record, events.Overdue())
        return machine.flow != before

    def _give_up_damaged(self, tx: Transaction, record: RmsRecord, rows: list[OutboundMessage]) -> None:
        """Fail the sequence: a number whose row is damaged cannot be sent and would block the others forever."""
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

        :param earlier: the earlier sequences of its key.
        """
        machine, policy = record.machine, record.channel.policy
        work = machine.work(policy)
        if record.channel.plain:  # no control message is sent for it
            self._handle(tx, record, events.Settled())  # no peer knows of this sequence
            return
        longest = max(policy.retransmission.cap, policy.close_unacknowledged_after or 0.0)
        due = work not in (None, RmsWork.TRANSMIT) and is_due(machine.control_due, self.now, longest)
        if not due or put_off_end(record, self._process, self.now):
            return
        if work is RmsWork.CREATE:
            attempts = sum(each.machine.control_attempts for each in replaced_before(earlier))
            over = policy.retransmission.exhausted(attempts + machine.control_attempts, self.now - record.created_at)
            over = over or (machine.control_attempts > 0 and self._gives_up_responses(tx, record, record.created_at))
        elif work is RmsWork.REQUEST_ACK:
            # Not while the peer answers: then it works, but has no room.
            silent, retransmission = self.now - machine.last_heard, policy.retransmission
            over = retransmission.exhausted(machine.control_attempts, silent) and silent >= 2 * retransmission.cap
            over = over or self._gives_up_responses(tx, record, machine.last_heard)
        else:
            over = machine.control_attempts >= policy.end_attempts and not machine.requests_final(policy)
        if over:
            self._handle(tx, record, events.GaveUp())
            return
        repeated = machine.control_attempts > 0
        least = self._process.least_pause(record.channel.endpoint) if work is RmsWork.CREATE else 0.0
        delay = policy.retransmission.delay(machine.control_attempts + 1, self.context.ids.chance(), least)
        if repeated and work is RmsWork.CREATE and self._process.is_in_flight(record.id, 0, False):
            machine.put_off_control(self.now + delay)  # its interval has not begun
            return
        self._handle(tx, record, events.ControlSent(self.now + delay))
        if work is RmsWork.CREATE:
            # The destination treats a successor as the end of the previous pair: acknowledge that pair's messages now.
            before = [each for each in earlier if record.follows and each.machine.identifier == record.follows]
            last_word = of_pair(self.context, tx, before[0], ends=True) if before else ()
            responses = self.context.application.policy(None)
            taken = taken_batches(self.context.settings.limits, responses) if record.offered is not None else None
            created = envelopes.create_sequence(record, responses, last_word, taken)
            self._post(record, created, Purpose.CREATE, repeated=repeated)
            return
        pair = of_pair(self.context, tx, record, ends=work is RmsWork.TERMINATE)
        if work is RmsWork.REQUEST_ACK:
            ack_requested = envelopes.ack_requested_alone(record, self.context.ids.new(), pair)
            self._post(record, ack_requested, Purpose.ACK_REQUEST, repeated=repeated)
        elif work is RmsWork.CLOSE:
            closing = envelopes.close_sequence(record, self.context.ids.new(), pair)
            self._post(record, closing, Purpose.CLOSE, repeated=repeated)
        else:
            ending = envelopes.terminate_sequence(record, self.context.ids.new(), pair)
            self._post(record, ending, Purpose.TERMINATE, repeated=repeated)

    def _gives_up_response(self, tx: Transaction, record: RmsRecord, row: OutboundMessage) -> bool:
        """Whether to give up a response that its address does not accept."""
        if not row.attempts or record.channel.polled:
            return False
        # The answers to messages outside any sequence may all be refusals.
        heard = row.created_at if record.channel.plain else record.machine.last_heard
        return self._gives_up_responses(tx, record, max(row.created_at, heard))

    def _gives_up_responses(self, tx: Transaction, record: RmsRecord, since: float) -> bool:
        """Whether to give up the responses of a sequence.

        :param since: when the first attempt was made, or the address last answered.
        """
        channel, grace = record.channel, self.context.settings.response_grace
        if channel.role is Role.REQUEST or channel.pair is None or since + grace > self.now:
            return False
        agreed = record.machine.identifier is not None and not channel.plain
        return gives_up_responses(self._request(tx, channel), grace, self.now, agreed=agreed)

    def _request(self, tx: Transaction, channel: Channel) -> RmdRecord | None:
        """The sequence of the requests that a channel's responses answer."""
        if channel.pair is None:
            return None
        if channel.pair not in self._requests:
            self._requests[channel.pair] = tx.rmd.read(channel.pair)
        return self._requests[channel.pair]

    def _acknowledgement_beside_replies(self, tx: Transaction, record: RmsRecord) -> envelopes.Acknowledgements:
        """The acknowledgements on replies outside any sequence: a CXF client refuses a reply without a header of
        WS-RM."""
        channel = record.channel
        found = self._request(tx, channel) if channel.plain and not channel.polled else None
        if found is None or found.machine.tombstone or found.acks_to.address != channel.to or found.acks_to.parameters:
            return ()
        acknowledgement = found.machine.acknowledgement(self.context.application.policy(found.service))
        return envelopes.expressible(found.protocol, (acknowledgement,))

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
        last: int | None = None,
        repeated: bool = False,
        held: bool = False,
    ) -> None:
        fetches = record.channel.reply_to.anonymous
        self.step.posts.append(
            Outgoing(
                url=record.channel.endpoint,
                envelope=envelope,
                purpose=purpose,
                key=record.channel.key,
                record_id=record.id,
                number=number,
                last=last,
                pair=record.offered if record.offer_accepted and fetches else None,
                repeated=repeated,
                held=held and fetches,
                owner=record.owner,
                store=record.store,
            )
        )

    def _forgotten_at(self, tx: Transaction, record: RmsRecord) -> float | None:
        """When its tombstone expires: soon after its end if the sequence of the requests is deleted already."""
        if record.ended_at is None:
            return None
        remembered, channel = record.channel.policy.tombstone, record.channel
        if channel.role is Role.RESPONSE and self._request(tx, channel) is None:
            remembered = self._at_most_briefly(remembered)
        return record.ended_at + remembered

    def _at_most_briefly(self, remembered: float) -> float:
        return min(remembered, self.context.settings.remember_ended)

    def _forget(self, tx: Transaction, record: RmsRecord) -> None:
        """Delete an expired tombstone; its unanswered requests become dead letters."""
        release_acknowledged(tx, record)
        left = tx.rms.take(record, ((1, max(1, record.machine.last_number)),))
        dead_letter(
            tx, self.context, left, "no response came before the sequence was forgotten", Certainty.UNKNOWN, self.now
        )
        tx.rms.delete(record)
