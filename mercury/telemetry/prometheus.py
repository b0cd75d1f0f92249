"""The text of ``/metrics``, by the client library of Prometheus."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from mercury.telemetry.instruments import INSTRUMENTS, Instrument, Kind
from mercury.telemetry.metrics import Metrics, Sample
from mercury.telemetry.values import Distribution, Labels

#: The Content-Type of `text`.
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class MercuryCollector(Collector):
    """The metrics of a process as a collector of Prometheus' client library, for a registry of the application's."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def describe(self) -> Iterator[Metric]:
        """The families without values: a registry asks for them without a query of the store."""
        return (_family(each) for each in INSTRUMENTS)

    def collect(self) -> Iterator[Metric]:
        """All families. May query the store, and so may block."""
        return families(self._metrics.collect())


def text(metrics: Metrics) -> bytes:
    """The text of ``/metrics``. May query the store, and so may block."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(MercuryCollector(metrics))
    return generate_latest(registry)


def families(samples: Iterable[Sample]) -> Iterator[Metric]:
    """The families of samples; one for each instrument, also without a sample."""
    found: dict[str, Metric] = {each.name: _family(each) for each in INSTRUMENTS}
    for sample in samples:
        family, value = found[sample.instrument.name], sample.value
        if isinstance(value, Distribution):
            assert isinstance(family, HistogramMetricFamily)
            family.add_metric(sample.labels, _buckets(sample.instrument, value), value.sum)
        else:
            _add(family, sample.labels, value)
    yield from found.values()


def _add(family: Metric, labels: Labels, value: float) -> None:
    assert isinstance(family, CounterMetricFamily | GaugeMetricFamily)
    family.add_metric(labels, value)


def _buckets(instrument: Instrument, found: Distribution) -> Sequence[tuple[str, float]]:
    bounds = [*(str(bound) for bound in instrument.buckets), "+Inf"]
    return list(zip(bounds, accumulate(found.counts), strict=True))


def _family(instrument: Instrument) -> Metric:
    labels = [each.label for each in instrument.attributes]
    match instrument.kind:
        case Kind.COUNTER:
            return CounterMetricFamily(instrument.family, instrument.description, labels=labels)
        case Kind.HISTOGRAM:
            return HistogramMetricFamily(instrument.family, instrument.description, labels=labels)
        case Kind.GAUGE:
            return GaugeMetricFamily(instrument.family, instrument.description, labels=labels)
