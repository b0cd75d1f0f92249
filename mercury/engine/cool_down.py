"""Cool-downs: work that failed is not retried immediately."""

from __future__ import annotations

from mercury.statemachine.retransmission import is_due
from mercury.storage.outages import PAUSES


class CoolDown:
    """Work that failed is not retried until a cool-down has passed, longer each time, so that the rest goes on.

    Thread-safe, provided that no two threads use the same name at the same time.
    """

    def __init__(self) -> None:
        #: By name: how often the work has failed, and the end of its cool-down.
        self._failed: dict[str, tuple[int, float]] = {}

    def add(self, name: str, now: float) -> None:
        """The work of this name failed."""
        failures = self._failed.get(name, (0, 0.0))[0] + 1
        self._failed[name] = (failures, now + PAUSES.delay(failures, 0.0))

    def waits(self, name: str, now: float) -> bool:
        """Whether the cool-down of this name has not passed yet."""
        failed = self._failed.get(name)
        return failed is not None and not is_due(failed[1], now, PAUSES.cap)

    @property
    def count(self) -> int:
        """The number of names whose work has failed since it last succeeded."""
        return len(self._failed)

    def has_failed(self, name: str) -> bool:
        """Whether the work of this name has failed since it last succeeded."""
        return name in self._failed

    def worked(self, name: str) -> None:
        """The work of this name succeeded."""
        self._failed.pop(name, None)


class RecentRefusals:
    """The last refusal of CreateSequence for lack of room. For a second, the store is not searched for room again.

    Thread-safe.
    """

    #: How long a refusal is remembered, in seconds.
    LASTS = 1.0

    def __init__(self) -> None:
        #: How many open sequences the refused peer had, and the time of the refusal.
        self._found: tuple[int, float] | None = None

    def remember(self, open_sequences: int, now: float) -> None:
        """A peer with this many open sequences was refused. Ignored while an earlier refusal is remembered."""
        if not self.holds(open_sequences, now):
            self._found = (open_sequences, now)

    def holds(self, open_sequences: int, now: float) -> bool:
        """Whether a peer with this many open sequences, or fewer, was refused in the last second.

        A peer with more sequences would be refused too.
        """
        found = self._found
        return found is not None and open_sequences >= found[0] and 0 <= now - found[1] < self.LASTS
