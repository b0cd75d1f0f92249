"""What the metrics of a client and a server say after an exchange of messages."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mercury import MessageContext, Service
from mercury.engine.metrics_settings import MetricsSettings
from mercury.settings import Settings
from mercury.statemachine.policy import DestinationPolicy, OnFailure, SourcePolicy
from mercury.telemetry import instruments as of
from mercury.telemetry.instruments import Instrument
from mercury.testing import Pair
from mercury.testing.pair import Node
from tests.alerts import read_now

METRICS = MetricsSettings(enabled=True, interval=0.0)
SETTINGS = Settings(metrics=METRICS, source=SourcePolicy(batch=1))
URL = "http://server/services/notes"


def notes(handle: Callable[[MessageContext, bytes], None] | None = None) -> Service:
    service = Service("notes")

    @service.operation("Note")
    def note(context: MessageContext, body: bytes) -> None:
        if handle is not None:
            handle(context, body)

    return service


def count(node: Node, instrument: Instrument, *labels: str) -> int:
    """The value of a counter, over all series that have these labels."""
    assert node.metrics is not None
    series = node.metrics.recorder.counters[instrument.name].read()
    return sum(value for found, value in series if set(labels) <= set(found))


def values(node: Node, instrument: Instrument, *labels: str) -> int:
    """The number of the values of a histogram."""
    assert node.metrics is not None
    series = node.metrics.recorder.histograms[instrument.name].read()
    return sum(sum(found.counts) for key, found in series if set(labels) <= set(key))


def gauge(node: Node, instrument: Instrument) -> dict[tuple[str, ...], float]:
    return dict(read_now(node).gauges()[instrument.name])


def send(pair: Pair, *texts: str) -> None:
    sender = pair.to()
    for text in texts:
        sender.send(f"<note>{text}</note>", operation="Note")


@pytest.mark.parametrize("batch", [1, 100])
def test_each_message_counts_once_on_its_way(batch: int) -> None:
    pair = Pair(notes(), settings=Settings(metrics=METRICS, source=SourcePolicy(batch=batch)))
    send(pair, "one", "two", "three")
    pair.run()
    for instrument in (of.SENT, of.TRANSMITTED, of.ACKNOWLEDGED):
        assert count(pair.client, instrument, URL) == 3
    assert count(pair.client, of.RETRANSMITTED) == 0
    assert count(pair.server, of.ACCEPTED, "notes") == count(pair.server, of.CONSUMED, "notes") == 3
    assert values(pair.server, of.PROCESS, "notes", "") == values(pair.server, of.DELIVERY_LATENCY, "notes") == 3
    assert values(pair.client, of.BATCH_MESSAGES, "transmit") == (3 if batch == 1 else 1)
    assert values(pair.client, of.ACKNOWLEDGEMENT_LATENCY, URL) == 3
    assert count(pair.client, of.COMMITS) > 0


def test_lost_message_is_retransmitted_and_a_repeated_one_is_a_duplicate() -> None:
    pair = Pair(notes(), settings=SETTINGS)
    pair.wire.lose("message *")
    send(pair, "one")
    pair.run()
    assert (count(pair.client, of.TRANSMITTED), count(pair.client, of.RETRANSMITTED)) == (1, 1)
    pair.wire.repeat("message *")
    send(pair, "two")
    pair.run()
    assert count(pair.server, of.DUPLICATES, "notes") == 1
    assert count(pair.server, of.CONSUMED) == 2


def test_work_that_is_rolled_back_is_not_counted() -> None:
    pair = Pair(notes(), settings=SETTINGS)
    with pytest.raises(RuntimeError), pair.client.transaction() as tx:
        pair.to().send("<note>one</note>", operation="Note", tx=tx)
        raise RuntimeError("the application changes its mind")
    assert count(pair.client, of.SENT) == 0
    send(pair, "two")
    pair.server.store.fail(2)
    pair.run()
    assert count(pair.server, of.ACCEPTED) == count(pair.server, of.CONSUMED) == 1


def test_handler_that_fails_is_counted_with_the_class_of_its_error() -> None:
    def fail(context: MessageContext, body: bytes) -> None:
        if context.attempt < 3:
            raise LookupError("no such customer")

    pair = Pair(notes(fail), settings=SETTINGS)
    send(pair, "one")
    pair.run()
    assert count(pair.server, of.HANDLER_FAILURES, "notes", "LookupError") == 2
    assert values(pair.server, of.PROCESS, "notes", "LookupError") == 2
    assert values(pair.server, of.PROCESS, "notes", "") == 1


def test_message_that_is_given_up_is_a_dead_letter_of_its_reason() -> None:
    def fail(context: MessageContext, body: bytes) -> None:
        raise LookupError("no such customer")

    policy = DestinationPolicy(on_failure=OnFailure.SKIP, max_attempts=2)
    settings = Settings(metrics=METRICS, source=SourcePolicy(batch=1), destination=policy)
    pair = Pair(notes(fail), settings=settings)
    send(pair, "one")
    pair.run()
    assert count(pair.server, of.DEAD_LETTERED, "inbound", "handler") == 1
    assert gauge(pair.server, of.DEAD_LETTERS) == {("inbound", "handler"): 1}


def test_waiting_messages_are_shown_with_the_age_of_the_oldest() -> None:
    pair = Pair(notes(), settings=SETTINGS)
    pair.server.kill()
    send(pair, "one")
    pair.advance(90)
    send(pair, "two")
    waiting = gauge(pair.client, of.WAITING_MESSAGES)
    assert sum(waiting.values()) == 2
    assert {destination for _, destination in waiting} == {URL}
    assert gauge(pair.client, of.OLDEST_UNACKNOWLEDGED) == {(): 90}
    pair.server.restart()
    pair.run()
    assert gauge(pair.client, of.WAITING_MESSAGES) == {}
    assert gauge(pair.client, of.OLDEST_UNACKNOWLEDGED) == {(): 0}


def test_metrics_that_are_not_enabled_cost_nothing() -> None:
    pair = Pair(notes(), settings=Settings(source=SourcePolicy(batch=1)))
    assert pair.client.metrics is None
    send(pair, "one")
    pair.run()
