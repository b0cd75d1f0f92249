"""Who calls: for whom a network address counts, and by what the repetition of a CreateSequence is known."""

from __future__ import annotations

import hashlib
import ipaddress
from functools import lru_cache


def network_of(host: str) -> str:
    """What an IP address counts for: an IPv6 host has a whole /64 network at its disposal.

    :param host: anything else than an IP address counts for itself.
    """
    if ":" not in host:
        return host
    try:
        address = ipaddress.IPv6Address(host.partition("%")[0])
    except ValueError:
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.IPv6Network((address, 64), strict=False))


@lru_cache(maxsize=4096)
def create_key(message_id: str, acks_to: str, service: str | None, offered: str | None, sender: str) -> str:
    """By what a repeated CreateSequence is known (RM-CS-13): all of these agree, or it asks for another sequence.

    MessageID and AcksTo alone do not tell two clients apart: both may be chosen badly, and AcksTo is often anonymous.
    """
    return hashlib.sha256("\0".join((message_id, acks_to, service or "", offered or "", sender)).encode()).hexdigest()
