"""What is wrong with the endpoints that are posted to: known, and told once for each reason."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from dataclasses import dataclass, field

from mercury.engine.addresses import server_of

log = logging.getLogger("mercury.transport")

#: Seconds without a failure after which a trouble is a new one: a bad network comes and goes many times in that.
CALM = 60.0
#: Endpoints whose troubles are known at once. Peers name some of them (AcksTo), each as many as it has sequences.
KNOWN = 1000
#: Reasons of one trouble that are logged, and failures of the endpoints of one server that are logged within `CALM`.
REASONS, LINES = 10, 20
#: What becomes of what was to be sent: see `Troubles.failed`.
TRIED_AGAIN = "what is to be sent there is tried again"
REPEATED = "an answer is posted once, and the repetition of its request brings it again"


class Lines:
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
        if len(self._counted) > KNOWN:
            self._counted.popitem(last=False)
        return True

    def left(self, about: str) -> int:
        return self._most - self._counted.get(about, (0.0, 0))[1]


@dataclass(slots=True)
class _Trouble:
    #: Reasons that were logged since it began.
    told: set[str] = field(default_factory=set)
    #: Why the last exchange failed; ``None`` = it did not.
    reason: str | None = None
    last_failure: float = 0.0
    #: Few exchanges are to be begun.
    slows: bool = False
    #: It was logged that it is over.
    over: bool = False


class Troubles:
    """Endpoints whose exchanges fail. Safe to be used by many threads. Times are seconds.

    A WARNING is logged at the first failure and at each new reason, an INFO when the endpoint answers again. What
    comes back within `CALM` is the same trouble. Of one trouble `REASONS` are logged, of one server `LINES` failures
    within `CALM`; what is not logged is known all the same.

    `KNOWN` endpoints are known. Above it the one that failed longest ago is forgotten, one that works again before one
    that does not, and a WARNING says so. Whatever still sends there fails again, at the latest after the longest pause
    between two retransmissions, and is known again then; until then its trouble is not shown, and it counts as an
    endpoint that works.
    """

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        #: By endpoint, the one that failed longest ago first.
        self._troubles: OrderedDict[str, _Trouble] = OrderedDict()
        self._lines = Lines(LINES, CALM)
        self._forgotten = Lines(1, CALM)

    def get(self, url: str) -> str | None:
        """Why the last exchange with an endpoint failed; ``None`` when it did not."""
        with self._mutex:
            trouble = self._troubles.get(url)
            return trouble.reason if trouble is not None else None

    def slows(self, url: str) -> bool:
        """Whether few exchanges with an endpoint are to be begun until one works."""
        with self._mutex:
            trouble = self._troubles.get(url)
            return trouble is not None and trouble.slows and trouble.reason is not None

    def failed_since(self, url: str, since: float) -> bool:
        """Whether an exchange with an endpoint failed at a time or later, whatever has worked meanwhile."""
        with self._mutex:
            trouble = self._troubles.get(url)
            return trouble is not None and trouble.last_failure >= since

    def failed(self, url: str, reason: str, now: float, *, again: str = TRIED_AGAIN, slows: bool = True) -> None:
        """An exchange with an endpoint failed.

        :param url: of the endpoint, or another name that `Outgoing.known_as` has.
        :param reason: begins with it.
        :param again: what becomes of what was to be sent.
        :param slows: whether few exchanges are to be begun until one works.
        """
        with self._mutex:
            trouble = self._troubles.get(url)
            if trouble is None or (trouble.reason is None and now - trouble.last_failure > CALM):
                trouble = self._troubles[url] = _Trouble()
            trouble.reason, trouble.last_failure, trouble.slows = reason, now, slows
            self._troubles.move_to_end(url)
            lost = self._make_room(now)
            server = server_of(url)
            new = reason not in trouble.told and len(trouble.told) < REASONS and self._lines.allow(server, now)
            if new:
                trouble.told.add(reason)
            last = new and not self._lines.left(server)
        if lost is not None:
            log.warning("%s: not known until it fails again, because more than %d endpoints fail", lost, KNOWN)
        if new:
            log.warning("%s; %s", reason, again, extra={"endpoint": url})
        if last:
            log.warning("%s: no more failures are logged for up to %.0f s", server, CALM, extra={"endpoint": url})

    def worked(self, url: str, now: float) -> None:
        """An exchange with an endpoint worked."""
        with self._mutex:
            trouble = self._troubles.get(url)
            if trouble is None:
                return
            if trouble.reason is None and now - trouble.last_failure > CALM:
                del self._troubles[url]
            trouble.reason = None
            tell = bool(trouble.told) and not trouble.over
            trouble.over = trouble.over or tell
        if tell:
            log.info("%s: it works again", url, extra={"endpoint": url})

    def _make_room(self, now: float) -> str | None:
        """Forget one if there are too many; its reason, if it is to be logged that it is forgotten."""
        if len(self._troubles) <= KNOWN:
            return None
        works = (url for url, trouble in self._troubles.items() if trouble.reason is None)
        forgotten = self._troubles.pop(next(works, next(iter(self._troubles))))
        return forgotten.reason if forgotten.reason is not None and self._forgotten.allow("", now) else None
