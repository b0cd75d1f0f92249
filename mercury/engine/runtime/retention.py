"""Removing rows that retention is over for, in small batches.

Sequences are not its business: the workers remove them when their tombstones end, with everything that is theirs.
"""

from __future__ import annotations

from dataclasses import dataclass

from mercury.engine.exchange import Step
from mercury.statemachine.bounds import above, at_least
from mercury.storage.maintenance import RetentionStore

#: Seconds between two batches while there is more, and after a start before the first.
BATCH_PAUSE, FIRST_DELAY = 1.0, 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionSettings:
    """How long what is over is kept. Times are seconds.

    :raises ConfigurationError: a number is out of range; the text begins with its name.
    """

    #: How long the correlation of a settled message is remembered.
    kept: float = 30 * 86400.0
    #: How long a claim is remembered that nobody holds.
    claims: float = 600.0
    #: Seconds between two removals.
    interval: float = 3600.0
    #: How many of a kind are removed in one transaction.
    batch: int = 1000

    def __post_init__(self) -> None:
        at_least(0, kept=self.kept)
        above(0, claims=self.claims, interval=self.interval)
        at_least(1, batch=self.batch)


class RetentionWorker:
    """Removes what is over. Several processes may do it at once.

    :param started: seconds since the epoch.
    """

    def __init__(self, store: RetentionStore, settings: RetentionSettings, started: float) -> None:
        self._store = store
        self._settings = settings
        self._due = started + min(FIRST_DELAY, settings.interval)

    def run_once(self, now: float) -> Step:
        """Remove one batch of each kind, if it is time.

        :raises StorageError: the store failed; it is still time.
        """
        if now < self._due:
            return Step()
        settings = self._settings
        gone = self._store.sweep(
            kept_before=now - settings.kept, idle_before=now - settings.claims, limit=settings.batch
        )
        # Only now: when the store was away, it is tried again as soon as it is back.
        self._due = now + (BATCH_PAUSE if gone >= settings.batch else settings.interval)
        return Step(progress=gone)

    def next_due(self) -> float | None:
        """When `run_once` has something to do."""
        return self._due
