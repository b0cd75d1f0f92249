"""Looks up the SRV records of a destination (RFC 2782)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from mercury.engine.members import MOST
from mercury.errors import TransportError
from mercury.statemachine.failover import SrvName

#: Seconds that a look-up takes at most.
LIFETIME = 5.0
_HOST = re.compile(r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*")


def look_up(srv: SrvName, chance: Callable[[], float]) -> tuple[str, ...]:
    """The addresses that a name has now, in the order in which they are tried; a name that does not exist has none.

    :param chance: returns random numbers, 0 <= n < 1.
    :raises TransportError: no name server answers in time, or it refuses.
    :raises ValueError: there are too many records.
    """
    import dns.exception
    import dns.resolver

    try:
        resolver = dns.resolver.Resolver(configure=srv.nameserver is None)
        if srv.nameserver is not None:
            host, _, port = srv.nameserver.rpartition(":")
            resolver.nameservers, resolver.port = [host.strip("[]")], int(port)
        answer = resolver.resolve(f"{srv.name}.", "SRV", lifetime=LIFETIME)
    except (dns.resolver.NXDOMAIN, dns.resolver.NoAnswer):
        return ()
    except (dns.exception.DNSException, OSError, ValueError) as error:
        raise TransportError(f"{srv.name}: {error}") from error
    records = [
        (each.priority, each.weight, f"{each.target.to_text(omit_final_dot=True)}", each.port) for each in answer
    ]
    if len(records) > MOST:
        raise ValueError(f"it has more than {MOST} records")
    usable = [each for each in records if _HOST.fullmatch(each[2]) and each[3]]
    return tuple(
        dict.fromkeys(f"{srv.scheme}://{host.lower()}:{port}{srv.path}" for _, _, host, port in ordered(usable, chance))
    )


def ordered(
    records: Iterable[tuple[int, int, str, int]], chance: Callable[[], float]
) -> list[tuple[int, int, str, int]]:
    """Records (priority, weight, host, port) in the order in which they are tried: the lowest priority first, and
    among equal ones by chance, each in proportion to its weight."""
    left = sorted(records)
    found = []
    while left:
        equal = [each for each in left if each[0] == left[0][0]]
        point = chance() * sum(each[1] for each in equal)
        chosen = equal[0]
        for each in equal:
            if each[1]:
                chosen = each
                point -= each[1]
                if point < 0:
                    break
        left.remove(chosen)
        found.append(chosen)
    return found
