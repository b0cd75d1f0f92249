"""The last error of each endpoint that is posted to, logged once for each reason."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from dataclasses import dataclass, field

from mercury.engine.addresses import server_of

log = logging.getLogger("mercury.transport")

#: Seconds without a failure after which the next one counts as new: a bad network comes and goes many times in that.
REPEAT_INTERVAL = 60.0
#: Endpoints whose failures are known at once. Peers name some of them (AcksTo), each as many as it has sequences.
MAX_ENDPOINTS = 1000
#: Reasons of one endpoint's failures that are logged, and failures at one server that are logged within
#: `REPEAT_INTERVAL`.
MAX_REASONS, MAX_LINES = 10, 20
#: What becomes of what was to be sent: see `EndpointErrors.failed`.
TRIED_AGAIN = "what is to be sent there is tried again"
REPEATED = "an answer is posted once, and the repetition of its request brings it again"


class LogLimiter:
    """How many lines are logged of each of many things. Not safe to be used by several threads.

    :param most: in ``within`` seconds.
    """

    def __init__(self, most: int, within: float) -> None:
        self._most = most
        self._within = within
        #: Since when lines are counted, and how many there were; what was counted first comes first.
        self._counted: OrderedDict[str, tuple[float, int]] = OrderedDict()

    def allow(self, about: str, now: float) -> bool:
        """Whether a line may be logged; it counts then."""
        since, count = self._counted.get(about, (now, 0))
        if not since <= now < since + self._within:
            since, count = now, 0
        if count >= self._most:
            return False
        self._counted[about] = since, count + 1
        if len(self._counted) > MAX_ENDPOINTS:
            self._counted.popitem(last=False)
        return True

    def left(self, about: str) -> int:
        return self._most - self._counted.get(about, (0.0, 0))[1]


@dataclass(slots=True)
class _EndpointError:
    #: Reasons that were logged since it began.
    logged: set[str] = field(default_factory=set)
    #: Why the last exchange failed; ``None`` = it did not.
    reason: str | None = None
    last_failure: float = 0.0
    #: Few exchanges are to be begun.
    slows: bool = False
    #: It was logged that it is over.
    over: bool = False


class EndpointErrors:
    """Endpoints whose exchanges fail. Safe to be used by many threads. Times are seconds.

    A WARNING is logged at the first failure and at each new reason, an INFO when the endpoint answers again. What
    fails again within `REPEAT_INTERVAL` counts as the same failure: at most `MAX_REASONS` reasons of it are logged, and
    of one server at most `MAX_LINES` failures within `REPEAT_INTERVAL`. What is not logged is known all the same.

    `MAX_ENDPOINTS` endpoints are known. Above it the one that failed longest ago is forgotten, one that works again
    before one that does not, and a WARNING says so. An exchange with a forgotten endpoint fails again, at the latest
    after the longest pause between two retransmissions, and is known again then; until then its failure is not shown,
    and it counts as an endpoint that works.
    """

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        #: By endpoint, the one that failed longest ago first.
        self._by_endpoint: OrderedDict[str, _EndpointError] = OrderedDict()
        self._log_limiter = LogLimiter(MAX_LINES, REPEAT_INTERVAL)
        self._forgotten = LogLimiter(1, REPEAT_INTERVAL)

    def get(self, url: str) -> str | None:
        """Why the last exchange with an endpoint failed; ``None`` when it did not."""
        with self._mutex:
            trouble = self._by_endpoint.get(url)
            return trouble.reason if trouble is not None else None

    def slows(self, url: str) -> bool:
        """Whether few exchanges with an endpoint are to be begun until one works."""
        with self._mutex:
            trouble = self._by_endpoint.get(url)
            return trouble is not None and trouble.slows and trouble.reason is not None

    def failed_since(self, url: str, since: float) -> bool:
        """Whether an exchange with an endpoint failed at a time or later, whatever has worked meanwhile."""
        with self._mutex:
            trouble = self._by_endpoint.get(url)
            return trouble is not None and trouble.last_failure >= since

    def failed(self, url: str, reason: str, now: float, *, again: str = TRIED_AGAIN, slows: bool = True) -> None:
        """An exchange with an endpoint failed.

        :param url: of the endpoint, or another name that `Outgoing.error_name` has.
        :param reason: begins with it.
        :param again: what becomes of what was to be sent.
        :param slows: whether few exchanges are to be begun until one works.
        """
        with self._mutex:
            trouble = self._by_endpoint.get(url)
            if trouble is None or (trouble.reason is None and now - trouble.last_failure > REPEAT_INTERVAL):
                trouble = self._by_endpoint[url] = _EndpointError()
            trouble.reason, trouble.last_failure, trouble.slows = reason, now, slows
            self._by_endpoint.move_to_end(url)
            lost = self._make_room(now)
            server = server_of(url)
            new = (
                reason not in trouble.logged
                and len(trouble.logged) < MAX_REASONS
                and self._log_limiter.allow(server, now)
            )
            if new:
                trouble.logged.add(reason)
            last = new and not self._log_limiter.left(server)
        if lost is not None:
            log.warning("%s: not known until it fails again, because more than %d endpoints fail", lost, MAX_ENDPOINTS)
        if new:
            log.warning("%s; %s", reason, again, extra={"endpoint": url})
        if last:
            log.warning(
                "%s: no more failures are logged for up to %.0f s", server, REPEAT_INTERVAL, extra={"endpoint": url}
            )

    def worked(self, url: str, now: float) -> None:
        """An exchange with an endpoint worked."""
        with self._mutex:
            trouble = self._by_endpoint.get(url)
            if trouble is None:
                return
            if trouble.reason is None and now - trouble.last_failure > REPEAT_INTERVAL:
                del self._by_endpoint[url]
            trouble.reason = None
            notify = bool(trouble.logged) and not trouble.over
            trouble.over = trouble.over or notify
        if notify:
            log.info("%s: it works again", url, extra={"endpoint": url})

    def _make_room(self, now: float) -> str | None:
        """Forget one if there are too many; its reason, if it is to be logged that it is forgotten."""
        if len(self._by_endpoint) <= MAX_ENDPOINTS:
            return None
        works = (url for url, trouble in self._by_endpoint.items() if trouble.reason is None)
        forgotten = self._by_endpoint.pop(next(works, next(iter(self._by_endpoint))))
        return forgotten.reason if forgotten.reason is not None and self._forgotten.allow("", now) else None
