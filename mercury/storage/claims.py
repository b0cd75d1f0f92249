"""The right to work on a sequence, and who looks for work."""

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
    """Which work a worker looks for: unclaimed or its owner's, of its services."""

    #: Of its claims.
    owner: str
    #: What it hosts: several programs with services of their own may share a store. ``None`` = everything.
    services: frozenset[str] | None = None
    #: The peer whose message it gave to the application last: the peers that come after this one have their turn first.
    after: str = ""

    def hosts(self, service: str | None) -> bool:
        """Responses, which belong to no service, are for everybody who shares the store."""
        return service is None or self.services is None or service in self.services
