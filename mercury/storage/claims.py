"""The right to work on a sequence, and the filter for work that a worker may take."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to work on one sequence. Commits made under it are conditional on the epoch."""

    resource: str
    owner: str
    epoch: int


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


#: The owner of a claim that suspends a sequence: this text and the operator's name. It holds until it is given back.
SUSPENDED = "suspended by "
#: A time after the end of every lease.
FOREVER = 1e12
