"""Each row of the three tables is reached and has its effects, and no event is without a row."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from types import ModuleType
from typing import Any

import pytest

from mercury.statemachine import effects, events, invoker, rmd, rms, rms_counters
from mercury.statemachine.events import FailureReason
from mercury.statemachine.faults import Fault, FaultCode
from mercury.statemachine.invoker import InvokerBuffer
from mercury.statemachine.messages import IncompleteSequenceBehavior
from mercury.statemachine.policy import DeliveryAssurance, DestinationPolicy, SourcePolicy
from mercury.statemachine.protocol import MAX_MESSAGE_NUMBER, RmVersion
from mercury.statemachine.ranges import RangeSet
from mercury.statemachine.rmd import RMDSequence
from mercury.statemachine.rms import RMSSequence
from mercury.statemachine.table import ImpossibleEvent, Kind
from mercury.statemachine.tables import INVOKER, RMD, RMS, InvokerState, RmdState, RmsEvent, RmsState
from tests.reach import Search, Spy

KEEP = IncompleteSequenceBehavior.NO_DISCARD
UP_TO_THE_GAP = IncompleteSequenceBehavior.DISCARD_FOLLOWING_FIRST_GAP
LATE = 1000.0


def spy_on(monkeypatch: pytest.MonkeyPatch, spy: Spy, *modules: ModuleType) -> Spy:
    for module in modules:
        monkeypatch.setattr(module, spy.table.name.removesuffix("Sequence").removesuffix("Buffer").upper(), spy)
    return spy


# --- RMSSequence -----------------------------------------------------------------------------------------------------

SOURCE = SourcePolicy(window=2, inactivity_timeout=400.0, idle_timeout=400.0)
MOST = MAX_MESSAGE_NUMBER


def fault(code: FaultCode, *, busy: bool = False, most: int | None = None) -> Fault:
    return Fault(code=code, reason="", busy=busy, max_message_number=most)


def rms_starts() -> Iterator[RMSSequence]:
    for rm in RmVersion:
        yield RMSSequence.start(rm, 0.0)
        yield RMSSequence.offered(rm, "urn:offered", None, 0.0)
        yield RMSSequence.orphan(rm, "urn:orphan", 0.0)
    nowhere = RMSSequence.start(RmVersion.RM11, 0.0)
    nowhere.end_by(50.0)
    yield nowhere
    # What stands for the 2^63 - 2 events before: all numbers but one are given, and all of them.
    nearly = RMSSequence.offered(RmVersion.RM11, "urn:nearly", None, 0.0)
    nearly.last_number = nearly.highest_sent = MOST - 1
    nearly.acknowledged.add(1, MOST - 1)
    yield nearly
    given = RMSSequence.start(RmVersion.RM11, 0.0)
    given.state, given.last_number = RmsState.CREATING, MOST
    yield given


def rms_inputs(machine: RMSSequence) -> Iterator[tuple[events.RmsInput, float]]:
    last = machine.last_number
    if not 3 <= last < MOST - 1:
        yield events.Number(), 0.0
        yield events.Number(last=True, expects_response=True), 0.0
    yield events.End(), 0.0
    yield events.End(abandon=True), 0.0
    yield events.Created(identifier="urn:s"), 0.0
    yield events.Created(identifier="urn:s", expires_at=50.0, incomplete_behavior=UP_TO_THE_GAP), 0.0
    yield events.IdentifierTaken(), 0.0
    yield events.Withdrawn(), 0.0
    yield events.Transmitted(last), 0.0
    yield events.Overdue(), 0.0
    if machine.control_attempts < 2:
        yield events.ControlSent(5.0), 0.0
    for ranges in ((), ((1, 1),), ((2, 2),), ((1, max(1, last)),), ((0, 1),)):
        yield events.Acknowledged(ranges), 0.0
        yield events.Finished(ranges), 0.0
        yield events.FaultReceived(fault(FaultCode.SEQUENCE_TERMINATED), ranges), 0.0
    yield events.Acknowledged(((1, 1),), room=0), 0.0
    yield events.Finished(None), 0.0
    yield events.ResponseStored(), 0.0
    yield events.Settled(), 0.0
    for code in (FaultCode.UNKNOWN_SEQUENCE, FaultCode.SEQUENCE_CLOSED, FaultCode.CREATE_SEQUENCE_REFUSED):
        yield events.FaultReceived(fault(code)), 0.0
    yield events.FaultReceived(fault(FaultCode.CREATE_SEQUENCE_REFUSED, busy=True)), 0.0
    yield events.FaultReceived(fault(FaultCode.CREATE_SEQUENCE_REFUSED), offered=True), 0.0
    for most in (None, 0, 1):
        yield events.FaultReceived(fault(FaultCode.MESSAGE_NUMBER_ROLLOVER, most=most)), 0.0
    yield events.GaveUp(), 0.0
    yield events.Tick(), 0.0
    yield events.Tick(), LATE


def test_every_row_of_the_source_is_reached_and_every_input_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    spy = spy_on(monkeypatch, Spy(RMS), rms, rms_counters)

    def step(machine: RMSSequence, given: tuple[events.RmsInput, float]) -> tuple[object, ...]:
        return machine.handle(*given, SOURCE)

    search = Search(spy, step, rms_inputs, lambda machine: machine.at)
    search.run(rms_starts(), 3000)
    assert search.unreached() == []


@pytest.mark.parametrize("state", [state for state in RmsState if state is not RmsState.FAILED])
def test_a_failed_source_is_frozen_and_only_refuses(state: RmsState) -> None:
    machine = RMSSequence(rm=RmVersion.RM11, state=state, last_heard=0.0, failure=FailureReason.GIVEN_UP)
    machine.last_number, machine.identifier = 1, "urn:s"
    for given, now in rms_inputs(machine):
        asked = machine.handle(given, now, SOURCE)
        assert asked == ((effects.NumberRefused(),) if isinstance(given, events.Number) else ())
    assert (machine.state, machine.failure) == (state, FailureReason.GIVEN_UP)
    assert machine.work(SOURCE) is None
    assert machine.next_due(SOURCE) is None
    assert not machine.alive
    assert not machine.takes_messages


def test_a_new_number_is_refused_in_every_state_that_says_so() -> None:
    refusing = {row.state for row in RMS.rows if row.event is RmsEvent.AMR and row.kind is Kind.REFUSE}
    assert refusing == {
        *(RmsState.CREATING_LAST, RmsState.SENDING_LAST, RmsState.ENDING, RmsState.ENDED, RmsState.FAILED),
    }


# --- RMDSequence -----------------------------------------------------------------------------------------------------

DESTINATION = DestinationPolicy(inactivity_timeout=100.0, unused_timeout=None)
NUMBERS = (None, 0, 1, 2, 3, MOST + 1)


def rmd_inputs(machine: RMDSequence) -> Iterator[tuple[events.RmdInput, float]]:
    for number, last in product((0, 1, 2, 3), (False, True)):
        yield events.MessageReceived(number=number, last=last), 0.0
    for told in NUMBERS:
        yield events.CloseReceived(told), 0.0
        yield events.TerminateReceived(told), 0.0
    yield events.AckWanted(), 0.0
    yield events.AckSent(), 0.0
    yield events.Consumed(((1, 1),) if 1 in machine.received else ()), 0.0
    for end in events.DestinationEnd:
        yield events.EndSent(end, None), 0.0
    yield events.EndAnswered(), 0.0
    yield events.RoomCounted(0), 0.0
    yield events.RoomCounted(3), 0.0
    yield events.Tick(), 0.0
    yield events.Tick(), LATE


def test_every_row_of_the_destination_is_reached_and_every_input_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    spy = spy_on(monkeypatch, Spy(RMD), rmd)

    def step(machine: RMDSequence, given: tuple[events.RmdInput, float]) -> tuple[object, ...]:
        return machine.handle(*given, DESTINATION)

    search = Search(spy, step, rmd_inputs, lambda machine: machine.state)
    search.run((RMDSequence("urn:d", rm, 0.0) for rm in RmVersion), 1500)
    assert search.unreached() == []


def test_a_tombstone_keeps_its_ranges_whatever_arrives() -> None:
    for rm, told in product(RmVersion, (None, 1, 3)):
        machine = RMDSequence("urn:d", rm, 0.0)
        machine.handle(events.MessageReceived(number=1), 0.0, DESTINATION)
        machine.handle(events.TerminateReceived(told), 0.0, DESTINATION)
        assert machine.tombstone
        before = machine.acknowledgement(DESTINATION)
        for given, now in rmd_inputs(machine):
            asked = [type(effect) for effect in machine.handle(given, now, DESTINATION)]
            assert effects.Accept not in asked
            assert (effects.RaiseFault in asked) == isinstance(given, events.MessageReceived)
        assert machine.acknowledgement(DESTINATION) == before
        assert machine.next_due(DESTINATION) == DESTINATION.tombstone, "it goes when the tombstone is over"


# --- InvokerBuffer ---------------------------------------------------------------------------------------------------


def invoker_starts() -> Iterator[InvokerBuffer]:
    for in_order, assurance, behavior in product((True, False), DeliveryAssurance, IncompleteSequenceBehavior):
        yield InvokerBuffer(in_order=in_order, assurance=assurance, behavior=behavior)


def invoker_inputs(machine: InvokerBuffer) -> Iterator[events.InvokerInput]:
    # RMDSequence takes no number above the last, and no other last number: the buffer does not rely on it.
    for number, last in product((1, 2, 3), (False, True)):
        yield events.MessageBuffered(number=number, last=last)
    for number in range(4):
        yield events.LastKnown(number)
    releasable = tuple(machine.releasable())
    runs = [releasable[:1], releasable]
    if machine.may_skip_gaps or not machine.in_order:
        runs.append(releasable[1:2])  # what came before it came while this was with the application
    for run in (each for each in runs if each):
        yield events.Delivered(run)
        if machine.assurance is DeliveryAssurance.AT_MOST_ONCE and not machine.in_progress:
            yield events.Begun(run)
    yield events.Delivered(tuple(machine.passed.numbers()))
    yield events.Begun(())
    yield events.Completed(tuple(machine.in_progress.numbers()))
    yield events.Interrupted()
    yield events.Cut()


def test_every_row_of_the_buffer_is_reached_and_every_input_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    spy = spy_on(monkeypatch, Spy(INVOKER), invoker)

    def step(machine: InvokerBuffer, given: events.InvokerInput) -> tuple[object, ...]:
        return machine.handle(given)

    search = Search(spy, step, invoker_inputs, lambda machine: machine.state)
    search.run(invoker_starts(), 3000)
    assert search.unreached() == []


@pytest.mark.parametrize("state", [InvokerState.EMPTY, InvokerState.AWAITING, InvokerState.DONE])
def test_a_delivery_where_nothing_can_be_released_is_a_defect(state: InvokerState) -> None:
    machine = InvokerBuffer(in_order=True, assurance=DeliveryAssurance.EXACTLY_ONCE, behavior=KEEP, state=state)
    with pytest.raises(ImpossibleEvent, match=f"InvokerBuffer: SAM in state {state.value}"):
        machine.handle(events.Delivered((1,)))
    assert machine.passed == RangeSet()


def test_a_delivery_out_of_order_is_a_defect_and_not_a_lost_message() -> None:
    machine = InvokerBuffer(in_order=True, assurance=DeliveryAssurance.EXACTLY_ONCE, behavior=UP_TO_THE_GAP)
    machine.handle(events.MessageBuffered(number=1))
    machine.handle(events.MessageBuffered(number=2))
    with pytest.raises(ImpossibleEvent, match="2 to 2 delivered while 1 is next"):
        machine.handle(events.Delivered((2,)))
    assert list(machine.releasable()) == [1, 2]


def test_a_message_after_the_end_is_reported_as_dropped() -> None:
    machine = InvokerBuffer(in_order=True, assurance=DeliveryAssurance.EXACTLY_ONCE, behavior=UP_TO_THE_GAP)
    machine.handle(events.Cut())
    assert machine.handle(events.MessageBuffered(number=1)) == (effects.Dropped((1,), invoker.ENDED),)


# --- the search itself -----------------------------------------------------------------------------------------------


class Silent:
    """A machine that forgets to look an input up."""

    state = RmdState.CREATED

    def copy(self) -> Any:
        return self

    def predicate(self) -> str:
        return self.state.value


def test_the_search_notices_an_input_that_is_not_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.reach.counters", lambda _machine: ())
    search = Search(Spy(RMD), lambda _machine, _given: (), lambda _machine: [events.Tick()], lambda each: each.state)
    with pytest.raises(AssertionError, match="was not looked up"):
        search.run([Silent()], 1)
    assert len(search.unreached()) >= len(RMD.rows)
