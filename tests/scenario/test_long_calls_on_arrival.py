"""Calls in a transaction of arrivals that take longer than usual: arrivals wait for them, but not for long."""

from __future__ import annotations

from mercury.engine.application import MessageContext
from mercury.engine.delivery.on_arrival import SECONDS

from .desk import Desk, TwoServices


def test_calls_end_after_some_time_and_the_rest_is_stored() -> None:
    desk = Desk()
    sequence = desk.open()

    def takes(_context: MessageContext, _text: str) -> None:
        desk.world.now += SECONDS / 2.5

    desk.node.on_call = takes
    desk.note(sequence, *range(1, 11))
    assert desk.node.handled == ["note 1", "note 2", "note 3"]
    assert desk.stored(sequence) == list(range(4, 11))
    desk.node.on_call = None
    desk.work()
    assert desk.called == list(range(1, 11))


def test_sequences_of_calls_that_take_long_are_known_until_their_transaction_ends() -> None:
    desk = Desk()
    sequence, other = desk.open(), desk.open()
    known: list[frozenset[str]] = []

    def takes(_context: MessageContext, _text: str) -> None:
        known.append(desk.node.engine.late_deliveries(0.1))
        desk.world.now += 0.1
        known.append(desk.node.engine.late_deliveries(0.1))
        known.append(desk.node.engine.late_deliveries(0.2))

    desk.node.on_call = takes
    desk.get(desk.foreign.note(sequence, 1), desk.foreign.note(other, 1))
    assert known[:3] == [frozenset(), {sequence, other}, frozenset()]
    assert desk.node.engine.late_deliveries(0.0) == frozenset()


def test_sequences_without_a_call_that_such_a_transaction_has_locked_are_known_too() -> None:
    # What arrives of them waits for the end of the calls, and so would the thread that takes it.
    desk = TwoServices()
    known: list[frozenset[str]] = []
    desk.node.on_call = lambda *_: known.append(desk.node.engine.late_deliveries(0.0))
    desk.note_both()
    assert known == [{desk.slow, desk.quick}]


def test_messages_that_arrive_during_the_calls_of_another_transaction_are_stored() -> None:
    # They come in a second thread, because the calls take long: those of other messages may take as long.
    desk = Desk()
    sequence, other = desk.open(), desk.open()

    def takes(context: MessageContext, _text: str) -> None:
        if context.sequence == sequence:
            desk.world.now += 1.0
            desk.note(other, 1)

    desk.node.on_call = takes
    desk.note(sequence, 1)
    assert [context.sequence for context in desk.node.contexts] == [sequence]
    assert desk.stored(other) == [1]


def test_a_transaction_that_fails_is_not_late_for_ever() -> None:
    desk = Desk()
    sequence = desk.open()
    desk.node.watched.fail()
    desk.note(sequence, 1)
    assert desk.called == [1]
    desk.world.now += 100
    assert desk.node.engine.late_deliveries(0.1) == frozenset()
