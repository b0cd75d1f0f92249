"""RMSSequence: every state x event of the table, through the public `handle`."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mercury.statemachine import effects, events, rms
from mercury.statemachine.events import FailureReason
from mercury.statemachine.faults import Fault, FaultCode
from mercury.statemachine.policy import SourcePolicy
from mercury.statemachine.protocol import RmVersion
from mercury.statemachine.rms import RMSSequence
from mercury.statemachine.table import Cell, ImpossibleEvent, Kind
from mercury.statemachine.tables import RMS, RmsEvent, RmsState

POLICY = SourcePolicy()

#: How to get into each state, from nothing.
PATHS: dict[RmsState, tuple[events.RmsInput, ...]] = {
    RmsState.CREATING: (events.Number(),),
    RmsState.CREATING_LAST: (events.Number(last=True),),
    RmsState.IDLE: (
        events.Number(),
        events.Created(identifier="urn:s"),
        events.Transmitted(1),
        events.Acknowledged(((1, 1),)),
    ),
    RmsState.SENDING: (
        events.Number(),
        events.Number(),
        events.Created(identifier="urn:s"),
        events.Transmitted(2),
        events.Acknowledged(((1, 1),)),
    ),
    RmsState.SENDING_LAST: (
        events.Number(),
        events.Number(),
        events.Created(identifier="urn:s"),
        events.Transmitted(2),
        events.End(),
        events.Acknowledged(((2, 2),)),
    ),
    RmsState.ENDING: (
        events.Number(),
        events.End(),
        events.Created(identifier="urn:s"),
        events.Transmitted(1),
        events.Acknowledged(((1, 1),)),
    ),
    RmsState.ENDED: (
        events.Number(last=True),
        events.Created(identifier="urn:s"),
        events.Transmitted(1),
        events.Acknowledged(((1, 1),)),
        events.Settled(),
    ),
}

#: What happens outside when the table says the event.
STIMULI: dict[RmsEvent, Callable[[RMSSequence], events.RmsInput]] = {
    RmsEvent.AMR: lambda machine: events.Number(),
    RmsEvent.LMR_NUMBERED: lambda machine: events.Number(last=True),
    RmsEvent.LMR_BARE: lambda machine: events.End(),
    RmsEvent.CSRR: lambda machine: events.Created(identifier="urn:another"),
    RmsEvent.ACK: lambda machine: events.Acknowledged(()),
    RmsEvent.ACKALL: lambda machine: events.Acknowledged(((1, machine.last_number),)),
    RmsEvent.FIN: lambda machine: events.Finished(machine.acknowledged.as_tuples()),
    RmsEvent.TMS: lambda machine: events.Settled(),
    RmsEvent.FAIL: lambda machine: events.GaveUp(),
}

NOT_CREATED = "what speaks of a sequence whose identifier is not known yet is dropped"
TAKES_NONE = "takes_messages is asked first, and the answer is Refused"
NOTHING_LEFT = "nothing is outstanding in this state, so an acknowledgement is ACKALL or is dropped"
NOT_ENDING = "TerminateSequence leaves in 1010 only, so elsewhere its answer is a stray and is dropped"

WHY_IMPOSSIBLE: dict[tuple[RmsState, RmsEvent], str] = {
    **{
        (state, event): NOT_CREATED
        for state in (RmsState.CREATING, RmsState.CREATING_LAST)
        for event in (RmsEvent.ACK, RmsEvent.ACKALL, RmsEvent.FIN)
    },
    **{
        (state, RmsEvent.LMR_NUMBERED): TAKES_NONE
        for state in (RmsState.CREATING_LAST, RmsState.SENDING_LAST, RmsState.ENDING, RmsState.ENDED)
    },
    **{(state, RmsEvent.ACK): NOTHING_LEFT for state in (RmsState.IDLE, RmsState.ENDING, RmsState.ENDED)},
    **{
        (state, RmsEvent.TMS): NOT_ENDING
        for state in (
            RmsState.CREATING,
            RmsState.CREATING_LAST,
            RmsState.IDLE,
            RmsState.SENDING,
            RmsState.SENDING_LAST,
        )
    },
}

EVERY_CELL = [
    pytest.param(state, event, version, id=f"{state.value}-{event.value}-{version.value}")
    for state in RmsState
    for event in RmsEvent
    for version in RmVersion
]


class Spy:
    """The table, with a list of the events that the machine raised on it."""

    def __init__(self) -> None:
        self.raised: list[tuple[RmsState, RmsEvent]] = []

    def __getitem__(self, at: tuple[RmsState, RmsEvent]) -> Cell[RmsState]:
        return RMS[at]

    def move(self, state: RmsState, event: RmsEvent) -> Cell[RmsState]:
        self.raised.append((state, event))
        return RMS.move(state, event)


@pytest.fixture
def spy(monkeypatch: pytest.MonkeyPatch) -> Spy:
    spy = Spy()
    monkeypatch.setattr(rms, "RMS", spy)
    return spy


def machine_in(state: RmsState, version: RmVersion = RmVersion.RM11) -> RMSSequence:
    machine = RMSSequence.start(version, 0.0)
    for event in PATHS[state]:
        machine.handle(event, 0.0, POLICY)
    assert machine.state is state
    assert machine.predicate() == state.value
    return machine


@pytest.mark.parametrize(("state", "event", "version"), EVERY_CELL)
def test_every_event_in_every_state_does_what_its_cell_says(
    state: RmsState, event: RmsEvent, version: RmVersion, spy: Spy
) -> None:
    machine = machine_in(state, version)
    spy.raised.clear()
    effect = machine.handle(STIMULI[event](machine), 1.0, POLICY)
    cell = RMS[state, event]
    match cell.kind:
        case Kind.MOVE:
            (expected,) = cell.next
            assert machine.state is expected
            assert machine.predicate() == expected.value
            assert machine.closed is cell.closes
            assert machine.failure is None
            assert spy.raised == [(state, event)] or (expected is state and not spy.raised)
        case Kind.REFUSE:
            assert effect == (effects.NumberRefused(),)
            assert machine.state is state
            assert not spy.raised
        case Kind.FAIL:
            assert machine.state is state, "the tuple freezes"
            assert machine.failure is FailureReason.GIVEN_UP
            assert [type(one) for one in effect] == [effects.Failed]
        case _:
            assert cell.kind is Kind.IMPOSSIBLE
            assert (state, event) not in spy.raised, WHY_IMPOSSIBLE[state, event]
            assert machine.state is state
            assert machine.failure is None


def test_every_impossible_cell_has_its_reason_and_nothing_else_has() -> None:
    impossible = {at for at, cell in RMS.cells.items() if cell.kind is Kind.IMPOSSIBLE}
    assert set(WHY_IMPOSSIBLE) == impossible


@pytest.mark.parametrize(("state", "event"), sorted(WHY_IMPOSSIBLE, key=str))
def test_raising_an_impossible_event_on_the_table_is_an_error_of_its_own(state: RmsState, event: RmsEvent) -> None:
    with pytest.raises(ImpossibleEvent, match=f"RMSSequence: {event.name} in state {state.value}"):
        RMS.move(state, event)


@pytest.mark.parametrize("state", [state for state in RmsState if RMS[state, RmsEvent.FAIL].kind is Kind.FAIL])
def test_a_failed_sequence_is_frozen_and_only_refuses(state: RmsState) -> None:
    machine = machine_in(state)
    machine.handle(events.GaveUp(), 1.0, POLICY)
    unknown = Fault(code=FaultCode.UNKNOWN_SEQUENCE, reason="")
    afterwards: tuple[events.RmsInput, ...] = (
        events.End(),
        events.End(abandon=True),
        events.Created(identifier="urn:late"),
        events.Acknowledged(((1, 1),)),
        events.Finished(((1, 1),)),
        events.Finished(None),
        events.Settled(),
        events.FaultReceived(unknown, ((1, 1),)),
        events.GaveUp(),
        events.ResponseStored(),
        events.Tick(),
    )
    identifier, acknowledged = machine.identifier, machine.acknowledged.as_tuples()
    for event in afterwards:
        assert machine.handle(event, 1e12, POLICY) == ()
    assert machine.handle(events.Number(), 2.0, POLICY) == (effects.NumberRefused(),)
    assert machine.state is state
    assert machine.failure is FailureReason.GIVEN_UP
    assert (machine.identifier, machine.acknowledged.as_tuples()) == (identifier, acknowledged)
    assert machine.work(POLICY) is None
    assert machine.next_due(POLICY) is None
    assert not machine.alive
    assert not machine.takes_messages


def test_an_offered_sequence_starts_in_1000() -> None:
    machine = RMSSequence.offered(RmVersion.RM11, "urn:offered", 60.0, 0.0)
    assert machine.state is RmsState.IDLE
    assert machine.predicate() == "1000"
    assert machine.handle(events.Number(), 1.0, POLICY) == (effects.Numbered(1),)
    assert machine.state is RmsState.SENDING


@pytest.mark.parametrize("abandon", [False, True])
@pytest.mark.parametrize("version", list(RmVersion))
def test_ending_what_was_never_used_does_nothing(version: RmVersion, abandon: bool) -> None:
    machine = RMSSequence.start(version, 0.0)
    assert machine.handle(events.End(abandon=abandon), 0.0, POLICY) == ()
    assert machine.handle(events.Created(identifier="urn:s"), 0.0, POLICY) == ()
    assert machine.alive
    assert machine.handle(events.Number(), 0.0, POLICY) == (effects.Numbered(1),)
    assert machine.state.value == machine.predicate() == "0100"
