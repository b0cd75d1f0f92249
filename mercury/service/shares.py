"""Bytes that peers make the process hold: how many there may be, and whose make room when there are too many."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

#: Bytes of each body or answer that count for nobody: small messages are taken whatever the large ones use.
FREE = 64 * 1024
#: What part of the limit a share has at most that may use all of it; larger ones leave a quarter to these.
SMALL, KEPT = 64, 4
#: A share of more than this part of the limit is nobody's by right.
HUGE = 16
#: Seconds in which a transfer may begin fast whatever follows: buffers take the first bytes at once.
BEGINNING = 1.0


@dataclass(slots=True, eq=False)
class Share:
    """What one body or answer takes."""

    #: Whom it counts for (`network_of`).
    network: str
    #: The event loop's time when it began.
    begun: float
    #: Ends it at once, so that others have room; ``None`` = it cannot be ended.
    cut: Callable[[], None] | None = None
    #: Bytes of an answer that its peer has not taken yet.
    unsent: Callable[[], int] | None = None
    #: Bytes that count now.
    held: int = 0
    #: It has been ended for others.
    lost: bool = False

    def speed(self, now: float) -> float:
        """Bytes per second that have come or gone."""
        left = self.unsent() if self.unsent is not None else 0
        return (self.held - left) / max(now - self.begun, BEGINNING)


class Shares:
    """All of them. Used in the event loop's thread only.

    When there is no room, the network that has most makes some, as long as it keeps as much as the other one gets. If
    there is none, the slowest of the huge shares does, if it is larger than what the other network has with its own
    then. What is large leaves room for what is small. So one network alone may have nearly everything, a few that have
    one large share each keep the small ones of others not out, and what is not huge stays if it is its network's only
    one.

    :param limit: bytes.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._small, self._huge, self._most_large = limit // SMALL, limit // HUGE, limit - limit // KEPT
        #: All that counts, and of it the shares that are not small.
        self._counted = self._large = 0
        self._networks: dict[str, int] = {}
        #: In the order in which they began to count.
        self._shares: dict[Share, None] = {}

    def may_have(self, network: str, size: int) -> bool:
        """Whether a network can have so many bytes more; nobody makes room yet."""
        least = self._networks.get(network, 0) + size
        return not (self._is_full(0, size) or self._is_crowded(0, size)) or any(
            held > least for other, held in self._networks.items() if other != network
        )

    def grow(self, share: Share, size: int, now: float) -> bool:
        """Make it count so many bytes, and others make room for it; ``False`` = nobody does, and it stays as it was."""
        more = size - share.held
        while (crowded := self._is_crowded(share.held, size)) or self._is_full(share.held, size):
            slowest = self._slowest(self._networks.get(share.network, 0) + more, self._small if crowded else 0, now)
            if slowest is None or slowest.cut is None:
                return False
            self.drop(slowest)
            slowest.lost = True
            slowest.cut()
        self._count(share, size)
        self._shares[share] = None
        return True

    def drop(self, share: Share) -> None:
        """It is needed no more; one that does not count is ignored."""
        if share not in self._shares:
            return
        del self._shares[share]
        held = share.held
        self._count(share, 0)
        share.held = held
        if not self._networks[share.network]:
            del self._networks[share.network]

    def _count(self, share: Share, size: int) -> None:
        more = size - share.held
        self._counted += more
        self._large += self._of_large(size) - self._of_large(share.held)
        self._networks[share.network] = self._networks.get(share.network, 0) + more
        share.held = size

    def _of_large(self, size: int) -> int:
        """The bytes of a share that count as those of a large one."""
        return size if size > self._small else 0

    def _is_full(self, held: int, size: int) -> bool:
        """Whether there is no room for a share of this size that has some of it already."""
        return self._counted + size - held > self.limit

    def _is_crowded(self, held: int, size: int) -> bool:
        """Whether it is large, and would take with other large ones what is for small ones; a single one may."""
        others = self._large - self._of_large(held)
        return size > self._small and others > 0 and others + size > self._most_large

    def _slowest(self, least: int, above: int, now: float) -> Share | None:
        """Which one makes room for a network that has so many bytes then, of the shares above a size.

        It is the slowest one of the network that has most; or else of the huge ones.
        """
        able: dict[Share, tuple[int, int, float]] = {}
        for each in self._shares:
            of_network = self._networks[each.network]
            if each.cut is None or each.held <= above:
                continue
            if of_network - each.held >= least:
                able[each] = (0, -of_network, each.speed(now))
            elif each.held > max(self._huge, least):
                able[each] = (1, 0, each.speed(now))
        return min(able, key=able.__getitem__, default=None)
