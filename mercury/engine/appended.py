"""The keys to which commits have appended messages: a worker need not search the store for them."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass

from mercury.storage.records import SequenceKey

#: More keys are not remembered by name: the store is searched.
MOST_KEYS = 8
#: The most keys that are known to take messages at once.
MOST_KNOWN = 4096
#: Seconds for which new messages of a key wait for the acknowledgement of those before them, which takes them along.
#: Without it a stream would have a transaction and an exchange for each of its messages.
GATHERED = 0.025
#: One-way messages of a key that leave together: their application makes a stream.
STREAM = 4
#: Seconds from one transaction of acknowledgements to the next one during a stream, which takes along what was appended
#: meanwhile.
PAUSE = 0.02
#: As `GATHERED`, during a stream.
GATHERED_OF_STREAM = 2 * PAUSE


@dataclass(slots=True)
class _Known:
    key: SequenceKey
    #: New messages gather until then, seconds since the epoch.
    until: float = -math.inf


class AppendedKeys:
    """What commits have said since the worker looked. Thread-safe.

    A key is named only by the digest of its name, and counts only if this process has worked on it before and nothing
    holds its rows back. Everything else makes the worker search the store: so a key that is not known costs a query,
    and never a message.
    """

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        #: By digest: keys that take messages at once, as far as this process knows.
        self._known: dict[str, _Known] = {}
        #: Digests of keys to which messages were appended.
        self._appended: set[str] = set()
        #: Something else may be due.
        self._search = True
        #: What was appended is in a transaction of acknowledgements, and nothing else has been said.
        self._taken = False
        #: The last transaction has sent messages of a stream, and has left none.
        self._streams = False
        #: Called when messages need not gather any longer.
        self.wake: Callable[[], None] = _wake_none

    def announce(self, digests: Collection[str]) -> None:
        """A commit has made work for source sequences.

        :param digests: of the only keys that have it; none = they are not known.
        """
        with self._mutex:
            self._appended.update(digests)
            self._search = self._search or not digests or len(self._appended) > MOST_KEYS

    def search(self) -> None:
        """Let the next turn search the store: one before has left something, or may have."""
        with self._mutex:
            self._search = True

    # --- what is known of keys -------------------------------------------------------------------------------------

    @property
    def pause(self) -> float:
        """Seconds from one transaction of acknowledgements to the next one: nothing waits for them."""
        return PAUSE if self._streams else 0.0

    def worked(self, key: SequenceKey, now: float, *, gathers: bool, one_way: int = 0) -> None:
        """A transaction on a key is committed, after which its sequence takes messages at once.

        :param gathers: new messages gather: others are on their way, and the destination takes batches.
        :param one_way: how many messages have left, if none is a request.
        """
        with self._mutex:
            self._streams = gathers and one_way >= STREAM
            gathered = GATHERED_OF_STREAM if self._streams else GATHERED if gathers else -math.inf
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            self._known[key.digest] = _Known(key, now + gathered)

    def forget(self, key: SequenceKey) -> None:
        """Another process works on a key, or something holds its rows back."""
        with self._mutex:
            self._streams = False
            self._known.pop(key.digest, None)

    def acknowledged(self, key: SequenceKey) -> None:
        """A transaction is committed in which everything was acknowledged that a key has sent."""
        with self._mutex:
            known = self._known.get(key.digest)
            if known is not None:
                known.until = -math.inf
            wakes = key.digest in self._appended
        if wakes:
            self.wake()

    # --- turns -----------------------------------------------------------------------------------------------------

    def take(self, now: float) -> list[SequenceKey] | None:
        """The keys to work on in a turn that begins now, perhaps none; ``None`` = the store has to be searched."""
        with self._mutex:
            search, self._search = self._search, False
            taken, self._taken = self._taken, False
            appended, self._appended = self._appended, set()
            known = {digest: each for digest in appended if (each := self._known.get(digest)) is not None}
            if search or not (appended or taken) or len(known) < len(appended):
                return None
            self._appended = {digest for digest, each in known.items() if now < each.until <= now + GATHERED_OF_STREAM}
            return [each.key for digest, each in known.items() if digest not in self._appended]

    def due(self) -> float | None:
        """Until when messages gather; ``None`` = none do."""
        with self._mutex:
            untils = [each.until for digest in self._appended if (each := self._known.get(digest)) is not None]
        return min(untils, default=None)

    def has(self, key: SequenceKey) -> bool:
        """Whether messages were appended to a key that takes them at once, and no turn has taken them."""
        with self._mutex:
            return key.digest in self._appended and key.digest in self._known

    def take_of(self, keys: Collection[SequenceKey]) -> None:
        """A transaction works on keys now, and reads their rows behind this call."""
        digests = {key.digest for key in keys}
        with self._mutex:
            self._taken = self._taken or not digests.isdisjoint(self._appended)
            self._appended -= digests


def _wake_none() -> None:
    pass
