"""Multicast in the loopback interface, if this machine passes it on there."""

from __future__ import annotations

import socket

LOOPBACK = "127.0.0.1"
GROUP = "239.255.42.98"


def missing() -> str | None:
    """Why there is no multicast; ``None`` = there is."""
    try:
        with (
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as member,
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender,
        ):
            member.bind(("", 0))
            member.settimeout(2)
            joined = socket.inet_aton(GROUP) + socket.inet_aton(LOOPBACK)
            member.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, joined)
            sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(LOOPBACK))
            sender.sendto(b"?", (GROUP, member.getsockname()[1]))
            member.recv(1)
    except OSError as error:
        return f"the loopback interface passes no multicast on: {error}"
    return None


def free_multicast() -> str:
    """A multicast group at a port that is free."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind((LOOPBACK, 0))
        return f"239.255.42.99:{probe.getsockname()[1]}"
