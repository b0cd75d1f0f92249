"""The metrics and traces of a `Mercury`, made of its parts."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from mercury.engine.metrics_settings import MetricsSettings
from mercury.engine.observers import Observers
from mercury.engine.settings import EngineSettings
from mercury.engine.traces_settings import TracesSettings
from mercury.storage.api import StorageManager
from mercury.telemetry.metrics import Metrics, ProcessSource
from mercury.telemetry.recorder import KINDS, Recorder
from mercury.telemetry.store_gauges import StoreGauges

if TYPE_CHECKING:
    from mercury.telemetry.tracing import Traces


def metrics_of(
    store: StorageManager,
    owner: str,
    observers: Observers,
    process: ProcessSource,
    settings: MetricsSettings,
    engine: EngineSettings,
    clock: Callable[[], float],
    monotonic: Callable[[], float] = time.monotonic,
) -> Metrics:
    """The metrics of a process.

    :param owner: the name of this process in its claim to read the store's gauges.
    :param clock: seconds since the epoch.
    :param monotonic: seconds of a monotonic clock.
    """
    recorder = Recorder(settings.destinations, clock, monotonic)
    observers.subscribe(recorder.observe, *KINDS)
    store.count_commits(recorder.committed)
    gauges = StoreGauges(store, owner, lease=engine.lease, interval=settings.interval, clock=clock, monotonic=monotonic)
    return Metrics(recorder, gauges, process, settings.destinations, clock)


def traces_of(settings: TracesSettings, most: int) -> Traces | None:
    """The traces of a process; ``None`` = they are switched off, or the API of OpenTelemetry is not installed.

    :param most: the limit on the endpoints, and on the services, in names of spans.
    """
    if not settings.enabled:
        return None
    try:
        from mercury.telemetry.tracing import Traces
    except ImportError:
        return None
    return Traces(most)
