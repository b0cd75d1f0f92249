"""The settings of metrics."""

from __future__ import annotations

from dataclasses import dataclass

from mercury.statemachine.bounds import at_least


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsSettings:
    """The metrics of a process.

    :raises ConfigurationError: a number is out of range; the text begins with its name.
    """

    #: Count and measure, serve ``/metrics`` for Prometheus, and export by OpenTelemetry if its SDK is configured.
    enabled: bool = False
    #: Seconds between two reads of the store's gauges, at least. A read that takes long makes the pause longer.
    interval: float = 5.0
    #: The most endpoints, and the most services, that metrics show by name; the rest is ``other``.
    destinations: int = 50

    def __post_init__(self) -> None:
        at_least(0, interval=self.interval)
        at_least(1, destinations=self.destinations)
