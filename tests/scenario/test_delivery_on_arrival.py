"""Messages are delivered in the transaction that receives them, if their handlers are known to be quick (decision 92).

What can go wrong there leaves every guarantee as it is: each message is handled exactly once, and in order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import cast

import pytest

from mercury.engine.application import MessageContext
from mercury.engine.delivery.on_arrival import STORING_TURNS
from mercury.engine.events import Accepted, Delivered, HandlerFailed
from mercury.engine.exchange import Response
from mercury.errors import TransientStorageError
from mercury.statemachine.policy import AcknowledgeAt, OnFailure
from mercury.statemachine.protocol import RmVersion
from mercury.storage.api import Transaction

from .desk import Desk, worked_on
from .foreign import RM10_SOAP12, Foreign, identifier_in
from .harness import DESTINATION, NOTE, Pair, body, name_of
from .test_ownership_of_sequences import OTHER, OWNER, post

#: What a handler does first.
OnCall = Callable[[MessageContext, str], None]
SKIP = replace(DESTINATION, on_failure=OnFailure.SKIP, max_attempts=1)


def failing(*texts: str, error: type[Exception] = ValueError) -> OnCall:
    """A handler that fails for these messages."""

    def fail(_context: MessageContext, text: str) -> None:
        if text in texts:
            raise error(text)

    return fail


def taking(desk: Desk, seconds: float) -> OnCall:
    """A handler that takes so long."""

    def take(_context: MessageContext, _text: str) -> None:
        desk.world.now += seconds

    return take


# --- what is delivered ------------------------------------------------------------------------------------------------


def test_message_is_handled_in_the_transaction_that_receives_it_and_never_stored() -> None:
    desk = Desk()
    sequence, rows = desk.open(), list[int]()
    desk.node.on_call = lambda *_: rows.extend(desk.stored(sequence))
    before = desk.node.commits
    assert desk.note(sequence, 1) == ["acknowledgement"]
    assert desk.node.handled == ["note 1"]
    assert desk.node.commits == before + 1
    assert rows == desk.stored(sequence) == []
    assert list(desk.buffer(sequence).machine.passed.numbers()) == [1]
    desk.work()
    assert desk.node.handled == ["note 1"], "the invoker has nothing left to do"


def test_first_message_of_a_service_is_stored_because_nobody_knows_how_long_its_handler_takes() -> None:
    desk = Desk(known=False)
    sequence = desk.open()
    desk.note(sequence, 1)
    assert desk.node.handled == []
    assert desk.stored(sequence) == [1]
    desk.work()
    desk.note(sequence, 2)
    assert desk.node.handled == ["note 1", "note 2"]


def test_messages_of_a_service_whose_handler_takes_long_are_stored() -> None:
    desk = Desk(known=False)
    sequence = desk.open()
    desk.node.on_call = taking(desk, 0.021)
    desk.note(sequence, 1)
    desk.work()
    desk.note(sequence, 2)
    assert desk.node.handled == ["note 1"]
    assert desk.stored(sequence) == [2]


def test_a_handler_that_becomes_slow_is_no_longer_called_on_arrival() -> None:
    desk = Desk()
    sequence = desk.open()
    desk.node.on_call = taking(desk, 0.03)
    desk.note(sequence, 1)
    desk.note(sequence, 2)
    assert desk.node.handled == ["note 1"]
    assert desk.stored(sequence) == [2]


def test_messages_that_arrive_together_in_any_order_are_handled_in_theirs() -> None:
    desk = Desk()
    sequence = desk.open()
    assert desk.note(sequence, 3, 1, 2) == ["accepted", "accepted", "acknowledgement"]
    assert desk.called == [1, 2, 3]
    assert desk.stored(sequence) == []


def test_only_what_comes_before_a_gap_is_handled() -> None:
    desk = Desk()
    sequence = desk.open()
    desk.note(sequence, 1, 3, 4)
    assert desk.called == [1]
    assert desk.stored(sequence) == [3, 4]
    desk.note(sequence, 2)
    desk.work()
    assert desk.called == [1, 2, 3, 4]
    assert desk.stored(sequence) == []


def test_messages_that_wait_are_handled_before_those_that_arrive() -> None:
    desk = Desk()
    sequence = desk.open()
    with worked_on(desk.node, sequence):
        desk.note(sequence, 1)
        desk.note(sequence, 2)
    assert desk.stored(sequence) == [1, 2]
    before = desk.node.commits
    desk.note(sequence, 3)
    assert desk.called == [1, 2, 3]
    assert desk.stored(sequence) == []
    assert desk.node.commits == before + 1


def test_message_that_arrives_twice_is_handled_once() -> None:
    desk = Desk()
    sequence = desk.open()
    desk.note(sequence, 1, 1)
    desk.note(sequence, 1, 2)
    assert desk.called == [1, 2]
    assert desk.stored(sequence) == []


def test_sequences_of_one_transaction_are_all_delivered_from() -> None:
    desk = Desk()
    one, other = desk.open(), desk.open()
    desk.get(*(desk.foreign.note(each, number) for number in (1, 2) for each in (one, other)))
    assert sorted((context.sequence, context.number) for context in desk.node.contexts) == sorted(
        (each, number) for each in (one, other) for number in (1, 2)
    )
    assert desk.stored(one) == desk.stored(other) == []


def test_observers_are_told_the_same_as_if_the_message_had_been_stored() -> None:
    desk = Desk()
    desk.note(desk.open(), 1)
    told = [type(event) for event in desk.node.events if isinstance(event, (Accepted, Delivered))]
    assert told == [Accepted, Delivered]
    (delivered,) = desk.node.seen(Delivered)
    assert (delivered.number, delivered.attempt, delivered.handler) == (1, 1, "Note")


def test_message_that_is_never_stored_counts_as_received() -> None:
    desk = Desk()
    sequence = desk.open()
    desk.node.engine.traffic.take()
    desk.note(sequence, 1, 2, 4)
    assert desk.stored(sequence) == [4]
    (traffic,) = desk.node.engine.traffic.take()
    assert (traffic.received, traffic.delivered) == (3, 2)


def test_bytes_of_a_delivered_message_do_not_count_for_the_limits() -> None:
    desk = Desk()
    sequence = desk.open()
    desk.note(sequence, 1, 2)
    received = desk.node.store.committed.rmd.records[sequence].received_bytes
    assert desk.buffer(sequence).consumed_bytes == received > 0


def test_handler_sends_in_the_same_transaction() -> None:
    pair = Pair()
    link = pair.link()
    link.notes("before")
    pair.run()
    back = pair.server.to(pair.client, "back")

    def pass_on(context: MessageContext, text: str) -> None:
        back.notes(f"re {text}", tx=cast("Transaction", context.transaction))

    pair.server.on_call = pass_on
    link.notes("there")
    pair.run()
    assert pair.server.handled == ["before", "there"]
    assert pair.client.handled == ["re there"]
    link.close()
    back.close()
    pair.advance(5)
    pair.assert_ended()


def test_messages_of_a_batch_are_handled_in_the_transaction_that_receives_it() -> None:
    pair = Pair(policy=replace(DESTINATION, batches=True))
    link = pair.link(batch=100)
    link.notes("first")
    pair.run()
    before, texts = pair.server.commits, ["one", "two", "three"]
    link.notes(*texts)
    pair.client.turn()
    assert [flight.name for flight in pair.wire] == ["batch 2-4"]
    pair.carry()
    assert pair.server.handled == ["first", *texts]
    assert pair.server.commits == before + 1


# --- ends and acknowledgements ----------------------------------------------------------------------------------------


def test_sequence_that_ends_with_its_last_message_has_nothing_left() -> None:
    desk = Desk()
    sequence = desk.open()
    note, end = desk.foreign.note(sequence, 1), desk.foreign.terminate(sequence, 1)
    assert desk.get(note, end)[1] == "TerminateSequenceResponse"
    assert desk.node.handled == ["note 1"]
    desk.work()
    assert desk.buffer(sequence).machine.finished


def test_last_message_of_wsrm_1_0_ends_the_buffer_on_arrival() -> None:
    desk = Desk(foreign=Foreign(RM10_SOAP12))
    assert desk.foreign.protocol.rm is RmVersion.RM10
    sequence = desk.open()
    desk.get(desk.foreign.note(sequence, 1), desk.foreign.last_message(sequence, 2))
    assert desk.node.handled == ["note 1"], "the application never sees the empty one"
    assert desk.stored(sequence) == []
    assert desk.buffer(sequence).machine.finished


def test_messages_that_are_acknowledged_at_delivery_are_acknowledged_in_the_reply() -> None:
    desk = Desk(policy=replace(DESTINATION, acknowledge_at=AcknowledgeAt.DELIVERY), known=False)
    sequence = desk.open()
    (stored,) = desk.node.get_all([desk.foreign.note(sequence, 1)])
    assert b"Upper" not in stored.body
    desk.work()
    desk.node.on_call = failing("note 4")
    replies = desk.node.get_all([desk.foreign.note(sequence, number) for number in (2, 3, 4, 5)])
    assert desk.node.handled == ["note 1", "note 2", "note 3"]
    ranges = [part for reply in replies for part in reply.body.split(b"<") if b"AcknowledgementRange " in part]
    assert len(ranges) == 1
    assert b'Upper="3"' in ranges[0]
    assert b'Lower="1"' in ranges[0]


def test_message_whose_delivery_a_stranger_sets_off_is_acknowledged_to_its_owner() -> None:
    """A refused message of a sequence is the only one in its transaction, which delivers what waited."""
    desk = Desk(policy=replace(DESTINATION, acknowledge_at=AcknowledgeAt.DELIVERY))
    made = post(desk.node, desk.foreign.create(), identity=OWNER)
    sequence = identifier_in(made)
    with worked_on(desk.node, sequence):
        post(desk.node, desk.foreign.note(sequence, 1), identity=OWNER)
    assert desk.stored(sequence) == [1]
    refusal = post(desk.node, desk.foreign.note(sequence, 2), identity=OTHER)
    assert name_of(refusal) != "acknowledgement"
    assert desk.called == [1]
    repeated = post(desk.node, desk.foreign.note(sequence, 1), identity=OWNER)
    assert b'Upper="1"' in repeated.body


def test_response_leaves_on_the_exchange_of_its_request() -> None:
    pair = Pair()
    link = pair.link(listens=False)
    link.asks("before")
    pair.run()
    said, early = len(pair.seen), list[Response]()
    pair.server.engine.invocation.answer = early.extend
    before = pair.server.commits
    link.asks("quick")
    pair.run()
    assert pair.client.answers[-1] == ("quick", "re quick")
    assert pair.seen[said : said + 2] == ["message 2", "response 2"]
    assert [response.request for response in early] != [], "a held exchange would have got it at once"
    assert pair.server.commits - before == 2, "the request with its response, and the acknowledgement of that"


def test_fault_of_a_handler_is_the_response_and_its_work_is_undone() -> None:
    pair = Pair()
    link = pair.link(listens=False)
    link.asks("before")
    pair.run()
    link.asks("refuse it")
    pair.run()
    assert pair.client.answers[-1] == ("refuse it", "fault Refused")
    assert pair.server.handled == ["before"]
    assert pair.server.letters() == []


# --- handlers that fail -----------------------------------------------------------------------------------------------


def test_failed_call_is_recorded_and_repeated_as_that_of_the_invoker() -> None:
    desk = Desk()
    one, other = desk.open(), desk.open()

    def fail(context: MessageContext, _text: str) -> None:
        if (context.sequence, context.number) == (one, 2):
            raise ValueError("not now")

    desk.node.on_call = fail
    desk.get(*(desk.foreign.note(each, number) for each in (one, other) for number in (1, 2, 3)))
    assert desk.stored(one) == [2, 3], "in order, the third waits for it"
    assert desk.stored(other) == [], "another sequence does not"
    failed = desk.buffer(one)
    assert (failed.attempts, failed.retry_at) == (1, desk.world.now + 0.5)
    assert "ValueError: not now" in (failed.last_error or "")
    (event,) = desk.node.seen(HandlerFailed)
    assert (event.number, event.attempt, event.retry_at) == (2, 1, failed.retry_at)
    desk.node.on_call = None
    desk.note(one, 4)
    assert desk.stored(one) == [2, 3, 4], "nothing is called before the pause is over"
    desk.work_later(0.5)
    assert desk.stored(one) == []
    again = [(context.number, context.attempt) for context in desk.node.contexts if context.sequence == one]
    assert again == [(1, 1), (2, 1), (2, 2), (3, 1), (4, 1)]


def test_message_given_up_at_its_first_attempt_becomes_a_dead_letter_and_the_next_is_handled() -> None:
    desk = Desk(policy=SKIP)
    sequence = desk.open()
    desk.node.on_call = failing("note 2")
    desk.note(sequence, 1, 2, 3)
    assert desk.node.handled == ["note 1", "note 3"]
    assert desk.stored(sequence) == []
    assert [text for text, _ in desk.node.letters_by_text()] == ["note 2"]


def test_message_that_has_expired_while_it_waited_is_a_dead_letter_and_the_next_one_is_handled() -> None:
    pair = Pair()
    link = pair.link()
    link.notes("before")
    pair.run()
    sequence = pair.server.destination().identifier
    with worked_on(pair.server, sequence):
        link.send(body("late"), action=NOTE, expires_in=5)
        pair.run()
    pair.clock.now += 6
    link.notes("in time")
    pair.client.turn()
    pair.carry()
    assert pair.server.handled == ["before", "in time"]
    assert [text for text, _ in pair.server.letters_by_text()] == ["late"]


# --- transactions that fail -------------------------------------------------------------------------------------------


def test_transaction_that_fails_is_repeated_and_only_stores() -> None:
    desk = Desk()
    sequence = desk.open()
    desk.node.watched.fail()
    assert desk.note(sequence, 1) == ["acknowledgement"], "the peer does not notice"
    assert desk.called == [1]
    assert desk.node.handled == [], "what the handler did is rolled back"
    assert desk.stored(sequence) == [1]
    desk.work()
    assert desk.node.handled == ["note 1"]
    assert desk.called == [1, 1]


def test_several_transactions_after_a_failed_one_only_store() -> None:
    desk = Desk()
    sequence = desk.open()
    desk.node.watched.fail()
    desk.note(sequence, 1)
    desk.work()
    for number in range(2, STORING_TURNS + 2):
        desk.note(sequence, number)
        assert desk.stored(sequence) == [number]
        desk.work()
    desk.note(sequence, STORING_TURNS + 2)
    assert desk.stored(sequence) == []
    assert desk.node.handled == [f"note {number}" for number in range(1, STORING_TURNS + 3)]


def test_store_that_fails_in_a_handler_lets_all_be_stored_and_counts_as_no_attempt() -> None:
    desk = Desk()
    sequence = desk.open()
    desk.node.on_call = failing("note 2", error=TransientStorageError)
    assert desk.note(sequence, 1, 2) == ["accepted", "acknowledgement"]
    assert desk.node.handled == []
    assert desk.stored(sequence) == [1, 2]
    desk.node.on_call = None
    desk.work()
    assert desk.node.handled == ["note 1", "note 2"]
    assert {context.attempt for context in desk.node.contexts} == {1}


def test_transaction_that_fails_for_many_arrivals_costs_none_of_them() -> None:
    desk = Desk()
    sequences = [desk.open() for _ in range(3)]
    desk.node.failing_commits = {desk.node.commits + 1, desk.node.commits + 2}  # also the one that only stores
    assert desk.get(*(desk.foreign.note(each, 1) for each in sequences)) == ["acknowledgement"] * 3
    assert desk.node.handled == []
    desk.work()
    assert desk.node.handled == ["note 1"] * 3


@pytest.mark.parametrize("when", ["before", "after"])
def test_process_that_dies_at_the_commit_has_handled_each_message_once_in_the_end(when: str) -> None:
    pair = Pair()
    link = pair.link()
    link.notes("first")
    pair.run()
    getattr(pair.server.watched, f"crash_{when}")()
    link.notes("second")
    pair.run()
    assert pair.server.crashes == 1
    link.notes("third")
    link.close()
    pair.advance(20)
    assert pair.server.handled == ["first", "second", "third"]
    pair.assert_ended()
