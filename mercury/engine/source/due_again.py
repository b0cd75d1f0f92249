"""When the keys that this process has worked on are due again."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from mercury.storage.records import SequenceKey

#: Seconds. What is due later is left to the searches for which `WorkScout` wakes the worker at its time: an ended
#: sequence is due after a day, and a process may end many each second.
SOON = 60.0


class DueAgain:
    """The keys that are due again soon, only by the time. Thread-safe. Times are seconds since the epoch."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._times: dict[SequenceKey, float] = {}

    def __len__(self) -> int:
        return len(self._times)

    def note(self, dues: Mapping[SequenceKey, float | None], now: float) -> None:
        """Note when keys are due next, after the commit that says so; ``None`` = by an event only."""
        with self._mutex:
            for key, due in dues.items():
                if due is not None and due <= now + SOON:
                    self._times[key] = due
                else:
                    self._times.pop(key, None)

    def first(self) -> float | None:
        """When the first key is due; ``None`` = none is due soon."""
        with self._mutex:
            return min(self._times.values(), default=None)

    def found(self, now: float) -> None:
        """Forget the keys that are due now: a search has found them, or finds them next."""
        with self._mutex:
            if any(due <= now for due in self._times.values()):
                self._times = {key: due for key, due in self._times.items() if due > now}
