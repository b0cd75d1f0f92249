"""Which store each destination has, as its answers say (decision 73)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerStore:
    """The store of one destination. Times are seconds since the epoch."""

    #: A URL, or the list of addresses of one destination.
    endpoint: str
    #: The id that its answers state.
    store: str
    since: float
    #: The last other store that has answered in its place, where, and when; ``None`` = none has.
    refused: str | None = None
    refused_at: float | None = None
    refused_address: str | None = None


class PeerStores(Protocol):
    """The stores of the destinations that state one. Each method sees what its transaction has changed."""

    def get(self, endpoint: str) -> PeerStore | None:
        """What is known of a destination; ``None`` = nothing."""

    def agree(self, endpoint: str, store: str, now: float) -> str:
        """Note that a destination has this store, unless one is known. Returns the store that it has.

        Of two transactions that do it at once, one waits for the other, or its commit raises `Conflict`.
        """

    def refuse(self, endpoint: str, store: str, address: str, now: float) -> bool:
        """Note that another store has answered for a destination. Returns whether that is news: another store or
        another address than the last time. Nothing is noted of a destination of which nothing is known.
        """

    def answers(self, endpoint: str, address: str) -> None:
        """Note that the store of the destination answers at this address: a refusal there is over."""

    def replace(self, endpoint: str, store: str, now: float) -> None:
        """Note that a known destination has another store from now on, and no refusal."""

    def refused(self, limit: int) -> Sequence[PeerStore]:
        """The destinations for which another store has answered, the last one first."""


def digest_of(endpoint: str) -> str:
    """The name of a destination's row: an endpoint may be longer than an index allows."""
    return hashlib.sha256(endpoint.encode()).hexdigest()
