"""Bytes that peers make the process hold: how many there may be, and whose make room when there are too many."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

#: Bytes of each body or answer that count for nobody: small messages are taken whatever the large ones use.
FREE = 64 * 1024


@dataclass(slots=True, eq=False)
class Share:
    """What one body or answer takes."""

    #: Whom it counts for (`network_of`).
    network: str
    #: The event loop's time when it began.
    begun: float
    #: Ends it at once, so that others have room; ``None`` = it cannot be ended.
    cut: Callable[[], None] | None = None
    #: Bytes that count now.
    held: int = 0
    #: It has been ended for others.
    lost: bool = False


class Shares:
    """All of them. Used in the event loop's thread only.

    When there is no room, the network that has most makes some, as long as it keeps as much as the other one gets: one
    network alone may have everything, none keeps another one out, and what is the only one of its network stays.

    :param limit: bytes.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._counted = 0
        self._networks: dict[str, int] = {}
        #: In the order in which they began to count.
        self._shares: dict[Share, None] = {}

    def may_have(self, network: str, size: int) -> bool:
        """Whether a network can have so many bytes more; nobody makes room yet."""
        least = self._networks.get(network, 0) + size
        return self._counted + size <= self.limit or any(
            held > least for other, held in self._networks.items() if other != network
        )

    def grow(self, share: Share, size: int, now: float) -> bool:
        """Make it count so many bytes, and others make room for it; ``False`` = nobody does, and it stays as it was."""
        more = size - share.held
        while self._counted + more > self.limit:
            slowest = self._slowest(share.network, more, now)
            if slowest is None or slowest.cut is None:
                return False
            self.drop(slowest)
            slowest.lost = True
            slowest.cut()
        share.held = size
        self._counted += more
        self._networks[share.network] = self._networks.get(share.network, 0) + more
        self._shares[share] = None
        return True

    def drop(self, share: Share) -> None:
        """It is needed no more; one that does not count is ignored."""
        if share not in self._shares:
            return
        del self._shares[share]
        self._counted -= share.held
        self._networks[share.network] -= share.held
        if not self._networks[share.network]:
            del self._networks[share.network]

    def _slowest(self, network: str, more: int, now: float) -> Share | None:
        """Which one makes room: of the network that has most the one that came slowest."""
        its = self._networks.get(network, 0)
        able = [
            each
            for each in self._shares
            if each.cut is not None and self._networks[each.network] - each.held >= its + more
        ]
        return min(
            able,
            key=lambda each: (-self._networks[each.network], each.held / (now - each.begun + 0.001)),
            default=None,
        )
