"""RMDSequence: every state x event of the table, through the public `handle`."""

from __future__ import annotations

import pytest

from mercury.statemachine import effects, events, rmd
from mercury.statemachine.faults import FaultCode
from mercury.statemachine.policy import DestinationPolicy
from mercury.statemachine.protocol import RmVersion
from mercury.statemachine.rmd import RMDSequence
from mercury.statemachine.table import Cell, ImpossibleEvent, Kind
from mercury.statemachine.tables import RMD, RmdEvent, RmdState

POLICY = DestinationPolicy(inactivity_timeout=100.0)
LATE = 1000.0

Message = events.MessageReceived
Close = events.CloseReceived
Terminate = events.TerminateReceived

#: How to get into each state, from nothing.
PATHS: dict[RmdState, tuple[events.RmdInput, ...]] = {
    RmdState.CREATED: (),
    RmdState.RECEIVING: (Message(number=1),),
    RmdState.LAST_KNOWN: (Message(number=1), Message(number=4, last=True)),
    RmdState.COMPLETE: (Message(number=1), Message(number=2, last=True)),
    RmdState.ENDED_COMPLETE: (Message(number=1, last=True), Terminate()),
    RmdState.ENDED_OPEN: (Message(number=1), Terminate()),
    RmdState.ENDED_INCOMPLETE: (Message(number=2, last=True), Terminate()),
}
TOMBSTONES = (RmdState.ENDED_COMPLETE, RmdState.ENDED_OPEN, RmdState.ENDED_INCOMPLETE)

#: (state, event): what has to arrive for it. For impossible cells: what comes nearest to it.
STIMULI: dict[tuple[RmdState, RmdEvent], tuple[events.RmdInput, ...]] = {
    (RmdState.CREATED, RmdEvent.AMR_SNC): (Message(number=1),),
    (RmdState.CREATED, RmdEvent.AMR_SC): (Message(number=1),),
    (RmdState.CREATED, RmdEvent.LMR_SNC): (Message(number=2, last=True),),
    (RmdState.CREATED, RmdEvent.LMR_SC): (Message(number=1, last=True),),
    (RmdState.RECEIVING, RmdEvent.AMR_SNC): (Message(number=2),),
    (RmdState.RECEIVING, RmdEvent.AMR_SC): (Message(number=2),),
    (RmdState.RECEIVING, RmdEvent.LMR_SNC): (Message(number=3, last=True),),
    (RmdState.RECEIVING, RmdEvent.LMR_SC): (Message(number=2, last=True),),
    (RmdState.LAST_KNOWN, RmdEvent.AMR_SNC): (Message(number=2),),
    (RmdState.LAST_KNOWN, RmdEvent.AMR_SC): (Message(number=2), Message(number=3)),
    (RmdState.LAST_KNOWN, RmdEvent.LMR_SNC): (Message(number=4, last=True),),
    (RmdState.LAST_KNOWN, RmdEvent.LMR_SC): (Close(4),),
    (RmdState.COMPLETE, RmdEvent.AMR_SNC): (Message(number=1), Message(number=3)),
    (RmdState.COMPLETE, RmdEvent.AMR_SC): (Message(number=1), Message(number=2)),
    (RmdState.COMPLETE, RmdEvent.LMR_SNC): (Close(5), Message(number=5, last=True)),
    (RmdState.COMPLETE, RmdEvent.LMR_SC): (Close(2), Message(number=2, last=True)),
    **{(state, RmdEvent.AMR_SNC): (Message(number=9),) for state in TOMBSTONES},
    **{(state, RmdEvent.AMR_SC): (Message(number=1),) for state in TOMBSTONES},
    **{(state, RmdEvent.LMR_SNC): (Close(9),) for state in TOMBSTONES},
    **{(state, RmdEvent.LMR_SC): (Close(1),) for state in TOMBSTONES},
    **{(state, RmdEvent.TMR): (Terminate(),) for state in RmdState},
    **{(state, RmdEvent.EXP): (events.Tick(),) for state in RmdState},
}

WHY_IMPOSSIBLE: dict[tuple[RmdState, RmdEvent], str] = {
    (RmdState.CREATED, RmdEvent.AMR_SC): "without a last number nothing is complete",
    (RmdState.RECEIVING, RmdEvent.AMR_SC): "without a last number nothing is complete",
    (RmdState.LAST_KNOWN, RmdEvent.LMR_SC): "the last number is known: the same says nothing new, another is a fault",
    (RmdState.COMPLETE, RmdEvent.AMR_SNC): "every number up to the last is a duplicate, above it a fault",
    (RmdState.COMPLETE, RmdEvent.AMR_SC): "every number up to the last is a duplicate, above it a fault",
}


class Spy:
    """The table, with a list of the events that the machine raised on it."""

    def __init__(self) -> None:
        self.raised: list[tuple[RmdState, RmdEvent]] = []

    def __getitem__(self, at: tuple[RmdState, RmdEvent]) -> Cell[RmdState]:
        return RMD[at]

    def move(self, state: RmdState, event: RmdEvent) -> Cell[RmdState]:
        self.raised.append((state, event))
        return RMD.move(state, event)


@pytest.fixture
def spy(monkeypatch: pytest.MonkeyPatch) -> Spy:
    spy = Spy()
    monkeypatch.setattr(rmd, "RMD", spy)
    return spy


def machine_in(state: RmdState) -> RMDSequence:
    machine = RMDSequence("urn:d", RmVersion.RM10, 0.0)
    for event in PATHS[state]:
        machine.handle(event, 0.0, POLICY)
    assert machine.state is state
    assert machine.predicate() == state.value
    return machine


@pytest.mark.parametrize("state", list(RmdState), ids=lambda state: state.value)
@pytest.mark.parametrize("event", list(RmdEvent), ids=lambda event: event.value)
def test_every_event_in_every_state_does_what_its_cell_says(state: RmdState, event: RmdEvent, spy: Spy) -> None:
    machine = machine_in(state)
    spy.raised.clear()
    received = machine.received.as_tuples()
    effect = [one for stimulus in STIMULI[state, event] for one in machine.handle(stimulus, LATE, POLICY)]
    cell = RMD[state, event]
    match cell.kind:
        case Kind.MOVE:
            (expected,) = cell.next
            assert machine.state is expected
            assert machine.predicate() == expected.value
            assert (state, event) in spy.raised or expected is state or event is RmdEvent.TMR
        case Kind.REFUSE:
            faults = [one.fault.code for one in effect if isinstance(one, effects.RaiseFault)]
            assert faults == [FaultCode.SEQUENCE_TERMINATED]
            assert machine.state is state
            assert machine.received.as_tuples() == received
        case Kind.IGNORE:
            assert effect == [effects.Forget()]
            assert machine.state is state
        case _:
            assert cell.kind is Kind.IMPOSSIBLE
            assert (state, event) not in spy.raised, WHY_IMPOSSIBLE[state, event]


def test_every_cell_has_its_stimulus() -> None:
    assert set(STIMULI) == set(RMD.cells)


def test_every_impossible_cell_has_its_reason_and_nothing_else_has() -> None:
    assert set(WHY_IMPOSSIBLE) == {at for at, cell in RMD.cells.items() if cell.kind is Kind.IMPOSSIBLE}


@pytest.mark.parametrize(("state", "event"), sorted(WHY_IMPOSSIBLE, key=str))
def test_raising_an_impossible_event_on_the_table_is_an_error_of_its_own(state: RmdState, event: RmdEvent) -> None:
    with pytest.raises(ImpossibleEvent, match=f"in state {state.value}"):
        RMD.move(state, event)


@pytest.mark.parametrize("state", TOMBSTONES, ids=lambda state: state.value)
def test_a_tombstone_keeps_its_ranges_whatever_arrives(state: RmdState) -> None:
    machine = machine_in(state)
    before = machine.acknowledgement(POLICY)
    for number in (1, 2, 3):
        codes = [type(one) for one in machine.handle(Message(number=number), 1.0, POLICY)]
        assert effects.Accept not in codes
        assert effects.RaiseFault in codes
    assert machine.handle(Close(3), 1.0, POLICY) == ()
    assert machine.handle(Terminate(3), 1.0, POLICY) == ()
    assert machine.handle(events.Tick(), 1e9, POLICY) == ()
    assert machine.acknowledgement(POLICY) == before
    assert machine.next_due(POLICY) == POLICY.tombstone, "it goes when the tombstone is over"
