"""Counters and histograms, and what they say of a batch."""

from __future__ import annotations

import pytest

from mercury.engine.events import Acknowledged
from mercury.telemetry import instruments as of
from mercury.telemetry.recorder import LONGEST_TRANSFER, MOST_SEQUENCES, Recorder
from mercury.testing import FakeClock

ENDPOINT = "http://peer.example/orders"


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def recorder(clock: FakeClock) -> Recorder:
    return Recorder(3, clock, clock)


def counted(recorder: Recorder, instrument: of.Instrument) -> dict[tuple[str, ...], int]:
    return dict(recorder.counters[instrument.name].read())


def measured(recorder: Recorder, instrument: of.Instrument) -> dict[tuple[str, ...], tuple[int, float]]:
    """The number of the values of each series, and their sum."""
    series = recorder.histograms[instrument.name].read()
    return {labels: (sum(found.counts), round(found.sum, 6)) for labels, found in series}


def acknowledge(recorder: Recorder, sequence: str, *ranges: tuple[int, int]) -> None:
    recorder.observe(Acknowledged(at=0.0, sequence=sequence, endpoint=ENDPOINT, key="k", ranges=ranges))


def test_acknowledgement_latency_counts_each_message_of_a_post(recorder: Recorder, clock: FakeClock) -> None:
    recorder.transmitted(ENDPOINT, "s", 10, 10, again=False)
    clock.advance(1)
    recorder.transmitted(ENDPOINT, "s", 12, 2, again=False)
    clock.advance(1)
    acknowledge(recorder, "s", (1, 11))
    assert measured(recorder, of.ACKNOWLEDGEMENT_LATENCY) == {(ENDPOINT,): (10, 20.0)}
    clock.advance(1)
    acknowledge(recorder, "s", (12, 12))
    assert measured(recorder, of.ACKNOWLEDGEMENT_LATENCY) == {(ENDPOINT,): (12, 24.0)}
    assert counted(recorder, of.ACKNOWLEDGED) == {(ENDPOINT,): 12}


def test_retransmissions_do_not_begin_the_latency_again(recorder: Recorder, clock: FakeClock) -> None:
    recorder.transmitted(ENDPOINT, "s", 1, 1, again=False)
    clock.advance(5)
    recorder.transmitted(ENDPOINT, "s", 1, 1, again=True)
    acknowledge(recorder, "s", (1, 1))
    assert measured(recorder, of.ACKNOWLEDGEMENT_LATENCY) == {(ENDPOINT,): (1, 5.0)}
    assert counted(recorder, of.TRANSMITTED) == counted(recorder, of.RETRANSMITTED) == {(ENDPOINT,): 1}


def test_sequences_that_are_never_acknowledged_take_no_more_memory(recorder: Recorder) -> None:
    for number in range(MOST_SEQUENCES + 1):
        recorder.transmitted(ENDPOINT, f"s{number}", 1, 1, again=False)
    acknowledge(recorder, "s0", (1, 1))
    assert measured(recorder, of.ACKNOWLEDGEMENT_LATENCY) == {}
    acknowledge(recorder, f"s{MOST_SEQUENCES}", (1, 1))
    assert measured(recorder, of.ACKNOWLEDGEMENT_LATENCY) == {(ENDPOINT,): (1, 0.0)}


def test_handlers_in_one_savepoint_have_their_mean_time(recorder: Recorder, clock: FakeClock) -> None:
    began = recorder.call_begins()
    clock.advance(0.4)
    recorder.call_ended(began, "orders", 4, None)
    recorder.call_ended(recorder.call_begins(), None, 1, LookupError)
    recorder.call_ended(recorder.call_begins(), "orders", 0, None)
    assert measured(recorder, of.PROCESS) == {
        ("mercury", "deliver", "orders", ""): (4, 0.4),
        ("mercury", "deliver", "responses", "LookupError"): (1, 0.0),
    }


def test_delivery_latency_is_not_negative_when_clocks_differ(recorder: Recorder, clock: FakeClock) -> None:
    recorder.delivered("orders", [clock.now + 5, clock.now - 2])
    assert measured(recorder, of.DELIVERY_LATENCY) == {("orders",): (2, 2.0)}


def test_a_time_of_a_peer_that_cannot_be_true_does_not_spoil_the_sum(recorder: Recorder, clock: FakeClock) -> None:
    received, now = [clock.now] * 5, clock.now
    recorder.delivered("orders", received, [now - 3, now + 10, None, 0.0, now - LONGEST_TRANSFER - 1])
    assert measured(recorder, of.TRANSFER_LATENCY) == {("orders",): (2, 3.0)}


def test_exchange_with_attachments_has_no_known_begin(recorder: Recorder) -> None:
    recorder.exchanged(ENDPOINT, float("inf"), "")
    assert measured(recorder, of.EXCHANGES) == {}


def test_answers_to_addresses_of_peers_share_a_destination(recorder: Recorder) -> None:
    recorder.exchanged("", recorder.call_begins(), "")
    assert list(measured(recorder, of.EXCHANGES)) == [("mercury", "transmit", "answers", "")]


def test_peers_do_not_use_up_the_names_of_services(recorder: Recorder) -> None:
    for number in range(10):
        recorder.sent(f"http://peer.example/{number}")
    recorder.accepted(["orders", None, "orders"])
    assert counted(recorder, of.ACCEPTED) == {("orders",): 2, ("responses",): 1}
    assert counted(recorder, of.SENT)["mercury", "send", of.OTHER] == 7


def test_values_are_counted_in_the_bucket_that_they_fit(recorder: Recorder) -> None:
    for messages in (1, 2, 3, 5000):
        recorder.accepted(["orders"] * messages)
    ((_, found),) = recorder.histograms[of.BATCH_MESSAGES.name].read()
    assert found.counts == [1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 1]
