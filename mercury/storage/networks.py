"""Whose a network address is: what one host may use counts as one."""

from __future__ import annotations

import ipaddress


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
