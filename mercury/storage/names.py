"""How keys and requests are named in a store."""

from __future__ import annotations

import hashlib
from functools import lru_cache


@lru_cache(maxsize=4096)
def key_digest(endpoint: str, name: str) -> str:
    """A short name of an internal key, always the same."""
    return hashlib.sha256(f"{endpoint}\0{name}".encode()).hexdigest()[:32]


def request_name(sequence: str, number: int) -> str:
    """By what the response to a request is found: the request's number in its sequence, which no other one has.

    Not by its MessageID: a peer chooses that, and may choose the same for any number of requests.
    """
    return f"{number} {sequence}"
