"""Limits repeated log lines, so that peers cannot fill the log."""

from __future__ import annotations

from mercury.bounded import BoundedDict

#: The interval in seconds of log lines that are logged once at a time.
LOG_INTERVAL = 60.0
#: The most subjects whose lines are counted.
MAX_SUBJECTS = 1000


class LogLimiter:
    """Limits the log lines about each subject. Not thread-safe.

    :param most: lines about one subject in ``within`` seconds.
    """

    def __init__(self, most: int, within: float) -> None:
        self._most = most
        self._within = within
        #: By subject: the start of its count and the number of lines.
        self._counted: BoundedDict[str, tuple[float, int]] = BoundedDict(MAX_SUBJECTS)

    def allow(self, about: str, now: float) -> bool:
        """Whether a line may be logged; if so, it is counted."""
        since, count = self._counted.get(about, (now, 0))
        if not since <= now < since + self._within:
            since, count = now, 0
        if count >= self._most:
            return False
        self._counted[about] = since, count + 1
        return True

    def left(self, about: str) -> int:
        return self._most - self._counted.get(about, (0.0, 0))[1]
