"""How many bytes the messages of peers occupy in the store: read from it rarely, and counted here in between."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from mercury.bounded import BoundedDict

#: Bytes for which a total is used for a second: the store reads a row for every few hundred of them.
BYTES_PER_SECOND = 64 * 1024**2
#: Seconds for which a small total is used.
SHORTEST = 1.0
#: A total is read again early only if at least this part of it was added: then queries cost little more than additions.
WORTH = 16


@dataclass(slots=True)
class _Total:
    size: int
    #: What this process has added since it was read.
    added: int
    #: When it is read again: seconds since the epoch, between these two.
    read_at: float
    read_again_at: float

    def doubtful(self, limit: int | None) -> bool:
        """Whether it is above a limit because of additions that are large enough to justify another query."""
        return limit is not None and self.size > limit and self.added * WORTH >= self.size


class StoredBytes:
    """The total bytes of each name: the last total read from the store, plus the bytes this process has added since.

    A total is read again after a second, a large total later, because the store sums it over all rows; so the reads
    take a small part of the time whatever the size. Rows that were removed, or added by other processes, count from the
    next read. Thread-safe.

    :param most: how many names are remembered; the latest ones are.
    """

    def __init__(self, most: int) -> None:
        self._mutex = threading.Lock()
        self._totals: BoundedDict[str | None, _Total] = BoundedDict(most)

    def of(self, name: str | None, now: float, read: Callable[[], int], limit: int | None = None) -> int:
        """The bytes that are stored under a name (``None`` = in all), including the latest ones of this process.

        :param now: seconds since the epoch.
        :param read: reads the total from the store.
        :param limit: a total above it is read again at once if a large part of it was added since the last query: many
            of the older rows may be deleted.
        """
        with self._mutex:
            known = self._totals.get(name)
            if known is not None and known.read_at <= now < known.read_again_at and not known.doubtful(limit):
                self._totals.move_to_end(name)
                return known.size
        size = read()
        with self._mutex:
            again_at = now + max(SHORTEST, size / BYTES_PER_SECOND)
            self._totals[name] = _Total(size, 0, now, again_at)
        return size

    def forget(self, name: str | None) -> None:
        """The total of a name has changed much: read it from the store at its next use."""
        with self._mutex:
            self._totals.pop(name, None)

    def add(self, name: str | None, size: int) -> None:
        """This process stores ``size`` more bytes under a name. An unknown total is read at its next use."""
        with self._mutex:
            known = self._totals.get(name)
            if known is not None:
                known.size += size
                known.added += size


class StoredOfPeers:
    """Bytes of stored rows of one kind (responses, dead letters), summed by owner and by sequence.

    :param most: how many owners, and how many sequences, are known: the latest ones.
    """

    def __init__(self, most: int) -> None:
        #: ``None`` = all owners together.
        self.owners = StoredBytes(most)
        self.sequences = StoredBytes(most)

    def add(self, owner: str, sequence: str | None, size: int) -> None:
        """This process stores ``size`` bytes more for a sequence of an owner (``None`` = for none of its sequences)."""
        self.owners.add(None, size)
        self.owners.add(owner, size)
        if sequence is not None:
            self.sequences.add(sequence, size)

    def forget(self, owner: str, sequence: str) -> None:
        """Many rows of a sequence were removed: its total and its owner's are read again when they are used next."""
        self.owners.forget(owner)
        self.sequences.forget(sequence)
