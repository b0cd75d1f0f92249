"""Distinguishes clients: by network, and by the parts of a CreateSequence that its repetition has too."""

from __future__ import annotations

import hashlib
import ipaddress
from functools import lru_cache


@lru_cache(maxsize=4096)
def network_of(host: str) -> str:
    """The network that an IP address counts as: an IPv6 host can use any address of its /64 network.

    :param host: an IP address; any other text is returned as it is.
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
    """The key by which a repeated CreateSequence is recognised (RM-CS-13). If one part differs, the CreateSequence
    requests another sequence.

    MessageID and AcksTo do not tell two clients apart: a client may repeat MessageIDs, and AcksTo is often anonymous.
    """
    return hashlib.sha256("\0".join((message_id, acks_to, service or "", offered or "", sender)).encode()).hexdigest()
