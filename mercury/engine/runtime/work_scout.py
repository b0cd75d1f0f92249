"""Finds work that no wake-up has announced, for the workers of all kinds by one query."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mercury.engine.exchange import Step
from mercury.storage.api import Topic


class WorkScout:
    """Wakes the workers when work becomes due by the time, or was left behind by another process.

    A process that has nothing to do asks the store once in ``poll`` seconds. The workers themselves poll far more
    rarely.

    :param work_due: returns when the earliest work of each kind is due.
    :param wake: wakes the worker of a kind.
    :param poll: the time between two queries, in seconds.
    """

    def __init__(
        self, work_due: Callable[[float], Mapping[Topic, float]], wake: Callable[[Topic], None], poll: float
    ) -> None:
        self._work_due = work_due
        self._wake = wake
        self._poll = poll
        self._known: dict[Topic, float] = {}
        self._next_query = 0.0

    def run_once(self, now: float) -> Step:
        """Query the store if it is time to, and wake the workers whose work is due."""
        if not self._next_query - self._poll <= now < self._next_query:  # or the clock was set back
            self._known = dict(self._work_due(now))
            self._next_query = now + self._poll
        for topic in [topic for topic, due in self._known.items() if due <= now]:
            del self._known[topic]
            self._wake(topic)
        return Step()

    def next_due(self) -> float | None:
        """When the next work is due, or the next query."""
        return min([self._next_query, *self._known.values()])
