"""A limit for bytes that the process buffers for peers, shared fairly between networks.

When the limit is reached, a slow transfer of the network that uses the most is cut for a new one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

#: The first bytes of each body or answer, which do not count: small messages are accepted however full the limit is.
FREE = 64 * 1024
#: A share is small up to limit / SMALL. Large shares together leave limit / RESERVED to small ones.
SMALL, RESERVED = 64, 4
#: A share is huge above limit / HUGE: it may be cut even if it is its network's only one.
HUGE = 16
#: The shortest time, in seconds, over which a speed is measured: socket buffers take the first bytes at once.
BEGINNING = 1.0


@dataclass(slots=True, eq=False)
class Share:
    """The counted bytes of one body or answer."""

    #: The network that it counts for (`network_of`).
    network: str
    #: The event loop's time when the transfer began.
    begun: float
    #: Ends the transfer at once, so that others have room; ``None`` = it cannot be cut.
    cut: Callable[[], None] | None = None
    #: Returns the bytes of an answer that its peer has not taken yet; ``None`` = this is a body.
    unsent: Callable[[], int] | None = None
    #: Bytes that count now.
    held: int = 0
    #: The transfer was cut for another one.
    lost: bool = False

    def speed(self, now: float) -> float:
        """Bytes per second that have been received or sent."""
        left = self.unsent() if self.unsent is not None else 0
        return (self.held - left) / max(now - self.begun, BEGINNING)


class Shares:
    """All shares of one limit. Used in the event loop's thread only.

    When a share cannot grow within the limit, another one is cut:

    1. the slowest share of the network that has the most bytes, if that network still has as many bytes afterwards as
       the growing one's network gets;
    2. otherwise the slowest huge share, if it is larger than what the growing one's network gets.

    Large shares together leave a part of the limit to small ones. So one network alone may use nearly the whole limit,
    a few networks with one large share each do not keep out small ones, and a share that is not huge is never cut if
    it is its network's only one.

    :param limit: bytes.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._small, self._huge, self._most_large = limit // SMALL, limit // HUGE, limit - limit // RESERVED
        #: Bytes of all shares, and of the shares that are not small.
        self._counted = self._large = 0
        #: Bytes of each network's shares.
        self._networks: dict[str, int] = {}
        #: In the order in which they began to count.
        self._shares: dict[Share, None] = {}

    def may_have(self, network: str, size: int) -> bool:
        """Whether ``size`` more bytes of a network could count, if necessary by a cut; nothing is cut here."""
        least = self._networks.get(network, 0) + size
        return not (self._is_full(0, size) or self._is_crowded(0, size)) or any(
            held > least for other, held in self._networks.items() if other != network
        )

    def grow(self, share: Share, size: int, now: float) -> bool:
        """Count ``size`` bytes for a share, and cut others if necessary.

        :returns: ``False`` = the limit is reached and no other share can be cut; the share counts as before.
        """
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
        """Stop counting a share; does nothing if it does not count."""
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
        """``size``, if a share of this size is large; otherwise 0."""
        return size if size > self._small else 0

    def _is_full(self, held: int, size: int) -> bool:
        """Whether the limit does not allow a share that counts ``held`` bytes to count ``size``."""
        return self._counted + size - held > self.limit

    def _is_crowded(self, held: int, size: int) -> bool:
        """Whether a share of this size is large and exceeds, with the other large shares, their part of the limit.

        A single large share may exceed it.
        """
        others = self._large - self._of_large(held)
        return size > self._small and others > 0 and others + size > self._most_large

    def _slowest(self, least: int, above: int, now: float) -> Share | None:
        """The share to cut: the slowest of the network with the most bytes, or else the slowest huge one.

        :param least: bytes that the growing share's network gets.
        :param above: only shares with more bytes than this are cut.
        """
        candidates: dict[Share, tuple[int, int, float]] = {}
        for each in self._shares:
            in_network = self._networks[each.network]
            if each.cut is None or each.held <= above:
                continue
            if in_network - each.held >= least:
                candidates[each] = (0, -in_network, each.speed(now))
            elif each.held > max(self._huge, least):
                candidates[each] = (1, 0, each.speed(now))
        return min(candidates, key=candidates.__getitem__, default=None)
