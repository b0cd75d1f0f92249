"""Limits on rates: messages a second to an endpoint, and calls of handlers a second of a service.

Each process counts its own. What a limit holds back stays due, and is worked on when the limit lets it pass. Meanwhile
it takes no thread and no exchange from others.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

from mercury.errors import ConfigurationError
from mercury.statemachine.bounds import above
from mercury.statemachine.token_bucket import TokenBucket
from mercury.storage.records import OutboundMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class RateSettings:
    """Limits on rates, in messages a second of one process.

    :raises ConfigurationError: an entry has not the form, a rate is not above 0, or two entries are for the same.
    """

    #: Messages to endpoints, each entry ``URL=RATE``. All endpoints at that URL or below it share the rate; the longest
    #: URL that fits counts.
    endpoints: tuple[str, ...] = ()
    #: Messages that the handlers of a service get, each entry ``SERVICE=RATE``.
    services: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        read_rates("endpoints", self.endpoints)
        read_rates("services", self.services)


def read_rates(name: str, entries: Sequence[str]) -> dict[str, float]:
    """The rates of entries ``WHAT=RATE``.

    :param name: of the setting, for errors.
    """
    found: dict[str, float] = {}
    for entry in entries:
        what, _, text = entry.rpartition("=")
        try:
            rate = float(text)
        except ValueError:
            what, rate = "", 0.0
        if not what.strip():
            raise ConfigurationError(f"{name}: {entry!r} is not of the form WHAT=RATE")
        above(0, **{name: rate})
        if what in found:
            raise ConfigurationError(f"{name}: there are two entries for {what}")
        found[what.strip()] = rate
    return found


class Rates:
    """The limits of one process, with what has passed. Thread-safe."""

    def __init__(self, settings: RateSettings) -> None:
        self._mutex = threading.Lock()
        endpoints = read_rates("endpoints", settings.endpoints)
        self._prefixes = sorted(endpoints, key=len, reverse=True)
        self._rates = {("endpoint", url): rate for url, rate in endpoints.items()}
        self._rates |= {("service", name): rate for name, rate in read_rates("services", settings.services).items()}
        #: The buckets that were used; each is full at its first use.
        self._buckets: dict[tuple[str, str], TokenBucket] = {}

    def sendable(self, endpoint: str, due: list[OutboundMessage], now: float) -> list[OutboundMessage]:
        """Those of the due messages of a sequence that may be sent now. The others are due when more may be sent.

        A message that is sent again is never held back, because the destination may have it; it counts.
        """
        bucket = self._bucket_of(endpoint, now) if due else None
        if bucket is None:
            return due
        with self._mutex:
            again = sum(row.attempts > 0 for row in due)
            room = max(0, bucket.available(now) - again)
            passed = [row for row in due if row.attempts]
            new = [row for row in due if not row.attempts]
            bucket.spend(again + len(new[:room]), now)
            ready = bucket.ready_at(now) if len(new) > room else now
        for row in new[room:]:
            row.due = ready
        return [*passed, *new[:room]]

    def callable(self, service: str | None, now: float) -> int | None:
        """How many messages the handlers of a service may get now; ``None`` = there is no limit."""
        with self._mutex:
            bucket = self._bucket("service", service or "", now)
            return None if bucket is None else bucket.available(now)

    def called(self, service: str | None, count: int, now: float) -> None:
        """Note that the handlers of a service get messages."""
        with self._mutex:
            bucket = self._bucket("service", service or "", now)
            if bucket is not None:
                bucket.spend(count, now)

    def waiting(self, now: float) -> dict[str, float]:
        """The services whose handlers get nothing now, and when they do again."""
        with self._mutex:
            used = [(name, bucket) for (kind, name), bucket in self._buckets.items() if kind == "service"]
            return {name: bucket.ready_at(now) for name, bucket in used if not bucket.available(now)}

    def _bucket_of(self, endpoint: str, now: float) -> TokenBucket | None:
        for prefix in self._prefixes:
            if endpoint == prefix or endpoint.startswith(prefix if prefix.endswith("/") else prefix + "/"):
                with self._mutex:
                    return self._bucket("endpoint", prefix, now)
        return None

    def _bucket(self, kind: str, name: str, now: float) -> TokenBucket | None:
        if (rate := self._rates.get((kind, name))) is None:
            return None
        bucket = self._buckets.get((kind, name))
        if bucket is None:
            bucket = self._buckets[kind, name] = TokenBucket(rate, now)
        return bucket
