"""Exports the metrics by OpenTelemetry's API. Without its package, or without an SDK, nothing is exported."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from mercury.telemetry.instruments import INSTRUMENTS, Instrument, Kind
from mercury.telemetry.metrics import Metrics
from mercury.telemetry.values import Labels

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Meter, Observation

#: The name of the meter and of the tracer.
SCOPE = "mercury"
#: The most recordings of one value: a histogram of OpenTelemetry takes one value at a time.
MOST_RECORDINGS = 1000


def export(metrics: Metrics, provider: Any = None) -> bool:
    """Export the metrics by the provider that the process has configured. Returns whether there is one.

    Counters and gauges are read when the SDK collects them. The values of histograms are recorded one by one after
    each commit, in the thread that has committed: the API has no other way.

    :param provider: a ``MeterProvider``; by default the global one, which must be set before this call.
    """
    try:
        from opentelemetry import metrics as api
    except ImportError:
        return False
    provider = api.get_meter_provider() if provider is None else provider
    if type(provider).__module__.partition(".")[0] == "opentelemetry" and not _is_sdk(provider):
        return False  # the API's own, which does nothing
    meter = provider.get_meter(SCOPE)
    histograms: dict[str, Callable[[float, Mapping[str, str]], None]] = {}
    for instrument in INSTRUMENTS:
        about = {"name": instrument.name, "unit": instrument.unit, "description": instrument.description}
        match instrument.kind:
            case Kind.COUNTER:
                meter.create_observable_counter(callbacks=[_of_counter(metrics, instrument)], **about)
            case Kind.GAUGE:
                meter.create_observable_gauge(callbacks=[_of_gauge(metrics, instrument)], **about)
            case Kind.HISTOGRAM:
                histograms[instrument.name] = _histogram(meter, instrument, about)

    def record(instrument: Instrument, value: float, labels: Labels, many: int) -> None:
        attributes = _attributes(instrument, labels)
        for _ in range(min(many, MOST_RECORDINGS)):
            histograms[instrument.name](value, attributes)

    metrics.recorder.on_value = record
    return True


def _is_sdk(provider: object) -> bool:
    return type(provider).__module__.startswith("opentelemetry.sdk")


def _histogram(
    meter: Meter, instrument: Instrument, about: Mapping[str, str]
) -> Callable[[float, Mapping[str, str]], None]:
    bounds = list(instrument.buckets)
    return meter.create_histogram(explicit_bucket_boundaries_advisory=bounds, **about).record


def _of_counter(metrics: Metrics, instrument: Instrument) -> Callable[[CallbackOptions], Iterable[Observation]]:
    def observe(_: CallbackOptions) -> Iterable[Observation]:
        return _observations(instrument, metrics.recorder.counters[instrument.name].read())

    return observe


def _of_gauge(metrics: Metrics, instrument: Instrument) -> Callable[[CallbackOptions], Iterable[Observation]]:
    def observe(_: CallbackOptions) -> Iterable[Observation]:
        return _observations(instrument, metrics.gauges().get(instrument.name, {}).items())

    return observe


def _observations(instrument: Instrument, series: Iterable[tuple[Labels, float]]) -> Iterable[Observation]:
    from opentelemetry.metrics import Observation

    return [Observation(value, _attributes(instrument, labels)) for labels, value in series]


def _attributes(instrument: Instrument, labels: Labels) -> dict[str, str]:
    """The attributes of a series; one without a value is left out."""
    named = zip(instrument.attributes, labels, strict=True)
    return {attribute.value: value for attribute, value in named if value}
