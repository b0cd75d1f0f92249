"""The last error of each endpoint that Mercury posts to, logged once for each reason."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from dataclasses import dataclass, field

from mercury.engine.addresses import endpoint_of, server_of
from mercury.engine.log_limiter import LogLimiter

log = logging.getLogger("mercury.transport")

#: Seconds without a failure after which the next failure counts as new. A bad network fails often within this time.
REPEAT_INTERVAL = 60.0
#: The most endpoints whose failures are remembered. Peers name some of them (AcksTo): each one per sequence.
MAX_ENDPOINTS = 1000
#: The most reasons that are logged of one endpoint's failure, and the most failures that are logged of one server
#: within `REPEAT_INTERVAL`.
MAX_REASONS, MAX_LINES = 10, 20
#: What happens to the message that could not be sent; a part of the log line, see `EndpointErrors.failed`.
TRIED_AGAIN = "what is to be sent there is tried again"
REPEATED = "an answer is posted once, and the repetition of its request brings it again"


@dataclass(slots=True)
class _EndpointError:
    #: Reasons that were logged since the failure began.
    logged: set[str] = field(default_factory=set)
    #: Why the last exchange failed; ``None`` = it worked.
    reason: str | None = None
    last_failure: float = 0.0
    #: Only few exchanges are started with the endpoint.
    slows: bool = False
    #: The end of the failure was logged.
    over: bool = False


class EndpointErrors:
    """Endpoints whose exchanges fail. Thread-safe. Times are seconds.

    A WARNING is logged at the first failure and at each new reason, an INFO when the endpoint answers again. An
    endpoint that fails again within `REPEAT_INTERVAL` has the same failure: at most `MAX_REASONS` reasons of it are
    logged. Of one server, at most `MAX_LINES` failures are logged within `REPEAT_INTERVAL`. Failures that are not
    logged are remembered too.

    `MAX_ENDPOINTS` endpoints are known. Above it the one that failed longest ago is forgotten, one that works again
    before one that does not, and a WARNING says so. An exchange with a forgotten endpoint fails again, at the latest
    after the longest pause between two retransmissions, and is known again then; until then its failure is not shown,
    and it counts as an endpoint that works.
    """

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        #: By endpoint (`endpoint_of`), the one that failed longest ago first.
        self._by_endpoint: OrderedDict[str, _EndpointError] = OrderedDict()
        self._log_limiter = LogLimiter(MAX_LINES, REPEAT_INTERVAL)
        self._forgotten = LogLimiter(1, REPEAT_INTERVAL)

    def get(self, url: str) -> str | None:
        """Why the last exchange with an endpoint failed; ``None`` = it worked."""
        if not self._by_endpoint:
            return None
        with self._mutex:
            trouble = self._by_endpoint.get(endpoint_of(url))
            return trouble.reason if trouble is not None else None

    def slows(self, url: str) -> bool:
        """Whether only few exchanges with an endpoint are started until one works."""
        if not self._by_endpoint:  # the usual case, several times for each post
            return False
        with self._mutex:
            trouble = self._by_endpoint.get(endpoint_of(url))
            return trouble is not None and trouble.slows and trouble.reason is not None

    def failed_since(self, url: str, since: float) -> bool:
        """Whether an exchange with an endpoint failed at ``since`` or later, even if later exchanges worked."""
        with self._mutex:
            trouble = self._by_endpoint.get(endpoint_of(url))
            return trouble is not None and trouble.last_failure >= since

    def failed(self, url: str, reason: str, now: float, *, again: str = TRIED_AGAIN, slows: bool = True) -> None:
        """An exchange with an endpoint failed.

        :param url: the URL of the endpoint, or another name from `Outgoing.error_name`.
        :param reason: begins with ``url``.
        :param again: what happens to the message that could not be sent.
        :param slows: whether only few exchanges are started until one works.
        """
        with self._mutex:
            trouble = self._by_endpoint.get(endpoint_of(url))
            if trouble is None or (trouble.reason is None and now - trouble.last_failure > REPEAT_INTERVAL):
                trouble = self._by_endpoint[endpoint_of(url)] = _EndpointError()
            trouble.reason, trouble.last_failure, trouble.slows = reason, now, slows
            self._by_endpoint.move_to_end(endpoint_of(url))
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
        if not self._by_endpoint:
            return
        with self._mutex:
            trouble = self._by_endpoint.get(endpoint_of(url))
            if trouble is None:
                return
            if trouble.reason is None and now - trouble.last_failure > REPEAT_INTERVAL:
                del self._by_endpoint[endpoint_of(url)]
            trouble.reason = None
            notify = bool(trouble.logged) and not trouble.over
            trouble.over = trouble.over or notify
        if notify:
            log.info("%s: it works again", url, extra={"endpoint": url})

    def _make_room(self, now: float) -> str | None:
        """Forget one endpoint if there are too many. Returns its reason if a log line has to report this."""
        if len(self._by_endpoint) <= MAX_ENDPOINTS:
            return None
        works = (url for url, trouble in self._by_endpoint.items() if trouble.reason is None)
        forgotten = self._by_endpoint.pop(next(works, next(iter(self._by_endpoint))))
        return forgotten.reason if forgotten.reason is not None and self._forgotten.allow("", now) else None
