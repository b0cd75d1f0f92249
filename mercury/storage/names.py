"""The names of keys, requests and MakeConnection addresses in a store."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Final

#: What the name of a claim begins with; the key's digest follows, or the sequence's identifier.
SOURCE_CLAIM: Final = "rms "
DESTINATION_CLAIM: Final = "invoker "


@lru_cache(maxsize=4096)
def key_digest(endpoint: str, name: str) -> str:
    """A short, stable name of an internal key."""
    return hashlib.sha256(f"{endpoint}\0{name}".encode()).hexdigest()[:32]


def source_claim(digest: str) -> str:
    """The name of the claim of the process that sends under a key, of which ``digest`` is the `key_digest`."""
    return SOURCE_CLAIM + digest


def destination_claim(sequence: str) -> str:
    """The name of the claim of the process that delivers the messages of a sequence."""
    return DESTINATION_CLAIM + sequence


def request_name(sequence: str, number: int) -> str:
    """The name by which the response to a request is found: the request's sequence and number, which are unique.

    The MessageID is not used: a peer chooses it, and may repeat it in any number of requests.
    """
    return f"{number} {sequence}"


@lru_cache(maxsize=4096)
def fetch_name(address: str, identity: str | None) -> str:
    """The name by which a MakeConnection finds messages: made of the address and the identity of its client."""
    return hashlib.sha256(f"{address}\0{identity or ''}".encode()).hexdigest()[:32]
