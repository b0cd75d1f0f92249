"""The pause before a retransmission follows the round trip; the window follows the acknowledgements."""

from __future__ import annotations

from random import Random

import pytest

from mercury.engine.exchange import Arrival, Outgoing, Purpose
from mercury.statemachine import events
from mercury.statemachine.flow import START, Window
from mercury.statemachine.flow_control import pause_after
from mercury.statemachine.policy import SourcePolicy
from mercury.statemachine.protocol import RmVersion
from mercury.statemachine.rms import RMSSequence
from mercury.statemachine.round_trip import DOUBLED, RoundTrip
from mercury.storage.memory import MemoryStore
from mercury.storage.sql.values import read_round_trip, write_round_trip
from tests.storage.pair import Pair

NOW = 1_800_000_000.0
BASE = 1.0


def measured(*seconds: float) -> RoundTrip:
    trip = RoundTrip()
    for each in seconds:
        trip = trip.sent(1, NOW).acknowledged(NOW + each)
    return trip


def test_the_pause_is_never_shorter_than_the_base() -> None:
    policy, machine = SourcePolicy(), sending(SourcePolicy(), 4)
    for trip in (RoundTrip(), measured(*[0.01] * 20)):
        machine.round_trip = trip
        assert pause_after(machine, policy, 1, 0.0) == BASE


def test_the_pause_is_longer_than_every_round_trip_that_varies_as_before() -> None:
    chance = Random(4)
    trips = [chance.uniform(2.0, 4.0) for _ in range(200)]
    for place in range(20, 200):
        assert measured(*trips[:place]).pause > trips[place]
    assert measured(*trips).pause < 8.0


def test_a_message_that_was_sent_again_measures_nothing_and_the_pause_doubles_until_one_is_measured() -> None:
    policy, machine, trip = SourcePolicy(), sending(SourcePolicy(), 4), RoundTrip()
    for times in range(1, DOUBLED + 3):
        trip = machine.round_trip = trip.sent(1, NOW).sent_again().acknowledged(NOW + 5)
        assert trip.smoothed is None
        assert pause_after(machine, policy, 1, 0.0) == BASE * 2 ** min(times, DOUBLED)
    machine.round_trip = trip.sent(2, NOW).acknowledged(NOW + 0.1)
    assert pause_after(machine, policy, 1, 0.0) == BASE


def test_a_clock_that_was_set_back_measures_no_negative_time() -> None:
    assert measured(-3600.0).smoothed == 0.0


@pytest.mark.parametrize("trip", [RoundTrip(), RoundTrip(0.25, 0.1, 7, NOW, 2), RoundTrip(number=3)], ids=str)
def test_a_round_trip_is_the_same_after_it_was_stored(trip: RoundTrip) -> None:
    assert read_round_trip(write_round_trip(trip)) == trip


def sending(policy: SourcePolicy, numbers: int) -> RMSSequence:
    machine = RMSSequence.start(RmVersion.RM11, NOW)
    for _ in range(numbers):
        machine.handle(events.Number(), NOW, policy)
    machine.handle(events.Created(identifier="urn:theirs"), NOW, policy)
    return machine


def test_one_message_at_a_time_is_timed() -> None:
    policy, machine = SourcePolicy(), sending(SourcePolicy(), 4)
    machine.handle(events.Transmitted(2), NOW, policy)
    machine.handle(events.Transmitted(4), NOW + 1, policy)
    machine.handle(events.Acknowledged(((1, 1), (3, 4))), NOW + 2, policy)
    assert machine.round_trip.smoothed is None, "number 2 is timed"
    machine.handle(events.Acknowledged(((1, 4),)), NOW + 3, policy)
    assert machine.round_trip.smoothed == 3.0
    assert pause_after(machine, policy, 1, 0.0) == 9.0


def test_a_dropped_number_does_not_lengthen_the_pause() -> None:
    policy, machine = SourcePolicy(), sending(SourcePolicy(), 4)
    machine.handle(events.Transmitted(4), NOW, policy)
    machine.handle(events.Transmitted(4, (4,)), NOW + 1, policy)
    assert pause_after(machine, policy, 1, 0.0) == 2 * BASE
    machine.handle(events.Overdue(), NOW + 1, policy)
    assert pause_after(machine, policy, 1, 0.0) == BASE


# --- a slow link -----------------------------------------------------------------------------------------------------


def posts_on_a_link(round_trip: float, messages: int) -> int:
    """How many times messages are posted on a link without losses, whose replies come after this time."""
    pair = Pair(MemoryStore(), MemoryStore())
    pair.send([str(each) for each in range(messages)], window=16)
    on_the_way: list[tuple[float, Outgoing]] = []
    posted, now = 0, NOW
    while now < NOW + 3600:
        fresh = pair.client.turn(now)[1]
        arrived: list[Arrival] = pair.carry([post for at, post in on_the_way if at <= now], now)
        on_the_way = [(at, post) for at, post in on_the_way if at > now]
        fresh += pair.client.receive(arrived, now)
        pair.server.turn(now)
        posted += sum(post.purpose is Purpose.MESSAGE for post in fresh)
        on_the_way += [(now + round_trip, post) for post in fresh]
        if len(pair.server.handled) == messages and not on_the_way:
            return posted
        now += 0.25
    raise AssertionError("not all messages arrived")


def test_a_fast_link_has_one_post_for_each_message() -> None:
    assert posts_on_a_link(0.5, 160) == 160


@pytest.mark.parametrize("seconds", [1.5, 3.0, 6.0])
def test_a_slow_link_has_one_post_for_each_message_once_its_round_trip_is_known(seconds: float) -> None:
    short, long = posts_on_a_link(seconds, 160), posts_on_a_link(seconds, 480)
    assert abs(long - short - 320) <= 16  # the pauses vary by chance
    assert short <= 160 + 4 * 16


# --- the window ------------------------------------------------------------------------------------------------------


def acknowledging(machine: RMSSequence, policy: SourcePolicy, most: int) -> list[int]:
    """The sizes of the window while it is kept full."""
    sizes = []
    while machine.acknowledged.count < most:
        room = machine.window(policy) - machine.in_flight
        for _ in range(room):
            machine.handle(events.Number(), NOW, policy)
        machine.handle(events.Transmitted(machine.last_number), NOW, policy)
        upto = machine.acknowledged.count + machine.ack_request_interval(policy)
        machine.handle(events.Acknowledged(((1, upto),)), NOW, policy)
        if machine.window(policy) not in sizes:
            sizes.append(machine.window(policy))
    return sizes


def test_a_full_window_doubles_up_to_the_policy_while_acknowledgements_keep_pace() -> None:
    assert acknowledging(sending(SourcePolicy(), 1), SourcePolicy(), 4000) == [64, 128, 256, 512]
    small = SourcePolicy(window=16)
    assert acknowledging(sending(small, 1), small, 1000) == [16]


def test_a_window_that_is_not_full_does_not_grow() -> None:
    policy, machine = SourcePolicy(), sending(SourcePolicy(), 1)
    for number in range(1, 1000):
        machine.handle(events.Transmitted(number), NOW, policy)
        machine.handle(events.Acknowledged(((1, number),)), NOW, policy)
        machine.handle(events.Number(), NOW, policy)
    assert machine.flow == Window()


def test_a_window_that_shrinks_begins_anew() -> None:
    policy, machine = SourcePolicy(), sending(SourcePolicy(), 1)
    acknowledging(machine, policy, 1000)
    for _ in range(2):
        machine.handle(events.Number(), NOW, policy)
    machine.handle(events.Transmitted(machine.last_number), NOW, policy)
    machine.handle(events.Overdue(), NOW, policy)
    assert machine.flow.size == 1
    assert machine.flow.grown == START
