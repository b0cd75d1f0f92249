"""Prometheus and OpenTelemetry get the same metrics, those of the table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from opentelemetry.metrics import NoOpMeterProvider
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from mercury.engine.events import DeadLettered
from mercury.statemachine.effects import Certainty
from mercury.storage.letters import Direction
from mercury.storage.memory import MemoryStore
from mercury.storage.xa.recovery import InDoubt, InDoubtBranch
from mercury.telemetry import instruments as of
from mercury.telemetry.instruments import INSTRUMENTS, Kind
from mercury.telemetry.metrics import Metrics
from mercury.telemetry.otel import export
from mercury.telemetry.prometheus import MercuryCollector, text
from mercury.telemetry.recorder import Recorder
from mercury.telemetry.store_gauges import StoreGauges
from mercury.testing import FakeClock
from mercury.testing.contract.builders import letter, row

ENDPOINT = "http://peer.example/orders"


class FakeProcess:
    def running(self) -> bool:
        return True

    def in_doubt(self) -> InDoubt | None:
        return InDoubt(branches=(InDoubtBranch(gid="g", resource="app", since=FakeClock().now - 60, why="away"),))


def metrics() -> Metrics:
    clock, store = FakeClock(), MemoryStore()
    with store.transaction() as tx:
        tx.rms.append(row("m", created_at=clock.now - 7))
        tx.dead_letters.add([letter("l")])
    gauges = StoreGauges(store, "one", lease=30.0, interval=5.0, clock=clock, monotonic=clock)
    return Metrics(Recorder(10, clock, clock), gauges, FakeProcess(), 10, clock)


def report_everything(recorder: Recorder) -> None:
    """Give each counter and histogram at least one value."""
    recorder.sent(ENDPOINT)
    recorder.transmitted(ENDPOINT, "s", 2, 2, again=False)
    recorder.exchanged(ENDPOINT, recorder.call_begins(), "503")
    recorder.accepted(["orders"])
    recorder.call_ended(recorder.call_begins(), "orders", 3, None)
    recorder.delivered("orders", [FakeClock().now])
    recorder.committed(4)
    given_up = DeadLettered(
        at=0.0,
        direction=Direction.OUTBOUND,
        endpoint=ENDPOINT,
        key="k",
        reason="given up after 3 transmissions",
        certainty=Certainty.UNKNOWN,
        letters=(letter("l"),),
    )
    recorder.observe(given_up)


def samples(shown: str) -> dict[tuple[str, frozenset[str]], float]:
    """The values by name and the values of the labels."""
    return {
        (sample.name, frozenset(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(shown)
        for sample in family.samples
    }


def test_every_instrument_is_a_family_with_its_description() -> None:
    families = {each.name: each for each in text_string_to_metric_families(text(metrics()).decode())}
    assert list(families) == [each.family for each in INSTRUMENTS]
    for each in INSTRUMENTS:
        assert families[each.family].documentation == each.description
        assert families[each.family].type == each.kind.value


def test_series_have_the_names_and_labels_of_the_table() -> None:
    found = metrics()
    report_everything(found.recorder)
    seen = set()
    for family in text_string_to_metric_families(text(found).decode()):
        (instrument,) = (each for each in INSTRUMENTS if each.family == family.name)
        for sample in family.samples:
            assert sample.name in instrument.series
            labels = [label for label in sample.labels if label != "le"]
            assert sorted(labels) == sorted(attribute.label for attribute in instrument.attributes)
            seen.add(instrument.name)
    gauges = {each.name for each in INSTRUMENTS if each.kind is Kind.GAUGE}
    assert gauges <= seen


def test_histogram_is_cumulated_and_ends_with_all_values() -> None:
    found = metrics()
    for messages in (1, 1, 3, 5000):
        found.recorder.accepted(["orders"] * messages)
    shown = samples(text(found).decode())
    bounds = ("1.0", "2.0", "5.0", "1000.0", "+Inf")
    counts = [shown["mercury_batch_messages_bucket", frozenset({"accept", bound})] for bound in bounds]
    assert counts == [2, 2, 3, 3, 4]
    assert shown["mercury_batch_messages_count", frozenset({"accept"})] == 4
    assert shown["mercury_batch_messages_sum", frozenset({"accept"})] == 5005


def test_gauges_of_the_store_and_of_recovery_are_shown() -> None:
    shown = samples(text(metrics()).decode())
    assert shown["mercury_oldest_unacknowledged_age_seconds", frozenset()] == 7
    assert shown["mercury_messages_waiting", frozenset({"transmission", ENDPOINT})] == 1
    assert shown["mercury_dead_letters", frozenset({"outbound", "handler"})] == 1
    assert shown["mercury_xa_in_doubt", frozenset()] == 1
    assert shown["mercury_xa_in_doubt_age_seconds", frozenset()] == 60


def test_gauges_of_the_store_are_left_out_in_the_process_that_does_not_read_them() -> None:
    clock, store = FakeClock(), MemoryStore()
    assert store.claim("metrics", "another", clock.now, 30)
    gauges = StoreGauges(store, "one", lease=30.0, interval=5.0, clock=clock, monotonic=clock)
    shown = samples(text(Metrics(Recorder(10, clock), gauges, FakeProcess(), 10, clock)).decode())
    of_store = {each.family for each in INSTRUMENTS if each.of_store}
    assert {name for name, _ in shown} & of_store == set()
    assert shown["mercury_store_observer", frozenset()] == 0
    assert shown["mercury_store_up", frozenset()] == 1


def test_collector_can_be_in_a_registry_of_the_application() -> None:
    registry = CollectorRegistry()
    registry.register(MercuryCollector(metrics()))
    assert registry.get_sample_value("mercury_oldest_unacknowledged_age_seconds") == 7


# --- OpenTelemetry ---------------------------------------------------------------------------------------------------


def exported(found: Metrics, report: Any = report_everything) -> Mapping[str, Any]:
    reader = InMemoryMetricReader()
    provider = MeterProvider(metric_readers=[reader])
    try:
        assert export(found, provider)
        report(found.recorder)
        data = reader.get_metrics_data()
    finally:
        provider.shutdown()
    assert data is not None
    (resource,) = data.resource_metrics
    (scope,) = resource.scope_metrics
    assert scope.scope.name == "mercury"
    return {each.name: each for each in scope.metrics}


def test_sdk_gets_the_instruments_of_the_table_with_their_units() -> None:
    found = exported(metrics())
    by_name = {each.name: each for each in INSTRUMENTS}
    assert set(found) <= set(by_name)
    assert {each.name for each in INSTRUMENTS if each.kind is Kind.GAUGE} <= set(found)
    for name, each in found.items():
        assert (each.unit, each.description) == (by_name[name].unit, by_name[name].description)


def test_sdk_gets_the_values_that_prometheus_gets() -> None:
    both = metrics()
    found = exported(both)
    shown = samples(text(both).decode())
    (sent,) = found["messaging.client.sent.messages"].data.data_points
    labels = frozenset((sent.attributes or {}).values())
    assert sent.value == shown["messaging_client_sent_messages_total", labels] == 1
    (point,) = found["messaging.process.duration"].data.data_points
    assert point.count == 3
    assert dict(point.attributes) == {
        "messaging.system": "mercury",
        "messaging.operation.name": "deliver",
        "messaging.destination.name": "orders",
    }
    assert list(point.explicit_bounds) == list(of.SECONDS)
    (age,) = found["mercury.oldest.unacknowledged.age"].data.data_points
    assert age.value == 7


def test_failed_exchange_has_its_status_as_error_type() -> None:
    (point,) = exported(metrics())["messaging.client.operation.duration"].data.data_points
    assert point.attributes["error.type"] == "503"


@pytest.mark.parametrize("provider", [None, NoOpMeterProvider()], ids=["none is set", "one that does nothing"])
def test_without_an_sdk_nothing_is_exported(provider: Any) -> None:
    found = metrics()
    assert not export(found, provider)
    assert found.recorder.on_value is None
