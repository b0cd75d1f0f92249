"""What cannot be delivered in the transaction that receives it is stored, and the invoker delivers it (decision 92)."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from mercury.engine.application import MessageContext
from mercury.engine.delivery import invocation, on_arrival
from mercury.engine.delivery.on_arrival import STORING_TURNS
from mercury.engine.destination import messages
from mercury.engine.rates import RateSettings
from mercury.engine.stage.mover import Target
from mercury.engine.stage_room import StageRoom, StageSettings
from mercury.statemachine.messages import IncompleteSequenceBehavior
from mercury.statemachine.policy import DeliveryAssurance, DestinationPolicy
from mercury.storage.attachments import Attachments, StoredPart
from mercury.storage.memory import MemoryStore
from mercury.storage.memory.invoker import MemoryInvoker
from mercury.storage.records import InboundMessage
from tests.acceptance.processes import eventually

from .desk import Desk, TwoServices, deliver_again, worked_on
from .harness import DESTINATION
from .harness.words import SERVICE


@pytest.fixture(autouse=True)
def _without_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """No other thread ever ends its work: arrivals do not wait for it."""
    monkeypatch.setattr(on_arrival, "PATIENCE", 0.0)


def assert_left(desk: Desk, sequence: str, *numbers: int) -> None:
    """These messages were stored, and none of them was handled."""
    assert desk.node.handled == []
    assert desk.stored(sequence) == list(numbers)


def assert_handled_by_worker(desk: Desk, sequence: str, *numbers: int) -> None:
    """The invoker handles what is left, in order."""
    deliver_again(desk.node)
    desk.work()
    assert desk.node.handled == [f"note {number}" for number in numbers]
    assert desk.stored(sequence) == []


# --- what a service or its policy asks for ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "policy",
    [
        replace(DESTINATION, assurance=DeliveryAssurance.AT_MOST_ONCE),
        replace(DESTINATION, assurance=DeliveryAssurance.AT_LEAST_ONCE),
        replace(DESTINATION, in_order=False),
    ],
    ids=["at most once", "at least once", "in any order"],
)
def test_other_assurances_need_runs_of_their_own(policy: DestinationPolicy) -> None:
    desk = Desk(policy=policy)
    sequence = desk.open()
    desk.note(sequence, 1)
    assert_left(desk, sequence, 1)
    assert_handled_by_worker(desk, sequence, 1)


def test_sequence_that_is_discarded_as_a_whole_unless_it_is_complete_is_not_delivered_in_part() -> None:
    behavior = IncompleteSequenceBehavior.DISCARD_ENTIRE_SEQUENCE
    desk = Desk(policy=replace(DESTINATION, incomplete_behavior=behavior), known=False)
    whole, begun = desk.open(), desk.open()
    desk.get(desk.foreign.note(whole, 1), desk.foreign.terminate(whole, 1))
    desk.work()
    assert desk.node.handled == ["note 1"], "its handler is known to be quick"
    desk.note(begun, 1)
    assert desk.stored(begun) == [1]
    assert desk.node.handled == ["note 1"]


def test_calls_of_a_service_with_a_limited_rate_are_counted_by_the_invoker() -> None:
    desk = Desk(rates=RateSettings(services=(f"{SERVICE}=2",)))
    sequence = desk.open()
    desk.note(sequence, 1, 2, 3)
    assert_left(desk, sequence, 1, 2, 3)


def test_messages_of_a_service_that_this_process_does_not_host_any_more_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk()
    sequence = desk.open()
    with monkeypatch.context() as patch:
        patch.setattr(type(desk.node.registry), "services", lambda _self: frozenset({"another"}))
        desk.note(sequence, 1)
    assert_left(desk, sequence, 1)
    assert_handled_by_worker(desk, sequence, 1)


def test_of_messages_that_arrive_together_only_those_of_quick_services_are_handled() -> None:
    desk = TwoServices()
    desk.note_both()
    assert desk.node.handled == ["note 1"]
    assert desk.stored(desk.quick) == []
    assert desk.stored(desk.slow) == [1]


def test_no_handler_of_a_paused_service_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk()
    sequence = desk.open()
    with monkeypatch.context() as patch:
        patch.setattr(MemoryInvoker, "paused", lambda _self: frozenset({SERVICE}))  # no operator works on this store
        desk.note(sequence, 1)
    assert_left(desk, sequence, 1)


def test_message_that_an_operator_has_parked_is_dropped_by_the_invoker() -> None:
    desk = Desk()
    sequence = desk.open()
    desk.buffer(sequence).parked = 1
    desk.note(sequence, 1)
    assert_left(desk, sequence, 1)
    desk.work()
    assert [text for text, _ in desk.node.letters_by_text()] == ["note 1"]


# --- other processes and threads --------------------------------------------------------------------------------------


def test_messages_are_delivered_on_arrival_beside_other_processes_too() -> None:
    desk = Desk()
    sequence = desk.open()
    desk.node.engine.note_others(True)
    desk.note(sequence, 1)
    assert desk.node.handled == ["note 1"]


def test_store_that_cannot_hold_a_handler_in_its_transaction_gets_none() -> None:
    desk = Desk(known=False)
    desk.node.watched.capabilities = replace(desk.node.watched.capabilities, delivers_on_arrival=False)
    desk.node.engine = desk.node.new_engine()
    desk.learn()
    sequence = desk.open()
    desk.note(sequence, 1)
    assert_left(desk, sequence, 1)


def test_stage_calls_no_handler_of_the_store_behind_it() -> None:
    desk = Desk(known=False)
    desk.node.engine = desk.node.new_engine(Target(MemoryStore(), StageSettings(), StageRoom(100)))
    sequence = desk.open()
    desk.note(sequence, 1)
    assert_left(desk, sequence, 1)
    assert desk.node.engine.late_deliveries(0.0) == frozenset()


def test_messages_of_a_sequence_that_another_process_delivers_from_are_stored_and_those_of_others_handled() -> None:
    desk = Desk()
    claimed, free = desk.open(), desk.open()
    assert desk.node.store.claim(f"invoker {claimed}", "another process", desk.world.now, 60.0)
    desk.get(desk.foreign.note(claimed, 1), desk.foreign.note(free, 1))
    assert desk.stored(claimed) == [1]
    assert [context.sequence for context in desk.node.contexts] == [free]


def test_claim_that_is_lost_during_the_calls_undoes_them() -> None:
    desk = Desk()
    sequence = desk.open()

    def stopped(_context: MessageContext, _text: str) -> None:
        desk.world.now += 1000
        assert desk.node.store.claim(f"invoker {sequence}", "another process", desk.world.now, 60.0)

    desk.node.on_call = stopped
    assert desk.note(sequence, 1) == ["acknowledgement"]
    assert desk.called == [1]
    assert_left(desk, sequence, 1)


def test_a_claim_that_was_taken_away_is_not_relied_on_again() -> None:
    desk = Desk()
    sequence = desk.open()
    resource, claims = f"invoker {sequence}", desk.node.store._claims

    def suspended(_context: MessageContext, _text: str) -> None:
        claims[resource].until = 0.0  # an operator takes it without waiting for the end of the lease
        assert desk.node.store.claim(resource, "an operator", desk.world.now, 3600.0)

    desk.node.on_call = suspended
    desk.note(sequence, 1)
    deliver_again(desk.node)
    desk.note(sequence, 2)
    assert desk.called == [1], "no other call is made and undone"
    assert_left(desk, sequence, 1, 2)


def test_messages_of_a_sequence_that_another_thread_delivers_from_are_stored() -> None:
    desk = Desk()
    busy, free = desk.open(), desk.open()
    with worked_on(desk.node, busy):
        desk.get(desk.foreign.note(busy, 1), desk.foreign.note(free, 1))
        assert desk.stored(busy) == [1]
        assert [context.sequence for context in desk.node.contexts] == [free]


def test_transaction_that_waits_in_vain_for_a_thread_lets_the_next_ones_store_at_once() -> None:
    desk = Desk()
    busy, free = desk.open(), desk.open()
    with desk.node.engine.invocation._turns.alone([busy]):  # type: ignore[union-attr]
        desk.note(busy, 1)
    for number in range(1, STORING_TURNS + 1):
        desk.note(free, number)
    assert_left(desk, free, *range(1, STORING_TURNS + 1))
    desk.note(free, STORING_TURNS + 1)
    assert desk.stored(free) == [], "then they are delivered again, with what has waited"


def arrivals_during_a_call(desk: Desk, sequence: str) -> threading.Thread:
    """Let arrivals wait for the buffer of a sequence from the next call of a handler on."""
    turns = desk.node.engine.invocation._turns  # type: ignore[union-attr]
    arrivals = threading.Thread(target=lambda: turns.wait_for([sequence], 30.0))

    def come(_context: MessageContext, _text: str) -> None:
        if not arrivals.is_alive():
            arrivals.start()
            eventually(lambda: turns.is_wanted(sequence), "arrivals wait")

    desk.node.on_call = come
    return arrivals


def test_invoker_goes_on_while_more_is_left_than_arrivals_are_delivered_with(monkeypatch: pytest.MonkeyPatch) -> None:
    """They would be stored behind it, and each transaction of the invoker would deliver one message. So they do not
    wait for it either, whichever other sequences they are of."""
    desk = Desk()
    sequence = desk.open()
    with worked_on(desk.node, sequence):
        desk.note(sequence, 1, 2, 3, 4, 5)
    arrivals, turns = arrivals_during_a_call(desk, sequence), desk.node.engine.invocation._turns  # type: ignore[union-attr]
    come, at_once = desk.node.on_call, []
    assert come is not None

    def come_at_each_call(context: MessageContext, text: str) -> None:
        if len(at_once) < 3:
            at_once.append(turns.wait_for(["urn:another", sequence], 1.0))
        else:
            come(context, text)

    desk.node.on_call = come_at_each_call
    monkeypatch.setattr(invocation, "MOST_BEFORE", 2)
    desk.work()
    assert at_once == [True] * 3
    arrivals.join()
    assert (desk.called, desk.stored(sequence)) == ([1, 2, 3, 4], [5])


def test_invoker_ends_its_transaction_after_a_call_for_arrivals_that_wait_for_the_buffer() -> None:
    desk = Desk()
    sequence, other = desk.open(), desk.open()
    with worked_on(desk.node, sequence, other):
        desk.note(sequence, 1, 2, 3)
        desk.note(other, 1, 2)
    turns, arrivals = desk.node.engine.invocation._turns, arrivals_during_a_call(desk, sequence)  # type: ignore[union-attr]
    with turns.alone([sequence]):
        assert not turns.is_wanted(sequence), "it is reserved, and nothing waits for it"
    with turns.alone([other]):
        desk.work()
    arrivals.join()
    assert (desk.called, desk.stored(sequence)) == ([1], [2, 3])
    assert not turns.is_wanted(sequence)
    desk.node.on_call = None
    desk.note(sequence, 4)
    assert desk.called == [1, 2, 3, 4], "they are delivered with what has waited"
    desk.work()
    assert desk.stored(other) == [], "nothing has waited for this one"


def test_invoker_stores_its_responses_together_although_arrivals_wait_for_the_buffer() -> None:
    desk = Desk()
    sequence = desk.open()
    with worked_on(desk.node, sequence):
        desk.get(*(desk.foreign.ask(sequence, number) for number in (1, 2, 3)))
    arrivals = arrivals_during_a_call(desk, sequence)
    desk.work()
    arrivals.join()
    assert (desk.called, desk.stored(sequence)) == ([1, 2, 3], [])


def test_invoker_that_has_stored_many_responses_together_ends_for_arrivals_that_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(invocation, "RESPONSES", 2)
    desk = Desk()
    sequence = desk.open()
    with worked_on(desk.node, sequence):
        desk.get(*(desk.foreign.ask(sequence, number) for number in (1, 2, 3, 4)))
    arrivals = arrivals_during_a_call(desk, sequence)
    come = desk.node.on_call
    assert come is not None

    def take_long(context: MessageContext, text: str) -> None:
        come(context, text)
        desk.world.now += 0.02  # each call has a savepoint of its own

    desk.node.on_call = take_long
    desk.work()
    arrivals.join()
    assert (desk.called, desk.stored(sequence)) == ([1, 2], [3, 4])


def test_buffer_of_a_delivery_is_not_worked_on_by_another_thread_meanwhile() -> None:
    desk = Desk()
    sequence = desk.open()
    reserved: list[list[str]] = []

    def look(_context: MessageContext, _text: str) -> None:
        with desk.node.engine.invocation._turns.alone([sequence]) as mine:  # type: ignore[union-attr]
            reserved.append(mine)

    desk.node.on_call = look
    desk.note(sequence, 1)
    assert reserved == [[]]


# --- what is in the buffer --------------------------------------------------------------------------------------------


def test_message_that_fills_a_gap_is_stored_with_those_behind_it() -> None:
    desk = Desk()
    sequence = desk.open()
    desk.note(sequence, 2)
    desk.note(sequence, 1)
    assert_left(desk, sequence, 1, 2)
    assert_handled_by_worker(desk, sequence, 1, 2)


def test_message_whose_attachments_were_stored_on_their_way_is_stored_with_those_behind_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    desk = Desk()
    sequence, stored = desk.open(), iter([None, Attachments("one", (StoredPart("part", 5),)), None])
    monkeypatch.setattr(messages, "store_parts", lambda *_: next(stored))
    desk.note(sequence, 1, 2, 3)
    assert desk.called == [1]
    assert desk.stored(sequence) == [2, 3]


@pytest.mark.parametrize("kind", ["damaged", "with attachments"])
def test_waiting_rows_that_need_more_than_a_call_are_settled_first(kind: str) -> None:
    desk = Desk()
    sequence = desk.open()
    with worked_on(desk.node, sequence):
        desk.note(sequence, 1)
    rows = desk.node.store.committed.invoker.buffers[sequence].rows
    rows[1] = _changed(rows[1], kind)
    desk.note(sequence, 2)
    assert_left(desk, sequence, 1, 2)


def _changed(row: InboundMessage, kind: str) -> InboundMessage:
    if kind == "damaged":
        return replace(row, damaged=True)
    return replace(row, attachments=Attachments("one", (StoredPart("part", 5),)))


@pytest.mark.parametrize(("most", "handled"), [(7000, 2), (5000, 1)])
def test_requests_are_left_once_the_stored_responses_are_near_a_limit_and_not_above_the_share(
    most: int, handled: int
) -> None:
    # A sequence may have only the bytes of a small response without a look at what is stored: one has above 3,000.
    desk = Desk(policy=replace(DESTINATION, max_backlog_bytes=most), max_sequences=10**6, max_sequences_per_peer=10**6)
    sequence = desk.open()
    for number in (1, 2):
        desk.get(desk.foreign.ask(sequence, number, "x" * 3000))
    assert desk.called == [1, 2][:handled]
    assert desk.stored(sequence) == [1, 2][handled:]


@pytest.mark.parametrize("waiting", [2, 3])
def test_a_long_queue_is_left_to_the_invoker(waiting: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_arrival, "MOST_BEFORE", 2)
    desk = Desk()
    sequence = desk.open()
    with worked_on(desk.node, sequence):
        desk.note(sequence, *range(1, waiting + 1))
    desk.note(sequence, waiting + 1)
    assert desk.stored(sequence) == ([] if waiting == 2 else [1, 2, 3, 4])


def test_buffer_whose_delivery_has_failed_lately_is_left_alone() -> None:
    desk = Desk()
    sequence = desk.open()
    desk.node.engine.invocation._cool_down.add(sequence, desk.world.now)  # type: ignore[union-attr]
    desk.note(sequence, 1)
    assert_left(desk, sequence, 1)


def test_sequence_that_follows_another_waits_for_it() -> None:
    desk = Desk()
    before = desk.open()
    after = desk.open(follows=before)
    desk.note(after, 1)
    assert_left(desk, after, 1)


def test_messages_that_wait_in_a_closed_sequence_are_left_to_the_invoker() -> None:
    desk = Desk()
    sequence = desk.open()
    with worked_on(desk.node, sequence):
        desk.note(sequence, 1)
    desk.get(desk.foreign.close(sequence, 1))
    assert desk.note(sequence, 2) == ["fault SequenceClosed"]
    assert_left(desk, sequence, 1)
    assert_handled_by_worker(desk, sequence, 1)


def test_message_of_a_terminated_or_an_unknown_sequence_calls_nothing() -> None:
    desk = Desk()
    sequence = desk.open()
    desk.get(desk.foreign.terminate(sequence))
    assert desk.note(sequence, 1) == ["fault SequenceTerminated"]
    assert desk.note("urn:unknown", 1) == ["fault UnknownSequence"]
    assert desk.called == []
