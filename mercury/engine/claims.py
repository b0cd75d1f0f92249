"""The claims of this process on sequences."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from mercury.errors import NotActive
from mercury.storage.api import StorageManager
from mercury.storage.claims import Claim

#: What a resource is known by: the key that is sent under, or the identifier of the sequence that is delivered from.
Thing = TypeVar("Thing")


@dataclass(slots=True)
class _Lease:
    claim: Claim
    renew_at: float
    until: float


class ClaimKeeper:
    """Takes claims when they are first needed, and prolongs those that are in use.

    A late renewal is safe, because every commit under a claim is conditional on its epoch.

    :param owner: the name of this process: random, and another one at each start.
    :param lease: the duration of a claim, in seconds.
    :param monotonic: returns the time of a monotonic clock, in seconds.
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
        #: The number of leases above which expired ones are removed.
        self._most = 1024

    def take(self, resource: str, now: float) -> Claim | None:
        """Take the claim on ``resource``, or renew it if half of its lease is over; ``None`` = another owner has it."""
        current = self.current(resource, now)
        if current is not None:
            return current
        claim = self._store.claim(resource, self.owner, now, self._lease)
        self._keep([resource], [] if claim is None else [claim], now)
        return claim

    def take_all(self, resources: Mapping[Thing, str], now: float) -> dict[Thing, Claim]:
        """As `take` for each of these, with one query of the store. Returns the claims that this process has now.

        :param resources: by what the caller knows them by, as the result is.
        """
        names = resources.values()
        found = {name: claim for name in names if (claim := self.current(name, now)) is not None}
        asked = [name for name in names if name not in found]
        if asked:
            taken = self._store.claim_all(asked, self.owner, now, self._lease)
            self._keep(asked, taken, now)
            found |= {claim.resource: claim for claim in taken}
        return {thing: claim for thing, name in resources.items() if (claim := found.get(name)) is not None}

    def _keep(self, asked: Collection[str], taken: Collection[Claim], now: float) -> None:
        """Note the claims that were taken, of those that the store was asked for."""
        with self._mutex:
            for resource in asked:
                self._leases.pop(resource, None)
            for claim in taken:
                self._leases[claim.resource] = _Lease(claim, now + self._lease / 2, now + self._lease)
            if len(self._leases) > self._most:
                self._leases = {name: lease for name, lease in self._leases.items() if lease.until > now}
                self._most = max(1024, 2 * len(self._leases))

    def current(self, resource: str, now: float) -> Claim | None:
        """The claim on ``resource`` if this process has it and need not renew it yet. Never queries the store."""
        with self._mutex:
            lease = self._leases.get(resource)
        # A lease farther ahead than that is from before the clock was set back.
        if lease is None or not lease.renew_at - self._lease / 2 <= now < lease.renew_at:
            return None
        return lease.claim

    def last(self, resource: str) -> Claim | None:
        """The claim on ``resource`` that this process had last, which may be lost. Never queries the store."""
        with self._mutex:
            lease = self._leases.get(resource)
        return lease.claim if lease is not None else None

    @contextmanager
    def held(self, claim: Claim) -> Iterator[None]:
        """A context in which `prolong` renews the claim, for work that cannot be repeated if another process takes it.

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

        :raises StorageError: the store failed; the other claims are prolonged at the next call.
        """
        with self._mutex:
            held = sorted(self._held)
        for resource in held:
            self.take(resource, now)

    def run(self) -> Callable[[], bool]:
        """Begin a run of calls under a claim. The returned function returns whether the run has to commit now.

        When a claim is taken, at least half of its lease is left. The run ends when half of that is used, so only a
        call that takes a quarter of the lease or more can outlive the claim.
        """
        until = self.monotonic() + self._lease / 4
        return lambda: self.monotonic() >= until

    def lost(self, claim: Claim) -> None:
        """Forget a claim on which a commit failed; `take` queries the store again."""
        self.forget(claim.resource)

    def forget(self, resource: str) -> None:
        """Forget the claim on a resource, if there is one; `take` queries the store again."""
        with self._mutex:
            self._leases.pop(resource, None)

    def give_back(self, claim: Claim) -> None:
        """Release a claim, so that another process can have it at once.

        :raises StorageError: the store failed; the claim ends with its lease.
        """
        self.forget(claim.resource)
        self._store.release(claim)

    def release_all(self) -> None:
        """Release all claims, so that other processes do not have to wait for the end of the leases."""
        with self._mutex:
            claims = [lease.claim for lease in self._leases.values()]
            self._leases.clear()
        try:
            for claim in claims:
                self._store.release(claim)
        except NotActive:
            return  # the claims end by themselves; the active member's commits are conditional on other epochs
