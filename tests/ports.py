"""Ports for tests that start something at a port that is known before, or start it there again."""

from __future__ import annotations

import random
import socket
from pathlib import Path

HOST = "127.0.0.1"
#: Where Linux says from which ports it gives one to a connection, and the first of them elsewhere.
EPHEMERAL, DEFAULT = Path("/proc/sys/net/ipv4/ip_local_port_range"), 32_768
LOWEST = 10_240


def free_port() -> int:
    """A port at which nothing listens, and that no connection is given.

    Any client may be given the port of a server that has gone, also one that tries to reach that server again; then
    nothing can listen there.

    :raises OSError: no such port is free.
    """
    first = first_of_connections()
    candidates = range(LOWEST, first)
    for candidate in random.SystemRandom().sample(candidates, len(candidates)):
        with socket.socket() as probe:
            try:
                probe.bind((HOST, candidate))
            except OSError:
                continue
            return candidate
    raise OSError(f"no port from {LOWEST} to {first - 1} is free")


def first_of_connections() -> int:
    """The lowest port that a connection is given."""
    return int(EPHEMERAL.read_text().split()[0]) if EPHEMERAL.exists() else DEFAULT
