"""Detects that the clock was set back, and then brings forward due times that are too far ahead."""

from __future__ import annotations

import logging
from collections.abc import Callable

from mercury.engine.context import EngineContext
from mercury.engine.destination.worker import LONGEST
from mercury.engine.exchange import Step
from mercury.storage.maintenance import Pauses

log = logging.getLogger("mercury.engine.clock")

#: The smallest step back, in seconds, that is detected; smaller ones delay nothing for long.
STEP = 1.0
#: Seconds between two searches for work that a process with a wrong clock has postponed.
INTERVAL = 60.0


class ClockWorker:
    """Compares the clock with a monotonic one at each turn.

    It brings due times in the store forward at the start (the clock may have been set back while no process ran), when
    the clock was set back, and at an interval, because another process may have a clock that is ahead.

    :param monotonic: returns the time of a monotonic clock, in seconds.
    """

    def __init__(self, context: EngineContext, monotonic: Callable[[], float]) -> None:
        self._context = context
        self._monotonic = monotonic
        #: The time of the clock when the monotonic one is 0; ``None`` = not compared yet.
        self._offset: float | None = None
        self._next = 0.0

    def run_once(self, now: float) -> Step:
        """Check whether the clock was set back, and if so bring due times forward; prolong the held claims."""
        self._context.claims.prolong(now)
        steady = self._monotonic()
        back = 0.0 if self._offset is None else self._offset - (now - steady)
        first = self._offset is None
        if not first and back < STEP and steady < self._next:
            self._offset = now - steady
            return Step()
        found = self._context.store.advance_overdue(now, self._pauses())
        # Set after the store's work, so that an outage of the store repeats it.
        self._offset, self._next = now - steady, steady + INTERVAL
        if back >= STEP:
            log.warning("the clock was set back by %.0f s; %d due times are brought forward", back, found)
        elif found:
            log.warning("%d due times were set by a clock that is ahead; they are brought forward", found)
        return Step()

    def next_due(self) -> float | None:
        """``None``: the pool's polls are the only trigger, because no event reports that a clock was set."""
        return None

    def _pauses(self) -> Pauses:
        application = self._context.application
        policies = [application.policy(service) for service in (None, *(application.services() or ()))]
        return Pauses(
            lease=self._context.settings.lease,
            redelivery=max(policy.redelivery.cap for policy in policies),
            acknowledgement=max(LONGEST, *(policy.acknowledgement_interval for policy in policies)),
        )
