"""Reads the gauges of the store: seldom, and in one of the processes that share the store."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass

from mercury.errors import StorageError
from mercury.storage.api import StorageManager
from mercury.storage.claims import Claim
from mercury.storage.gauges import READER, Gauges

log = logging.getLogger("mercury.metrics")

#: The pause after a read is at least so many times its duration: then the queries take at most 2 % of the time.
PAUSES = 50


@dataclass(frozen=True, slots=True)
class Observed:
    """What this process knows of the store."""

    #: ``None`` = another process reads the gauges, or the store has failed.
    gauges: Gauges | None
    #: Whether the store has answered.
    up: bool


class StoreGauges:
    """The gauges of the store, read for an exporter when the last ones are too old. Thread-safe.

    :param owner: the name of this process in claims.
    :param lease: seconds that the claim to read lasts.
    :param interval: seconds between two reads at least.
    :param clock: seconds since the epoch.
    :param monotonic: seconds of a monotonic clock.
    """

    def __init__(
        self,
        store: StorageManager,
        owner: str,
        *,
        lease: float,
        interval: float,
        clock: Callable[[], float],
        monotonic: Callable[[], float],
    ) -> None:
        self._store, self._owner, self._lease, self._interval = store, owner, lease, interval
        self._clock, self._monotonic = clock, monotonic
        self._mutex = threading.Lock()
        self._claim: Claim | None = None
        self._known = Observed(None, up=False)
        self._next = float("-inf")
        self._logged = False

    def read(self) -> Observed:
        """The gauges. Queries the store unless a read is recent; callers that come meanwhile wait for it."""
        with self._mutex:
            began = self._monotonic()
            if began >= self._next:
                self._known = self._query()
                ended = self._monotonic()
                self._next = ended + max(self._interval, PAUSES * (ended - began))
            return self._known

    def _query(self) -> Observed:
        try:
            now = self._clock()
            self._claim = self._store.claim(READER, self._owner, now, self._lease)
            gauges = self._store.gauges(now) if self._claim is not None else None
        except StorageError as error:
            if not self._logged:
                log.warning("the gauges of the store cannot be read: %s", error)
            self._logged = True
            return Observed(None, up=False)
        self._logged = False
        return Observed(gauges, up=True)

    def stop(self) -> None:
        """Release the claim, so that another process can read at once."""
        with self._mutex:
            claim, self._claim, self._next = self._claim, None, float("inf")
            self._known = Observed(None, up=self._known.up)
        if claim is not None:
            try:
                self._store.release(claim)
            except StorageError as error:
                log.info("the claim to read the gauges of the store is not released: %s", error)
