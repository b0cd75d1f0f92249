"""Removes rows whose retention time has passed, in small batches.

It does not remove sequences: the workers do that when their tombstones expire, with all their rows.
"""

from __future__ import annotations

from dataclasses import dataclass

from mercury.engine.exchange import Step
from mercury.statemachine.bounds import above, at_least
from mercury.storage.maintenance import RetentionStore

#: Seconds between two batches while there are more rows, and between a start and the first batch.
BATCH_PAUSE, FIRST_DELAY = 1.0, 60.0
#: Seconds between two searches for attachments that no row names, while there are attachments; and the most that one
#: search removes, because each may be large. The next search follows at once if there are more.
ATTACHMENTS_PAUSE, ATTACHMENTS_BATCH = 10.0, 16


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionSettings:
    """How long rows are retained. Times are seconds.

    :raises ConfigurationError: a number is out of range; the text begins with its name.
    """

    #: How long the correlation of a settled message is retained.
    kept: float = 30 * 86400.0
    #: How long the row of a claim without a holder is retained.
    claims: float = 600.0
    #: How long an entry of the audit is retained; ``None`` = for ever.
    audit: float | None = 400 * 86400.0
    #: The time between two removals.
    interval: float = 3600.0
    #: The most rows of a kind that one transaction removes.
    batch: int = 1000

    def __post_init__(self) -> None:
        at_least(0, kept=self.kept)
        if self.audit is not None:
            at_least(0, audit=self.audit)
        above(0, claims=self.claims, interval=self.interval)
        at_least(1, batch=self.batch)


class RetentionWorker:
    """Removes rows whose retention time has passed. Several processes may run it at once.

    :param started: seconds since the epoch.
    """

    def __init__(self, store: RetentionStore, settings: RetentionSettings, started: float) -> None:
        self._store = store
        self._settings = settings
        self._due = started + min(FIRST_DELAY, settings.interval)
        #: When attachments are searched next, if this process works with some.
        self._attachments_due = started

    def run_once(self, now: float) -> Step:
        """Remove one batch of each kind, if that is due.

        :raises StorageError: the store failed; the removal stays due.
        """
        removed = 0
        if now >= self._due or (now >= self._attachments_due and self._store.has_attachments):
            removed = self._store.remove_attachments(ATTACHMENTS_BATCH)
            self._attachments_due = now + (0.0 if removed >= ATTACHMENTS_BATCH else ATTACHMENTS_PAUSE)
        if now < self._due:
            return Step(progress=removed)
        settings = self._settings
        gone = self._store.sweep(
            kept_before=now - settings.kept,
            idle_before=now - settings.claims,
            limit=settings.batch,
            audit_before=0.0 if settings.audit is None else now - settings.audit,
        )
        # Set after the removal, so that it is repeated as soon as the store works again.
        self._due = now + (BATCH_PAUSE if gone >= settings.batch else settings.interval)
        return Step(progress=gone + removed)

    def next_due(self) -> float | None:
        """When the next removal is due, in seconds since the epoch."""
        return min(self._due, self._attachments_due) if self._store.has_attachments else self._due
