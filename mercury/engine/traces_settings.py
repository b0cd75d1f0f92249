"""The settings of traces."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TracesSettings:
    """The traces of a process."""

    #: Send the trace context of the current span with each message, and make spans if the SDK of OpenTelemetry is
    #: configured. Without the package ``opentelemetry-api`` nothing is sent or made.
    enabled: bool = True
