"""The right to work on a sequence, and the filter for work that a worker may take."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to work on one sequence. Commits made under it are conditional on the epoch."""

    resource: str
    owner: str
    epoch: int


class ClaimStore(Protocol):
    """The claims of a store, and the condition of every change that a process makes."""

    def claim(self, resource: str, owner: str, now: float, lease: float) -> Claim | None:
        """Take the claim on a sequence for ``lease`` seconds, or prolong it; ``None`` = another owner has it."""

    def claim_all(self, resources: Collection[str], owner: str, now: float, lease: float) -> list[Claim]:
        """As `claim` for each of these. Returns those that are taken, in any order."""

    def release(self, claim: Claim) -> None:
        """Release a claim. Does nothing if the claim is lost already."""

    def guard_all(self, claim: Claim | None) -> None:
        """From now on let this process write only while ``claim`` holds; ``None`` = without a condition.

        Every transaction that begins afterwards, one that joins the application's included, and every other change of
        a store raises `NotActive` once the claim is lost, and changes nothing. Only the claim on the same resource is
        taken and released regardless of it, and the process notes that it runs (`NodeRegistry`). A transaction keeps
        the condition that it began under.
        """


@dataclass(frozen=True, slots=True)
class WorkFilter:
    """Which work a worker may take: work of its services that is unclaimed, or claimed by its owner."""

    #: The owner of the worker's claims.
    owner: str
    #: The services of this process: several programs with different services may share a store. ``None`` = all.
    services: frozenset[str] | None = None
    #: The peer that was served last (its message was delivered, or its responses were sent): the peers after it, in the
    #: order of names, are served first.
    after: str = ""

    def hosts(self, service: str | None) -> bool:
        """Whether this process has the service. Responses belong to no service: any process of the store may take
        them."""
        return service is None or self.services is None or service in self.services


#: The claim of the one member that serves, where the setting ``role`` is ``active-standby``.
ACTIVE_MEMBER = "active member"
#: A claim on it that never holds: no epoch is 0.
NEVER_ACTIVE = Claim(ACTIVE_MEMBER, "", 0)

#: Why a process may not write.
INACTIVE = "this process is not the active member of its store, and writes nothing: another member serves"

#: The owner of a claim that suspends a sequence: this text and the operator's name. It holds until it is given back.
SUSPENDED = "suspended by "
#: A time after the end of every lease.
FOREVER = 1e12
