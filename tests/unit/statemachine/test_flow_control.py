"""The rules by which a source numbers messages, requests acknowledgements, probes and waits: each rule alone."""

from __future__ import annotations

import math

import pytest

from mercury.statemachine import events
from mercury.statemachine.flow import Window
from mercury.statemachine.flow_control import (
    beside,
    has_more_to_do,
    holds_successor_back,
    is_heard_again,
    last_message_at,
    opened,
    overdue_since,
    probe_after,
    probes,
    requests_acknowledgement,
    room_for_numbers,
)
from mercury.statemachine.policy import SourcePolicy
from mercury.statemachine.protocol import RmVersion
from mercury.statemachine.retransmission import RetransmissionPolicy
from mercury.statemachine.rms import RMSSequence

POLICY = SourcePolicy(window=16, retransmission=RetransmissionPolicy(base=2.0))


def sending(numbers: int, sent: int, acknowledged: int = 0, *, expects_response: bool = False) -> RMSSequence:
    machine = RMSSequence.start(RmVersion.RM11, 0.0)
    for _ in range(numbers):
        machine.handle(events.Number(expects_response=expects_response), 0.0, POLICY)
    machine.handle(events.Created(identifier="urn:theirs"), 0.0, POLICY)
    machine.handle(events.Transmitted(sent), 0.0, POLICY)
    if acknowledged:
        machine.handle(events.Acknowledged(((1, acknowledged),)), 0.0, POLICY)
    return machine


# --- numbering -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("numbers", "sent", "acknowledged", "room"),
    [(1, 1, 1, 16), (4, 4, 0, 12), (10, 4, 2, 8), (16, 16, 0, 0), (16, 16, 5, 5), (20, 16, 0, 0)],
)
def test_numbers_in_flight_and_numbers_not_sent_yet_take_room(
    numbers: int, sent: int, acknowledged: int, room: int
) -> None:
    assert room_for_numbers(sending(numbers, sent, acknowledged), POLICY) == room


def test_a_window_opens_by_quarters() -> None:
    assert [opened(sending(1, 1), POLICY, room) for room in (0, 3, 4, 16)] == [0, 0, 4, 16]
    assert opened(sending(1, 1), SourcePolicy(window=1), 1) == 1


# --- asking ----------------------------------------------------------------------------------------------------------


def test_an_acknowledgement_is_asked_for_by_the_last_message_by_each_quarter_and_by_what_is_sent_again() -> None:
    machine = sending(12, 0)
    asking = [each for each in range(1, 13) if requests_acknowledgement(machine, POLICY, each, 1, last=each == 11)]
    assert asking == [4, 8, 11, 12]
    assert requests_acknowledgement(machine, POLICY, 5, 2, last=False)


# --- probing ---------------------------------------------------------------------------------------------------------


SILENT = probe_after(sending(1, 1), POLICY) + 0.1


def test_a_silent_peer_is_probed_once_a_message_was_sent_twice_in_vain() -> None:
    machine, twice = sending(3, 3), [(1, 2), (2, 2), (3, 0)]
    assert probe_after(machine, POLICY) == 4.0
    assert probes(machine, POLICY, twice, SILENT, reached=True) == {1}
    once = [(1, 1), (2, 1), (3, 0)]
    assert probes(machine, POLICY, once, SILENT, reached=True) == {1, 2, 3}, "the whole window is repeated once"
    heard = probe_after(machine, POLICY)
    assert probes(machine, POLICY, twice, heard, reached=True) == {1, 2, 3}, "it was heard a moment ago"
    assert probes(machine, POLICY, [], SILENT, reached=True) == set()


def test_a_number_that_stays_unacknowledged_has_others_beside_it() -> None:
    assert [beside(attempts) for attempts in range(8)] == [1, 1, 1, 1, 2, 3, 4, 5]
    machine = sending(4, 1)
    sent = [(1, 5), (2, 1), (3, 0), (4, 0)]
    assert probes(machine, POLICY, sent, SILENT, reached=True) == {1, 2, 3}
    assert probes(machine, POLICY, sent, SILENT, reached=False) == {1}, "a peer that is away gets no more by trying"


def test_a_number_below_an_acknowledged_one_is_no_probe() -> None:
    machine = sending(6, 4)
    machine.handle(events.Acknowledged(((1, 1), (3, 3))), 0.0, POLICY)
    assert probes(machine, POLICY, [(2, 9), (4, 2), (5, 0), (6, 0)], SILENT, reached=True) == {2, 4}
    assert probes(machine, POLICY, [(2, 9), (4, 0), (5, 0), (6, 0)], SILENT, reached=True) == {2, 4, 5, 6}
    assert probes(machine, POLICY, [(2, 9), (4, 2), (5, 0), (6, 0)], SILENT, reached=False) == {4}
    assert probes(machine, POLICY, [(2, 9)], SILENT, reached=True) == {2}
    asked = sending(3, 3, 3, expects_response=True)
    assert probes(asked, POLICY, [(1, 2), (2, 2), (3, 2)], SILENT, reached=True) == {1}, "requests are acknowledged"


def test_a_peer_is_heard_again_after_a_silence_as_long_as_that_which_makes_it_probed() -> None:
    machine = sending(3, 3)
    machine.last_heard = 14.1
    assert is_heard_again(machine, POLICY, 10.0)
    assert not is_heard_again(machine, POLICY, 10.1)


# --- the next number only --------------------------------------------------------------------------------------------


def test_the_lowest_number_is_overdue_when_something_was_heard_since_it_was_sent() -> None:
    machine = sending(8, 8)
    machine.last_heard = 5.0
    assert overdue_since(machine, POLICY, 1, 6.5) == 4.5
    assert overdue_since(machine, POLICY, 1, 7.5) is None, "nothing was heard since"
    assert overdue_since(machine, POLICY, 0, 6.5) is None, "it was never sent"
    machine.flow = Window(1, 1, 0)
    assert overdue_since(machine, POLICY, 1, 6.5) is None, "the window is as small as can be"


def test_the_empty_last_message_waits_for_all_before_it() -> None:
    assert last_message_at(sending(3, 3, 1), 3, 0.0, fetches=False) is None
    assert last_message_at(sending(3, 3, 2), 3, 0.0, fetches=False) == -math.inf


def test_the_empty_last_message_waits_for_responses_for_some_time() -> None:
    machine = sending(3, 3, 2, expects_response=True)
    machine.last_heard = 5.0
    assert last_message_at(machine, 3, 1.0, fetches=True) == 601.0
    assert last_message_at(machine, 3, 1.0, fetches=False) == 65.0
    machine.last_heard = 590.0
    assert last_message_at(machine, 3, 1.0, fetches=False) == 601.0, "it is never silent"


# --- waking the worker -----------------------------------------------------------------------------------------------


def test_the_worker_is_woken_when_a_quarter_of_the_window_is_open_and_something_waits() -> None:
    assert has_more_to_do(sending(12, 12), POLICY, waiting=True)
    assert not has_more_to_do(sending(13, 13), POLICY, waiting=True), "less than a quarter is open"
    assert not has_more_to_do(sending(12, 12), POLICY, waiting=False), "nothing waits"
    assert has_more_to_do(sending(12, 11), POLICY, waiting=False), "a number was never sent"


def test_the_worker_is_woken_for_a_control_message_a_narrow_window_and_an_end() -> None:
    ending = sending(1, 1, 1)
    ending.handle(events.End(), 0.0, POLICY)
    assert has_more_to_do(ending, POLICY, waiting=False), "the end is to be sent"
    narrow = sending(4, 4)
    assert not has_more_to_do(narrow, POLICY, waiting=False)
    narrow.flow = Window(1, 1, 0)
    assert has_more_to_do(narrow, POLICY, waiting=False), "the next number of a narrow window may be sent"
    failed = sending(4, 4)
    failed.handle(events.GaveUp(), 0.0, POLICY)
    assert has_more_to_do(failed, POLICY, waiting=False)


# --- successors ------------------------------------------------------------------------------------------------------


def test_a_successor_waits_until_everything_is_acknowledged() -> None:
    assert holds_successor_back(sending(3, 3, 2), fetches=False)
    assert not holds_successor_back(sending(3, 3, 3), fetches=False)


def test_a_successor_waits_for_responses_that_have_to_be_fetched_unless_they_are_abandoned() -> None:
    machine = sending(2, 2, 2, expects_response=True)
    assert holds_successor_back(machine, fetches=True)
    assert not holds_successor_back(machine, fetches=False)
    machine.handle(events.End(abandon=True), 0.0, POLICY)
    assert not holds_successor_back(machine, fetches=True)


def test_a_failed_sequence_holds_no_successor_back() -> None:
    machine = sending(3, 3)
    machine.handle(events.GaveUp(), 0.0, POLICY)
    assert not holds_successor_back(machine, fetches=True)
