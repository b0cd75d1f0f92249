"""The names of keys, requests and MakeConnection addresses in a store."""

from __future__ import annotations

import hashlib
from functools import lru_cache


@lru_cache(maxsize=4096)
def key_digest(endpoint: str, name: str) -> str:
    """A short, stable name of an internal key."""
    return hashlib.sha256(f"{endpoint}\0{name}".encode()).hexdigest()[:32]


def request_name(sequence: str, number: int) -> str:
    """The name by which the response to a request is found: the request's sequence and number, which are unique.

    The MessageID is not used: a peer chooses it, and may repeat it in any number of requests.
    """
    return f"{number} {sequence}"


@lru_cache(maxsize=4096)
def fetch_name(address: str, identity: str | None) -> str:
    """The name by which a MakeConnection finds messages: made of the address and the identity of its client."""
    return hashlib.sha256(f"{address}\0{identity or ''}".encode()).hexdigest()[:32]
