"""Claims on sequences, kept for as long as this process works on them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from mercury.storage.api import StorageManager
from mercury.storage.claims import Claim


@dataclass(slots=True)
class _Lease:
    claim: Claim
    renew_at: float
    until: float


class ClaimKeeper:
    """Takes claims when they are first needed and prolongs those that are in use.

    Safety never rests on this: every commit made under a claim is conditional on its epoch.

    :param owner: names this process; never a host's name, and new at each start.
    :param lease: seconds.
    :param monotonic: seconds that only ever grow.
    """

    def __init__(
        self, store: StorageManager, owner: str, lease: float, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self.monotonic = monotonic
        self._store = store
        self.owner = owner
        self._lease = lease
        self._mutex = threading.Lock()
        self._leases: dict[str, _Lease] = {}
        #: Resources whose claims are prolonged while they are worked on.
        self._held: set[str] = set()
        #: How many may be held before expired ones are searched for.
        self._most = 1024

    def take(self, resource: str, now: float) -> Claim | None:
        """The claim on ``resource``; ``None`` while another owner has it."""
        with self._mutex:
            lease = self._leases.get(resource)
            # A time farther ahead than that was set before the clock was set back.
            if lease is not None and lease.renew_at - self._lease / 2 <= now < lease.renew_at:
                return lease.claim
        claim = self._store.claim(resource, self.owner, now, self._lease)
        with self._mutex:
            if claim is None:
                self._leases.pop(resource, None)
                return None
            self._leases[resource] = _Lease(claim, now + self._lease / 2, now + self._lease)
            if len(self._leases) > self._most:
                self._leases = {name: lease for name, lease in self._leases.items() if lease.until > now}
                self._most = max(1024, 2 * len(self._leases))
        return claim

    @contextmanager
    def held(self, claim: Claim) -> Iterator[None]:
        """Work that is given up when another takes the claim over: `prolong` keeps it meanwhile.

        One thread at a time holds a claim.
        """
        with self._mutex:
            self._held.add(claim.resource)
        try:
            yield
        finally:
            with self._mutex:
                self._held.discard(claim.resource)

    def prolong(self, now: float) -> None:
        """Prolong the claims that are held, each when half of its lease is over.

        :raises StorageError: the store failed; the rest is prolonged at the next call.
        """
        with self._mutex:
            held = sorted(self._held)
        for resource in held:
            self.take(resource, now)

    def run(self) -> Callable[[], bool]:
        """A run of calls begins under a claim. Returns what says whether it has to commit now.

        When a claim is taken, at least half of its lease is left; the run ends when half of that is used. So only a
        call that takes a quarter of the lease or more can outlive it.
        """
        until = self.monotonic() + self._lease / 4
        return lambda: self.monotonic() >= until

    def lost(self, claim: Claim) -> None:
        """A commit failed on this claim: take it from the store again next time."""
        with self._mutex:
            self._leases.pop(claim.resource, None)

    def release_all(self) -> None:
        """Give everything back, for an orderly end."""
        with self._mutex:
            claims = [lease.claim for lease in self._leases.values()]
            self._leases.clear()
        for claim in claims:
            self._store.release(claim)
