"""How many requests leave in one batch, if the responses come on the connection of the batch.

The exchange of a batch ends when all its responses exist, or a while after the last one that does. So a batch suits
requests that are answered quickly, or their responses would wait for each other. How quickly they are answered shows
only in the answers to batches.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

from mercury.bounded import BoundedDict
from mercury.storage.records import SequenceKey

#: Seconds after which it is tried again whether more requests are answered together.
REMEMBERED = 60.0
#: If none was answered, this many times fewer leave together.
SMALLER = 8
#: The most keys that are remembered.
MOST_KEYS = 1024


@dataclass(frozen=True, slots=True)
class _Limit:
    requests: int
    #: Seconds since the epoch.
    until: float


class AnsweredTogether:
    """What the answers to batches of requests have shown, in this process. Thread-safe.

    A key of which nothing is known has no limit. Where fewer requests were answered than had left together, no more
    leave together for `REMEMBERED` seconds.
    """

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._limits: BoundedDict[SequenceKey, _Limit] = BoundedDict(MOST_KEYS)

    def most(self, key: SequenceKey, now: float) -> int | None:
        """The most requests of a batch; ``None`` = as many as one may have.

        :param now: seconds since the epoch.
        """
        with self._mutex:
            limit = self._limits.get(key)
            # Nor after the clock was set back.
            if limit is None or not 0 < limit.until - now <= REMEMBERED:
                return None
            return limit.requests

    def answered(self, key: SequenceKey, requests: int, responses: int, now: float) -> None:
        """Note the answer to requests that have left together.

        :param requests: how many they were.
        :param responses: how many responses the answer has. None may be due to a gap before the requests, so they are
            not taken for slow at once.
        """
        if responses >= requests:
            return
        with self._mutex:
            self._limits[key] = _Limit(max(1, responses or requests // SMALLER), now + REMEMBERED)
