"""The alert rules about two-phase commits fire for a branch in doubt, and for a commit that is not finished."""

from __future__ import annotations

import time

from mercury.storage.xa.coordinator import Coordinator, Timing
from mercury.storage.xa.recovery import InDoubt
from mercury.telemetry.metrics import Metrics
from mercury.telemetry.prometheus import text
from mercury.telemetry.recorder import Recorder
from mercury.telemetry.store_gauges import StoreGauges
from mercury.testing import FakeClock
from tests.alerts import alerts

from .pausing import paused
from .places import Places


class Process:
    """The process of a coordinator."""

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator

    def running(self) -> bool:
        return True

    def in_doubt(self) -> InDoubt:
        return self._coordinator.recovery.in_doubt()


def seen(coordinator: Coordinator, later: float = 0.0) -> bytes:
    """The metrics of a process, so many seconds later."""
    clock = FakeClock(time.time() + later)
    gauges = StoreGauges(coordinator.store, "one", lease=30.0, interval=0.0, clock=clock, monotonic=clock)
    return text(Metrics(Recorder(10, clock), gauges, Process(coordinator), 10, clock))


def test_branch_that_is_not_decided_is_in_doubt(places: Places) -> None:
    with places.process() as coordinator, places.process(timing=Timing(lease=3600.0, grace=0.0)) as other:
        with paused(coordinator, "prepare") as stopped:
            other.recovery.run_once(other.clock())
            before = seen(other)
            assert not alerts("MercuryInDoubt", before, before)
            assert alerts("MercuryInDoubt", before, seen(other, 61)) == 1
            stopped.go_on()
        other.recovery.run_once(other.clock())
        assert not alerts("MercuryInDoubt", before, seen(other, 61))


def test_decided_commit_whose_process_hangs_is_not_finished(places: Places) -> None:
    with places.process() as coordinator, places.process() as other, paused(coordinator, "commit_decision") as stopped:
        before = seen(other)
        assert not alerts("MercuryCommitUnfinished", before, before)
        in_the_store = places.log is None
        assert alerts("MercuryCommitUnfinished", before, seen(other, 61)) == in_the_store
        stopped.go_on()
