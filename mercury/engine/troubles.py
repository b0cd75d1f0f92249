"""What is wrong with the endpoints that are posted to: known, and told once for each reason."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass, field

log = logging.getLogger("mercury.transport")

#: Seconds without a failure after which a trouble is a new one: a bad network comes and goes many times in that.
CALM = 60.0


@dataclass(slots=True)
class _Trouble:
    #: Reasons that were logged since it began.
    told: set[str] = field(default_factory=set)
    #: Why the last exchange failed; ``None`` = it did not.
    reason: str | None = None
    last_failure: float = 0.0
    #: It was logged that it is over.
    over: bool = False


class Troubles:
    """Endpoints whose exchanges fail. Safe to be used by many threads. Times are seconds.

    A WARNING is logged at the first failure and at each new reason, an INFO when the endpoint answers again. What
    comes back within `CALM` is the same trouble.
    """

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._troubles: dict[str, _Trouble] = {}

    def get(self, url: str) -> str | None:
        """Why the last exchange with an endpoint failed; ``None`` when it did not."""
        with self._mutex:
            trouble = self._troubles.get(url)
            return trouble.reason if trouble is not None else None

    def failed_since(self, url: str, since: float) -> bool:
        """Whether an exchange with an endpoint failed at a time or later, whatever has worked meanwhile."""
        with self._mutex:
            trouble = self._troubles.get(url)
            return trouble is not None and trouble.last_failure >= since

    def failed(self, url: str, reason: str, now: float) -> None:
        """An exchange with an endpoint failed.

        :param reason: begins with the URL.
        """
        with self._mutex:
            trouble = self._troubles.get(url)
            if trouble is None or (trouble.reason is None and now - trouble.last_failure > CALM):
                trouble = self._troubles[url] = _Trouble()
            trouble.reason, trouble.last_failure = reason, now
            new = reason not in trouble.told
            trouble.told.add(reason)
        if new:
            log.warning("%s; what is to be sent there is tried again", reason, extra={"endpoint": url})

    def worked(self, url: str, now: float) -> None:
        """An exchange with an endpoint worked."""
        with self._mutex:
            trouble = self._troubles.get(url)
            if trouble is None:
                return
            if trouble.reason is None and now - trouble.last_failure > CALM:
                del self._troubles[url]
            trouble.reason = None
            tell, trouble.over = not trouble.over, True
        if tell:
            log.info("%s: it works again", url, extra={"endpoint": url})
