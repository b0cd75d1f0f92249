"""A source and a destination, joined by a network that loses, repeats and reorders, and then by one without faults.

At the end each number was delivered once and in order, or its message moved to a successor, or it is reported in doubt.
Under the network without faults all sequences end.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mercury.statemachine import effects, events
from mercury.statemachine.faults import Fault, FaultCode, Ranges
from mercury.statemachine.invoker import InvokerBuffer
from mercury.statemachine.messages import IncompleteSequenceBehavior
from mercury.statemachine.policy import AcknowledgeAt, DeliveryAssurance, DestinationPolicy, SourcePolicy
from mercury.statemachine.protocol import RmVersion
from mercury.statemachine.rmd import RMDSequence
from mercury.statemachine.rms import RMSSequence
from mercury.statemachine.rms_counters import RmsWork
from mercury.statemachine.tables import InvokerState, RmsState

walks = settings(derandomize=True, deadline=None, max_examples=500)

SILENCE = 10_000.0
#: CloseSequence never goes first.
SOURCE = SourcePolicy(idle_timeout=None, close_unacknowledged_after=None)


class Act(enum.Enum):
    """One act of a party; most come with a number that chooses among several."""

    SEND = enum.auto()
    REQUEST = enum.auto()
    LAST = enum.auto()
    END = enum.auto()
    ABANDON = enum.auto()
    TRANSMIT = enum.auto()
    DELIVER = enum.auto()
    REPEAT = enum.auto()
    LOSE = enum.auto()
    CONSUME = enum.auto()
    ANSWER = enum.auto()
    ASK = enum.auto()
    GIVE_UP = enum.auto()
    SILENCE = enum.auto()


#: What is common, several times; what ends a sequence early, once.
COMMON = [Act.SEND] * 3 + [Act.REQUEST] + [Act.TRANSMIT] * 5 + [Act.DELIVER] * 8 + [Act.REPEAT] * 2 + [Act.LOSE] * 2
QUIET = [*COMMON, Act.CONSUME, Act.CONSUME, Act.ANSWER, Act.ASK, Act.LAST, Act.END]
ROUGH = [*QUIET, Act.ABANDON, Act.GIVE_UP, Act.SILENCE]


class Pair:
    """Both ends, the application behind each, and a bag of what is on its way."""

    def __init__(self, rm: RmVersion, policy: DestinationPolicy, *, forgetful: bool) -> None:
        self.rm = rm
        self.policy = policy
        #: The destination leaves the final acknowledgement out of its CloseSequenceResponse.
        self.forgetful = forgetful
        self.now = 0.0
        self.network: list[Callable[[], None]] = []
        self.rms = RMSSequence.start(rm, 0.0)
        self.rmd: RMDSequence | None = None
        self.buffer = InvokerBuffer.for_policy(policy, rm)
        self.made = 0
        self.given: list[int] = []
        self.dropped: set[int] = set()
        #: Requests whose response is not stored at the source yet.
        self.unanswered: set[int] = set()
        self.moved: set[int] = set()
        self.not_delivered: set[int] = set()
        self.in_doubt: set[int] = set()
        self.failed = self.ended = False
        self.to_source(events.Number())

    # --- the source ------------------------------------------------------------------------------------------------

    def to_source(self, event: events.RmsInput, identifier: str | None = None) -> None:
        rms = self.rms
        if identifier is not None and rms.identifier not in (None, identifier):
            return  # about another sequence
        for effect in rms.handle(event, self.now, SOURCE):
            match effect:
                case effects.Moved(ranges=ranges):
                    self.moved |= numbers_of(ranges)
                    for number in self.unanswered & self.moved:  # the responses to these come to the successor
                        self.stored(number)
                case effects.Failed(not_delivered=not_delivered, unknown=unknown):
                    self.failed = True
                    self.not_delivered, self.in_doubt = numbers_of(not_delivered), numbers_of(unknown)
                case effects.Ended():
                    self.ended = True
                case _:
                    pass
        if rms.failure is None:
            assert rms.state.value == rms.predicate()
        self.check()

    def stored(self, number: int) -> None:
        self.unanswered.discard(number)
        self.to_source(events.ResponseStored())

    def transmit(self, choice: int) -> None:
        rms = self.rms
        match rms.work(SOURCE):
            case RmsWork.CREATE:
                self.to_source(events.ControlSent(self.now + 1))
                self.network.append(self.create)
            case RmsWork.TRANSMIT:
                done = {*rms.acknowledged.numbers(), *rms.moved.numbers()}
                waiting = [number for number in range(1, rms.last_number + 1) if number not in done]
                assert waiting
                chosen = waiting[: 1 + choice % 4] if choice % 2 else waiting[choice % len(waiting) :][:1]
                self.to_source(events.Transmitted(max(chosen)))
                for number in chosen:
                    last = self.rm is RmVersion.RM10 and number == rms.last_message
                    event = events.MessageReceived(number=number, last=last)
                    self.network.append(partial(self.to_destination, event, rms.identifier))
            case RmsWork.CLOSE:
                self.to_source(events.ControlSent(self.now + 1))
                close = events.CloseReceived(rms.last_message or None)
                self.network.append(partial(self.to_destination, close, rms.identifier))
            case RmsWork.TERMINATE:
                self.to_source(events.ControlSent(self.now + 1))
                old = self.rm is RmVersion.RM10
                terminate = events.TerminateReceived(None if old else rms.last_message or None)
                self.network.append(partial(self.to_destination, terminate, rms.identifier))
                if old:
                    self.to_source(events.Settled())
            case None:
                pass

    # --- the destination -------------------------------------------------------------------------------------------

    def create(self) -> None:
        if self.rmd is None:
            self.made += 1
            self.rmd = RMDSequence(f"urn:{self.made}", self.rm, self.now)
        if not self.rmd.tombstone:
            old = self.rm is RmVersion.RM10
            behavior = IncompleteSequenceBehavior.NO_DISCARD if old else self.policy.behavior
            created = events.Created(identifier=self.rmd.identifier, incomplete_behavior=behavior)
            self.network.append(partial(self.to_source, created))

    def to_destination(self, event: events.RmdInput, identifier: str) -> None:
        rmd = self.rmd
        if rmd is None or rmd.identifier != identifier:
            unknown = Fault(code=FaultCode.UNKNOWN_SEQUENCE, reason="")
            self.network.append(partial(self.to_source, events.FaultReceived(unknown), identifier))
            return
        if not self.at_destination(event):
            return
        ranges = rmd.received.as_tuples()
        match event:
            case events.CloseReceived():
                final = None if self.forgetful else ranges
                self.network.append(partial(self.to_source, events.Finished(final), identifier))
            case events.TerminateReceived() if self.rm is RmVersion.RM11:
                self.network.append(partial(self.terminated, ranges, identifier))
            case _:
                self.acknowledge()

    def terminated(self, ranges: Ranges, identifier: str) -> None:
        self.to_source(events.Finished(ranges), identifier)
        if self.rms.identifier == identifier:
            self.to_source(events.Settled(), identifier)

    def at_destination(self, event: events.RmdInput) -> bool:
        """Returns whether it was taken without a fault."""
        rmd = self.rmd
        assert rmd is not None
        taken = True
        for effect in rmd.handle(event, self.now, self.policy):
            match effect:
                case effects.Accept(number=number, last=last):
                    self.to_buffer(events.MessageBuffered(number=number, last=last))
                case effects.EndKnown(number=number):
                    self.to_buffer(events.LastKnown(number))
                case effects.CutBuffer():
                    self.to_buffer(events.Cut())
                case effects.Forget():
                    self.rmd = None
                case effects.RaiseFault(fault=fault):
                    taken = False
                    ranges = rmd.received.as_tuples() if rmd.final else None
                    received = events.FaultReceived(fault, ranges)
                    self.network.append(partial(self.to_source, received, rmd.identifier))
                case _:
                    pass
        assert rmd.state.value == rmd.predicate()
        return taken

    def acknowledge(self) -> None:
        rmd = self.rmd
        if rmd is None or rmd.ack_due is None or rmd.ack_due > self.now:
            return
        acknowledgement = rmd.acknowledgement(self.policy)
        self.at_destination(events.AckSent())
        kind = events.Finished if acknowledgement.final else events.Acknowledged
        self.network.append(partial(self.to_source, kind(acknowledgement.ranges), rmd.identifier))

    # --- the applications ------------------------------------------------------------------------------------------

    def to_buffer(self, event: events.InvokerInput) -> None:
        for effect in self.buffer.handle(event):
            self.dropped |= set(effect.numbers)
            self.consumed(effect.numbers)
        assert self.buffer.state.value == self.buffer.predicate()
        self.check()

    def consume(self, choice: int) -> None:
        run = tuple(self.buffer.releasable())[: 1 + choice % 3]
        if run:
            self.given += run
            self.to_buffer(events.Delivered(run))
            self.consumed(run)

    def consumed(self, numbers: tuple[int, ...]) -> None:
        if self.rmd is not None:
            self.at_destination(events.Consumed(tuple((number, number) for number in numbers)))
            self.acknowledge()

    def answer(self) -> None:
        """The response to a request comes back; here, reliably. What is dropped is answered with a fault."""
        ready = self.unanswered & {*self.given, *self.dropped}
        if ready:
            self.stored(min(ready))

    def act(self, what: Act, choice: int) -> None:
        rms = self.rms
        match what:
            case Act.SEND if rms.last_number < 8:
                self.to_source(events.Number())
            case Act.REQUEST if rms.last_number < 8 and rms.takes_messages:
                self.to_source(events.Number(expects_response=True))
                self.unanswered.add(rms.last_number)
            case Act.LAST if rms.last_number < 8:
                self.to_source(events.Number(last=True))
            case Act.END:
                self.to_source(events.End())
            case Act.ABANDON:
                self.to_source(events.End(abandon=True))
            case Act.TRANSMIT:
                self.transmit(choice)
            case Act.DELIVER if self.network:
                self.network.pop(choice % len(self.network))()
            case Act.REPEAT if self.network:
                self.network[choice % len(self.network)]()
            case Act.LOSE if self.network:
                self.network.pop(choice % len(self.network))
            case Act.CONSUME:
                self.consume(choice)
            case Act.ANSWER:
                self.answer()
            case Act.ASK if self.rmd is not None and rms.identifier == self.rmd.identifier:
                self.network.append(partial(self.to_destination, events.AckWanted(), self.rmd.identifier))
            case Act.GIVE_UP:
                self.to_source(events.GaveUp())
            case Act.SILENCE:
                self.now += SILENCE
                if self.rmd is not None:
                    self.at_destination(events.Tick())
            case _:
                pass

    @property
    def at_most_once(self) -> bool:
        """Gaps may be skipped, and what comes late is dropped."""
        return self.policy.assurance is DeliveryAssurance.AT_MOST_ONCE

    # --- what has to be true ---------------------------------------------------------------------------------------

    def check(self) -> None:
        assert len(set(self.given)) == len(self.given), "nothing is given twice"
        assert not set(self.given) & self.moved, "what a successor carries was not given, and never is"
        assert not set(self.given) & self.not_delivered
        if self.policy.in_order:
            assert self.given == sorted(self.given)
            if not (self.buffer.cut or self.at_most_once):
                assert self.given == list(range(1, len(self.given) + 1)), "in order, without holes"

    def fair(self) -> None:
        """From now on nothing is lost, and both parties do all due work."""
        self.forgetful = False
        for _ in range(80):
            self.now += 1
            if self.rms.alive and self.rms.last_message is None:
                self.to_source(events.Number(last=True) if self.rm is RmVersion.RM10 else events.End())
            for choice in (1, 3, 5, 7):
                self.transmit(choice)
            on_their_way, self.network = self.network, []
            for message in on_their_way:
                message()
            self.consume(2)
            self.answer()
            self.acknowledge()
            if not self.rms.alive and not self.network:
                break
        assert not self.rms.alive, f"{self.rms} does not end"
        self.now += SILENCE
        if self.rmd is not None:
            self.at_destination(events.Tick())
        while list(self.buffer.releasable()):
            self.consume(2)
        assert self.rmd is None or self.rmd.tombstone
        assert self.rmd is None or self.buffer.state is InvokerState.DONE

    def account(self) -> None:
        """Where every number is in the end."""
        every, given = set(range(1, self.rms.last_number + 1)), set(self.given)
        assert self.ended is not self.failed
        overtaken = self.dropped if self.at_most_once else set[int]()
        if self.ended:
            assert self.rms.state is RmsState.ENDED
            assert given | self.moved | overtaken == every, "given once, or carried by a successor"
        else:
            assert every - given - overtaken <= self.moved | self.not_delivered | self.in_doubt
        assert self.dropped - overtaken <= self.moved | self.in_doubt, "what is discarded here is known to the source"


def numbers_of(ranges: Ranges) -> set[int]:
    return {number for low, high in ranges for number in range(low, high + 1)}


def steps(acts: list[Act]) -> st.SearchStrategy[list[tuple[Act, int]]]:
    return st.lists(st.tuples(st.sampled_from(acts), st.integers(0, 11)), min_size=10, max_size=120)


BEHAVIORS = st.sampled_from([None, *IncompleteSequenceBehavior])


def destination(
    behavior: IncompleteSequenceBehavior | None,
    in_order: bool,
    at: AcknowledgeAt,
    max_ranges: int,
    assurance: DeliveryAssurance = DeliveryAssurance.EXACTLY_ONCE,
) -> DestinationPolicy:
    return DestinationPolicy(
        assurance=assurance,
        incomplete_behavior=behavior,
        in_order=in_order,
        acknowledge_at=at,
        acknowledgement_interval=0.0,
        inactivity_timeout=SILENCE,
        max_ranges=max_ranges,
    )


@pytest.mark.parametrize("rm", list(RmVersion), ids=lambda rm: rm.value)
@walks
@given(steps(QUIET), st.booleans(), st.sampled_from([1, 512]), st.booleans())
def test_with_losses_only_everything_is_given_once_and_the_end_is_complete(
    rm: RmVersion, walk: list[tuple[Act, int]], in_order: bool, max_ranges: int, forgetful: bool
) -> None:
    policy = destination(None, in_order, AcknowledgeAt.ACCEPTANCE, max_ranges)
    pair = Pair(rm, policy, forgetful=forgetful)
    for what, choice in walk:
        pair.act(what, choice)
    pair.fair()
    pair.account()
    assert not pair.failed
    assert not pair.moved
    assert sorted(pair.given) == list(range(1, pair.rms.last_number + 1))
    assert pair.rmd is not None
    assert pair.rmd.complete or pair.rm is RmVersion.RM10, "an end without a last message is not known to be complete"


@pytest.mark.parametrize("rm", list(RmVersion), ids=lambda rm: rm.value)
@walks
@given(
    steps(ROUGH),
    BEHAVIORS,
    st.booleans(),
    st.sampled_from(list(AcknowledgeAt)),
    st.sampled_from(list(DeliveryAssurance)),
    st.booleans(),
)
def test_with_ends_of_every_kind_no_number_is_given_twice_or_lost_without_a_word(
    rm: RmVersion,
    walk: list[tuple[Act, int]],
    behavior: IncompleteSequenceBehavior | None,
    in_order: bool,
    at: AcknowledgeAt,
    assurance: DeliveryAssurance,
    forgetful: bool,
) -> None:
    # WS-RM 1.0 cannot tell the source what is discarded, so there nothing is.
    chosen = behavior if rm is RmVersion.RM11 else None
    withholds = chosen is IncompleteSequenceBehavior.DISCARD_ENTIRE_SEQUENCE
    policy = destination(chosen, in_order, AcknowledgeAt.ACCEPTANCE if withholds else at, 512, assurance)
    pair = Pair(rm, policy, forgetful=forgetful)
    for what, choice in walk:
        pair.act(what, choice)
    pair.fair()
    pair.account()
