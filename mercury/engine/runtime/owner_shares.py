"""The share of each peer in the exchanges of the sender pool, over all servers that its requests name."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Mapping

#: The most servers that posts of one peer may wait for.
WAITING_SERVERS = 64
#: All peers together use at most this part of the exchanges, one exchange each: the others are for this side.
ALL_PEERS = 3 / 4
#: A peer gets further exchanges only while all peers together use less than this part: the rest is for peers that have
#: none.
FURTHER_EXCHANGES = 1 / 2


class OwnerShares:
    """Counts, by owner (`Outgoing.owner`), the exchanges in use and the servers that posts wait for.

    A peer chooses the addresses of its responses. Without a limit by peer it could use every exchange, by naming as
    many servers. The exchanges of this side (an empty owner) are not limited. Not thread-safe.

    :param total: the weight of all exchanges.
    :param share: the weight of a peer's exchanges may be this many times the weight that is free for further exchanges
        of peers (`FURTHER_EXCHANGES`).
    :param most_trying: the most exchanges at failing endpoints for one owner, or for this side.
    """

    def __init__(self, total: int, share: int, most_trying: int) -> None:
        self._total, self._share, self._most_trying = total, share, most_trying
        self._used_by_peers = 0
        self._in_use: Counter[str] = Counter()
        self._trying: Counter[str] = Counter()
        #: By owner and by server: the number of waiting posts. The owner and the server served longest ago come first.
        self._waiting: OrderedDict[str, OrderedDict[str, int]] = OrderedDict()

    # --- exchanges -------------------------------------------------------------------------------------------------

    def has_room(self, owner: str, free: int) -> bool:
        """Whether an owner may have another exchange while ``free`` are free."""
        if not owner:
            return True
        used = self._in_use[owner]
        if not used:
            return self._used_by_peers < ALL_PEERS * self._total
        return used < self._share * min(free, FURTHER_EXCHANGES * self._total - self._used_by_peers)

    def may_try(self, owner: str) -> bool:
        """Whether an owner may have another exchange at a failing endpoint."""
        return self._trying[owner] < self._most_trying

    def take(self, owner: str, weight: int, *, failing: bool) -> None:
        """An exchange begins."""
        self._in_use[owner] += weight
        self._used_by_peers += weight if owner else 0
        self._trying[owner] += failing

    def release(self, owner: str, weight: int, *, failing: bool) -> None:
        """An exchange ends."""
        self._in_use[owner] -= weight
        self._used_by_peers -= weight if owner else 0
        self._trying[owner] -= failing
        if not self._in_use[owner]:
            del self._in_use[owner], self._trying[owner]

    # --- posts that wait -------------------------------------------------------------------------------------------

    @property
    def has_waiting(self) -> bool:
        """Whether any post waits."""
        return bool(self._waiting)

    def may_wait(self, owner: str, server: str) -> bool:
        """Whether another post of an owner may wait for a server."""
        waiting: Mapping[str, int] = self._waiting.get(owner, {}) if owner else {}
        return server in waiting or len(waiting) < WAITING_SERVERS

    def wait(self, owner: str, server: str) -> None:
        """A post waits for a server."""
        servers = self._waiting.setdefault(owner, OrderedDict())
        servers[server] = servers.get(server, 0) + 1

    def wait_no_longer(self, owner: str, server: str) -> None:
        """A post that waited for a server is taken or dropped: the owner and the server move to the end of the
        order."""
        servers = self._waiting[owner]
        servers[server] -= 1
        if servers[server]:
            servers.move_to_end(server)
        else:
            del servers[server]
        if servers:
            self._waiting.move_to_end(owner)
        else:
            del self._waiting[owner]

    def turns(self) -> list[tuple[str, list[str]]]:
        """The owners of waiting posts and their servers, in the order of their turns."""
        return [(owner, list(servers)) for owner, servers in self._waiting.items()]

    def clear(self) -> None:
        """Nothing waits any more."""
        self._waiting.clear()
