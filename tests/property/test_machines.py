"""The three state machines with random events in any order, also from a hostile peer."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from mercury.statemachine import effects, events
from mercury.statemachine.faults import Fault, FaultCode, Ranges
from mercury.statemachine.invoker import InvokerBuffer
from mercury.statemachine.messages import IncompleteSequenceBehavior
from mercury.statemachine.policy import AcknowledgeAt, DeliveryAssurance, DestinationPolicy, SourcePolicy
from mercury.statemachine.protocol import MAX_MESSAGE_NUMBER, RmVersion
from mercury.statemachine.ranges import RangeSet
from mercury.statemachine.rmd import RMDSequence
from mercury.statemachine.rms import RMSSequence
from mercury.statemachine.tables import RmdState, RmsState

walks = settings(derandomize=True, deadline=None, max_examples=600)

VERSIONS = st.sampled_from(list(RmVersion))
BEHAVIORS = st.sampled_from(list(IncompleteSequenceBehavior))
SECONDS = st.sampled_from([0.0, 1.0, 50.0, 1000.0])

# --- RangeSet --------------------------------------------------------------------------------------------------------

SMALL_RANGE = st.tuples(st.integers(1, 40), st.integers(0, 12)).map(lambda pair: (pair[0], pair[0] + pair[1]))


@walks
@given(st.lists(st.tuples(st.booleans(), SMALL_RANGE), max_size=40), SMALL_RANGE)
def test_ranges_are_a_set_of_numbers(changes: list[tuple[bool, tuple[int, int]]], asked: tuple[int, int]) -> None:
    ranges, model = RangeSet(), set[int]()
    for adds, (low, high) in changes:
        numbers = set(range(low, high + 1))
        if adds:
            assert ranges.add(low, high) is (not numbers <= model)
            model |= numbers
        else:
            ranges.discard(low, high)
            model -= numbers
        assert set(ranges.numbers()) == model
        tuples = ranges.as_tuples()
        assert all(low <= high for low, high in tuples)
        assert all(before + 1 < after for (_, before), (after, _) in pairwise(tuples))
    low, high = asked
    inside = set(range(low, high + 1))
    assert {number for a, b in ranges.gaps(low, high) for number in range(a, b + 1)} == inside - model
    assert ranges.covers(low, high) is (inside <= model)
    assert all((number in ranges) is (number in model) for number in range(-1, 60))
    assert ranges.first_missing() == next(number for number in range(1, 99) if number not in model)
    assert (ranges.highest, ranges.count, bool(ranges)) == (max(model, default=0), len(model), bool(model))
    assert ranges == ranges.copy() == RangeSet(ranges)


# --- RMSSequence -----------------------------------------------------------------------------------------------------

WILD_NUMBERS = st.integers(-1, 12) | st.sampled_from([MAX_MESSAGE_NUMBER, 2**80])
WILD_RANGES = st.lists(st.tuples(WILD_NUMBERS, WILD_NUMBERS), max_size=4).map(tuple)
HONEST_RANGES = st.lists(st.tuples(st.integers(1, 4), st.integers(0, 2)), max_size=3).map(
    lambda pairs: tuple((low, low + more) for low, more in pairs)
)
RANGES = HONEST_RANGES | HONEST_RANGES | WILD_RANGES

FAULTS = st.builds(
    Fault,
    code=st.sampled_from(list(FaultCode)),
    reason=st.just(""),
    sender=st.booleans(),
    busy=st.booleans(),
    max_message_number=st.none() | WILD_NUMBERS,
)

RMS_EVENTS = st.one_of(
    st.builds(events.Number, last=st.integers(0, 4).map(lambda dice: dice == 0), expects_response=st.booleans()),
    st.builds(events.Number),
    st.builds(events.End, abandon=st.booleans()),
    st.builds(
        events.Created,
        identifier=st.sampled_from(["urn:one", "urn:two"]),
        expires_at=st.sampled_from([None, None, 500.0]),
        incomplete_behavior=BEHAVIORS,
    ),
    st.builds(events.IdentifierTaken),
    st.builds(events.Withdrawn),
    st.builds(events.Transmitted, WILD_NUMBERS),
    st.builds(events.Transmitted, st.just(MAX_MESSAGE_NUMBER)),
    st.builds(events.ControlSent, SECONDS),
    st.builds(events.Acknowledged, RANGES),
    st.builds(events.Finished, st.none() | RANGES),
    st.builds(events.ResponseStored, st.integers(1, 3)),
    st.builds(events.Settled),
    st.builds(events.FaultReceived, FAULTS, st.none() | RANGES),
    st.builds(events.GaveUp),
    st.builds(events.Tick),
)

SOURCE_POLICIES = st.builds(
    SourcePolicy,
    inactivity_timeout=st.sampled_from([None, 100.0]),
    idle_timeout=st.sampled_from([None, 100.0]),
    close=st.booleans(),
)


def numbers_of(ranges: Ranges) -> set[int]:
    """The numbers of short ranges; listing one twice is an error."""
    listed = [number for low, high in ranges for number in range(low, high + 1)]
    assert len(set(listed)) == len(listed)
    return set(listed)


class RmsWatch:
    """What became of every number of one sequence."""

    def __init__(self, machine: RMSSequence) -> None:
        self.machine = machine
        self.acknowledged: set[int] = set()
        self.released: set[int] = set()
        self.moved: set[int] = set()
        self.over = False

    def step(self, event: events.RmsInput, now: float, policy: SourcePolicy) -> None:
        machine = self.machine
        before, frozen = machine.last_number, machine.failure is not None
        state, was_alive = machine.state, machine.alive
        asked = machine.handle(event, now, policy)
        self.check_effects(asked, before, was_alive)
        if frozen:
            assert machine.state is state
        elif machine.failure is None:
            assert machine.state.value == machine.predicate()
        now_acknowledged = set(machine.acknowledged.numbers())
        assert self.acknowledged <= now_acknowledged, "once acknowledged is acknowledged forever"
        self.acknowledged = now_acknowledged
        assert self.released <= now_acknowledged
        assert max(now_acknowledged, default=0) <= machine.highest_sent <= machine.last_number
        assert set(machine.moved.numbers()) == self.moved
        outstanding = set(range(1, machine.last_number + 1)) - now_acknowledged - self.moved
        assert machine.outstanding is bool(outstanding)
        assert machine.lowest_outstanding() == min(outstanding, default=machine.last_number + 1)
        if machine.state is RmsState.ENDING or machine.state is RmsState.ENDED:
            assert machine.last_message is not None
        machine.work(policy)
        machine.next_due(policy)
        machine.retains(3)

    def check_effects(self, asked: tuple[effects.RmsEffect, ...], before: int, was_alive: bool) -> None:
        for effect in asked:
            match effect:
                case effects.Numbered(number=number):
                    assert was_alive
                    assert number == before + 1, "no number is assigned twice, and none is left out"
                case effects.Released(ranges=ranges):
                    assert numbers_of(ranges)
                    assert not numbers_of(ranges) & (self.released | self.moved)
                    self.released |= numbers_of(ranges)
                case effects.Moved(ranges=ranges):
                    assert numbers_of(ranges)
                    assert not numbers_of(ranges) & self.moved
                    self.moved |= numbers_of(ranges)
                case effects.Failed(not_delivered=not_delivered, unknown=unknown):
                    assert not self.over
                    self.over = True
                    self.check_failure(numbers_of(not_delivered), numbers_of(unknown))
                case effects.Ended():
                    assert not self.over
                    self.over = True
                    assert not self.machine.outstanding
                case effects.NumberRefused():
                    assert not self.machine.takes_messages
                case effects.RaiseFault(fault=fault):
                    assert fault.code is FaultCode.INVALID_ACKNOWLEDGEMENT
        if not was_alive:
            assert all(isinstance(effect, effects.NumberRefused) for effect in asked)

    def check_failure(self, not_delivered: set[int], unknown: set[int]) -> None:
        machine = self.machine
        outstanding = set(range(1, machine.last_number + 1)) - set(machine.acknowledged.numbers()) - self.moved
        assert not not_delivered & unknown
        assert outstanding <= not_delivered | unknown
        assert not (not_delivered | unknown) & self.moved
        assert all(number > machine.highest_sent for number in not_delivered)
        if machine.incomplete_behavior is IncompleteSequenceBehavior.NO_DISCARD:
            assert not_delivered | unknown == outstanding


@walks
@given(VERSIONS, st.booleans(), SOURCE_POLICIES, st.lists(st.tuples(RMS_EVENTS, SECONDS), max_size=40))
def test_a_source_survives_every_walk(
    rm: RmVersion, offered: bool, policy: SourcePolicy, walk: list[tuple[events.RmsInput, float]]
) -> None:
    if offered:
        watch = RmsWatch(RMSSequence.offered(rm, "urn:offered", None, 0.0))
    else:
        watch = RmsWatch(RMSSequence.start(rm, 0.0))
        watch.step(events.Number(), 0.0, policy)
    now = 0.0
    for event, seconds in walk:
        now += seconds
        watch.step(event, now, policy)


# --- RMDSequence -----------------------------------------------------------------------------------------------------

LAST_NUMBERS = st.none() | st.integers(0, 8) | WILD_NUMBERS
RMD_EVENTS = st.one_of(
    st.builds(events.MessageReceived, number=st.integers(1, 8)),
    st.builds(events.MessageReceived, number=st.integers(1, 8), last=st.booleans()),
    st.builds(events.MessageReceived, number=WILD_NUMBERS, last=st.booleans()),
    st.builds(events.CloseReceived, LAST_NUMBERS),
    st.builds(events.TerminateReceived, LAST_NUMBERS),
    st.builds(events.AckWanted),
    st.builds(events.AckSent),
    st.builds(events.Consumed, HONEST_RANGES),
    st.builds(events.EndSent, st.sampled_from(list(events.DestinationEnd)), st.none() | st.integers(0, 500)),
    st.builds(events.EndAnswered),
    st.builds(events.RoomCounted, st.none() | st.integers(0, 5)),
    st.builds(events.Tick),
)

DESTINATION_POLICIES = st.builds(
    DestinationPolicy,
    acknowledge_at=st.sampled_from(list(AcknowledgeAt)),
    acknowledgement_interval=st.sampled_from([0.0, 0.5]),
    acknowledge_every=st.sampled_from([1, 3]),
    inactivity_timeout=st.sampled_from([None, 400.0]),
    max_ranges=st.sampled_from([1, 2, 512]),
)


class RmdWatch:
    """What one destination has accepted, and what it has said about that."""

    def __init__(self, machine: RMDSequence, policy: DestinationPolicy) -> None:
        self.machine = machine
        self.policy = policy
        self.accepted: set[int] = set()
        self.said: dict[type, int] = {}
        self.asked_for_acknowledgement = False

    def step(self, event: events.RmdInput, now: float) -> None:
        machine, policy = self.machine, self.policy
        known = isinstance(event, events.MessageReceived) and event.number in self.accepted
        final = machine.acknowledgement(policy) if machine.final else None
        vouched = {number for low, high in machine.acknowledgement(policy).ranges for number in (low, high)}
        last_number = machine.last_number
        asked = machine.handle(event, now, policy)
        assert machine.state.value == machine.predicate()
        assert machine.last_number == last_number or last_number is None
        for effect in asked:
            self.said[type(effect)] = self.said.get(type(effect), 0) + 1
            match effect:
                case effects.Accept(number=number):
                    assert not known, "a received number is accepted once"
                    assert final is None, "nothing is accepted once the ranges are final"
                    assert 1 <= number <= (machine.last_number or MAX_MESSAGE_NUMBER)
                    self.accepted.add(number)
                case effects.Duplicate(number=number):
                    assert known
                case effects.EndKnown(number=number):
                    assert number >= max(self.accepted, default=0)
                case effects.CutBuffer():
                    assert machine.tombstone
                    assert not machine.complete
                case effects.Forget():
                    assert not machine.used
                case effects.RaiseFault(fault=fault):
                    assert machine.tombstone or not known, "a repetition is never faulted"
                    assert fault.identifier == "urn:d"
        assert all(number in machine.received for number in self.accepted)
        assert machine.received.count == len(self.accepted)
        assert len(machine.received) <= policy.max_ranges + 1
        assert self.said.get(effects.CutBuffer, 0) <= 1
        assert self.said.get(effects.EndKnown, 0) <= 1
        now_vouched = machine.acknowledgement(policy)
        assert all(any(low <= number <= high for low, high in now_vouched.ranges) for number in vouched)
        if final is not None:
            assert replace(now_vouched, final=True) == replace(final, final=True), "the final ranges never change"
        self.check_acknowledgement(event, known, now)
        machine.next_due(policy)

    def check_acknowledgement(self, event: events.RmdInput, known: bool, now: float) -> None:
        machine = self.machine
        if isinstance(event, events.AckWanted):
            self.asked_for_acknowledgement = True
        elif isinstance(event, events.AckSent):
            self.asked_for_acknowledgement = False
            assert machine.ack_due is None
        if not machine.used and not self.asked_for_acknowledgement:
            assert machine.ack_due is None, "never unasked before the identifier was used"
        if known and not machine.tombstone:
            assert machine.ack_due == now, "a repetition is acknowledged again at once"


def consumed_of(machine: RMDSequence, event: events.RmdInput) -> events.RmdInput:
    """The application consumes only what was received."""
    if isinstance(event, events.Consumed):
        wanted = {number for low, high in event.ranges for number in range(low, high + 1)}
        return events.Consumed(tuple((number, number) for number in sorted(wanted) if number in machine.received))
    return event


@walks
@given(VERSIONS, DESTINATION_POLICIES, st.lists(st.tuples(RMD_EVENTS, SECONDS), max_size=40))
def test_a_destination_survives_every_walk(
    rm: RmVersion, policy: DestinationPolicy, walk: list[tuple[events.RmdInput, float]]
) -> None:
    machine = RMDSequence("urn:d", rm, 0.0, expires_at=2500.0)
    watch = RmdWatch(machine, policy)
    now = 0.0
    for event, seconds in walk:
        now += seconds
        watch.step(consumed_of(machine, event), now)
    watch.step(events.Tick(), 1e9)
    assert machine.tombstone or machine.state is RmdState.CREATED, "time ends everything"


# --- InvokerBuffer ---------------------------------------------------------------------------------------------------

#: A message (a number that did not come before, perhaps the last), the last number, a run that is given to the
#: application, the mark of the oldest run, the same mark again, and the cut. At most once: a run that is marked before
#: it is given, the end of its calls, and a crash over them.
INVOKER_STEPS = st.one_of(
    st.tuples(st.just("message"), st.integers(1, 8)),
    st.tuples(st.just("message"), st.integers(1, 8)),
    st.tuples(st.just("last"), st.integers(1, 8)),
    st.tuples(st.just("end"), st.integers(0, 8)),
    st.tuples(st.just("give"), st.integers(1, 4)),
    st.tuples(st.just("give"), st.integers(1, 4)),
    st.tuples(st.just("mark"), st.just(0)),
    st.tuples(st.just("mark"), st.just(0)),
    st.tuples(st.just("again"), st.just(0)),
    st.tuples(st.just("cut"), st.just(0)),
    st.tuples(st.just("begin"), st.integers(1, 4)),
    st.tuples(st.just("complete"), st.just(0)),
    st.tuples(st.just("crash"), st.just(0)),
)


class InvokerWatch:
    """What the application got. One run at a time is with it, as one claim allows."""

    def __init__(self, machine: InvokerBuffer) -> None:
        self.machine = machine
        self.came: set[int] = set()
        self.given: list[int] = []
        self.dropped: set[int] = set()
        self.run: tuple[int, ...] = ()
        self.marked: tuple[int, ...] = ()
        #: What has begun and is not completed.
        self.begun: tuple[int, ...] = ()

    def step(self, what: str, value: int) -> None:
        machine = self.machine
        match what:
            case "message" | "last" if value not in self.came:
                self.came.add(value)
                self.handle(events.MessageBuffered(number=value, last=what == "last"))
            case "end":
                self.handle(events.LastKnown(value))
            case "give" if not self.run:
                self.run = tuple(machine.releasable())[:value]
            case "mark" if self.run:
                self.given += self.run
                self.marked, self.run = self.run, ()
                self.handle(events.Delivered(self.marked))
            case "again":
                before = machine.state
                assert self.handle(events.Delivered(self.marked)) == ()
                assert machine.state is before
            case "begin" if not self.run and not self.begun and machine.assurance is DeliveryAssurance.AT_MOST_ONCE:
                self.begun = tuple(machine.releasable())[:value]
                self.given += self.begun
                self.handle(events.Begun(self.begun))
            case "complete":
                assert self.handle(events.Completed(self.begun)) == ()
                self.begun = ()
            case "crash":
                lost = [number for effect in self.handle(events.Interrupted()) for number in effect.numbers]
                assert lost == list(self.begun), "what a crash has left is dropped, once"
                self.begun = ()
            case "cut" if not self.run:  # the mark of the run is conditional on what a cut changes
                self.handle(events.Cut())
            case _:
                pass

    def handle(self, event: events.InvokerInput) -> tuple[effects.InvokerEffect, ...]:
        machine = self.machine
        was_cut = machine.cut
        asked = machine.handle(event)
        assert machine.state.value == machine.predicate()
        for effect in asked:
            assert not self.dropped & set(effect.numbers)
            assert effect.numbers == tuple(sorted(set(effect.numbers)))
            self.dropped |= set(effect.numbers)
        waiting = set(machine.buffered.numbers())
        assert waiting.isdisjoint(self.dropped)
        assert waiting.isdisjoint(self.given)
        assert waiting | self.dropped | set(self.given) == self.came, "nothing is lost without a word"
        assert len(set(self.given)) == len(self.given), "nothing is given twice"
        releasable = list(machine.releasable())
        assert releasable == sorted(set(releasable))
        assert set(releasable) <= waiting
        may_skip = machine.assurance is DeliveryAssurance.AT_MOST_ONCE or was_cut
        if machine.in_order:
            assert self.given == sorted(self.given)
            if not may_skip:
                assert self.given == list(range(1, len(self.given) + 1)), "in order, without holes"
        if machine.behavior is IncompleteSequenceBehavior.DISCARD_FOLLOWING_FIRST_GAP:
            assert all(set(range(1, number)) <= self.came for number in self.given)
        return asked


@walks
@given(
    st.sampled_from(list(DeliveryAssurance)), st.booleans(), BEHAVIORS, st.lists(INVOKER_STEPS, min_size=4, max_size=40)
)
def test_a_buffer_survives_every_walk(
    assurance: DeliveryAssurance,
    in_order: bool,
    behavior: IncompleteSequenceBehavior,
    walk: list[tuple[str, int]],
) -> None:
    watch = InvokerWatch(InvokerBuffer(in_order=in_order, assurance=assurance, behavior=behavior))
    for what, value in walk:
        watch.step(what, value)
    for what, value in [("mark", 0), ("cut", 0), ("give", 99), ("mark", 0)]:
        watch.step(what, value)
    assert watch.machine.predicate() == "011", "after a cut, what is releasable is all there is"
