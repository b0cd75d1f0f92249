"""What failed a moment ago is not tried again at once."""

from __future__ import annotations

from mercury.statemachine.retransmission import is_due
from mercury.storage.outages import PAUSES


class CoolDown:
    """Work that failed is not retried until a cool-down has passed, longer each time, so that the rest goes on.

    Safe to be used by many threads, each of them for other names.
    """

    def __init__(self) -> None:
        #: How often it has failed, and until when it waits.
        self._failed: dict[str, tuple[int, float]] = {}

    def add(self, name: str, now: float) -> None:
        """It failed."""
        failures = self._failed.get(name, (0, 0.0))[0] + 1
        self._failed[name] = (failures, now + PAUSES.delay(failures, 0.0))

    def waits(self, name: str, now: float) -> bool:
        """Whether its cool-down has not passed."""
        failed = self._failed.get(name)
        return failed is not None and not is_due(failed[1], now, PAUSES.cap)

    def worked(self, name: str) -> None:
        """It did not fail."""
        self._failed.pop(name, None)


class RecentRefusals:
    """Peers whose sequences found no room a moment ago: the store is not searched again so soon.

    Safe to be used by many threads.
    """

    #: Seconds it is remembered.
    LASTS = 1.0

    def __init__(self) -> None:
        #: How many sequences it had open, and when that was.
        self._found: tuple[int, float] | None = None

    def remember(self, open_sequences: int, now: float) -> None:
        """There was no room for a peer with so many sequences; ignored while an earlier entry lasts."""
        if not self.holds(open_sequences, now):
            self._found = (open_sequences, now)

    def holds(self, open_sequences: int, now: float) -> bool:
        """Whether there was no room a moment ago for a peer with so many, or fewer: who has more finds none either."""
        found = self._found
        return found is not None and open_sequences >= found[0] and 0 <= now - found[1] < self.LASTS
