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
#: One-way messages that leave together, under one key or several: their application makes a stream.
STREAM = 4
#: Seconds from one transaction of acknowledgements to the next one during a stream, which takes along what was appended
#: meanwhile.
PAUSE = 0.02
#: A transaction takes longer the more keys it has: so long for each of them, if that is more, up to the longest pause.
PAUSE_OF_KEY, LONGEST_PAUSE = 0.01, 0.05
#: During a stream messages gather for so many pauses.
PAUSES = 2
#: While messages are on their way under so many keys, a lone one shares a transaction with others, and leaves no longer
#: in that of its application.
FEW_KEYS = 4
#: Messages that have been on their way for so many seconds do not count: their destination may be away.
BUSY = 1.0
#: Seconds from one search for a key that another process has to the next one, however much is appended to it meanwhile.
#: So long a message may wait if that process has just given the key back.
ELSEWHERE = 0.25


@dataclass(slots=True)
class _Known:
    key: SequenceKey
    #: New messages gather until then, seconds since the epoch.
    until: float = -math.inf
    #: Messages that it has sent are not acknowledged.
    waits: bool = True


class AppendedKeys:
    """What commits have said since the worker looked. Thread-safe.

    A key is named only by the digest of its name, and counts only if this process has worked on it before and nothing
    holds its rows back. Everything else makes the worker search the store: so a key that is not known costs a query,
    and never a message. For the keys of other processes it is searched every `ELSEWHERE` seconds, if something is
    appended to them: a search would also find the messages that gather here, and send them too early.
    """

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        #: By digest: keys that take messages at once, as far as this process knows.
        self._known: dict[str, _Known] = {}
        #: By digest: when the last messages left that are not acknowledged, seconds since the epoch; the last one last.
        self._waiting: dict[str, float] = {}
        #: Digests of keys to which messages were appended.
        self._appended: set[str] = set()
        #: By digest: keys that another process has, and until when they are not searched for, seconds since the epoch.
        self._elsewhere: dict[str, float] = {}
        #: Digests of the keys that the last search is for, by what commits have said.
        self._searched: set[str] = set()
        #: Something else may be due.
        self._search = True
        #: What was appended is in a transaction of acknowledgements, and nothing else has been said.
        self._taken = False
        #: Seconds to the next transaction of acknowledgements.
        #: 0 = the last one has sent no messages of a stream, or has left some.
        self._pause = 0.0
        #: Called when messages need not gather any longer.
        self.wake: Callable[[], None] = _wake_none

    def announce(self, digests: Collection[str]) -> None:
        """A commit has made work for source sequences.

        :param digests: of the only keys that have it; none = they are not known.
        """
        with self._mutex:
            self._appended.update(digests)
            many = len(self._appended) > MOST_KEYS and len(self._appended - self._elsewhere.keys()) > MOST_KEYS
            self._search = self._search or not digests or many

    def search(self) -> None:
        """Let the next turn search the store: one before has left something, or may have."""
        with self._mutex:
            self._search = True

    # --- what is known of keys -------------------------------------------------------------------------------------

    @property
    def pause(self) -> float:
        """Seconds from one transaction of acknowledgements to the next one: nothing waits for them."""
        return self._pause

    def sent(self, one_way: int, keys: int) -> None:
        """A transaction is committed, and what it has done to its keys is said next.

        :param one_way: how many messages have left that make new ones of their keys gather, if none is a request.
        :param keys: under so many keys.
        """
        with self._mutex:
            self._pause = min(max(PAUSE, keys * PAUSE_OF_KEY), LONGEST_PAUSE) if one_way >= STREAM else 0.0

    def worked(self, key: SequenceKey, now: float, *, gathers: bool, waits: bool = True) -> None:
        """A transaction on a key is committed, after which its sequence takes messages at once.

        :param gathers: new messages gather: others are on their way, and the destination takes batches.
        :param waits: messages are not acknowledged.
        """
        with self._mutex:
            gathered = (PAUSES * self._pause or GATHERED) if gathers else -math.inf
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
                self._waiting.clear()
            self._elsewhere.pop(key.digest, None)
            self._known[key.digest] = _Known(key, now + gathered, waits)
            self._waiting.pop(key.digest, None)
            if waits:
                self._waiting[key.digest] = now

    def forget(self, key: SequenceKey) -> None:
        """Another process works on a key, or something holds its rows back."""
        with self._mutex:
            self._pause = 0.0
            self._known.pop(key.digest, None)
            self._waiting.pop(key.digest, None)

    def acknowledged(self, key: SequenceKey) -> None:
        """A transaction is committed in which everything was acknowledged that a key has sent."""
        with self._mutex:
            known = self._known.get(key.digest)
            if known is not None:
                known.until, known.waits = -math.inf, False
            self._waiting.pop(key.digest, None)
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
            elsewhere = {digest for digest in appended - known.keys() if self._is_elsewhere(digest, now)}
            if search or not (appended or taken) or len(known) + len(elsewhere) < len(appended):
                self._searched = appended
                return None
            gathering = {digest for digest, each in known.items() if now < each.until <= now + PAUSES * LONGEST_PAUSE}
            self._appended = gathering | elsewhere
            return [each.key for digest, each in known.items() if digest not in gathering]

    def _is_elsewhere(self, digest: str, now: float) -> bool:
        # One that ends later than that is from before the clock was set back.
        return now < self._elsewhere.get(digest, -math.inf) <= now + ELSEWHERE

    def found(self, keys: Collection[SequenceKey], now: float, is_mine: Callable[[str], bool]) -> None:
        """The search is over that `take` has asked for, in a store that other processes use too.

        :param keys: all that it has found.
        :param is_mine: whether this process has the claim on the key with this digest.
        """
        found = {key.digest for key in keys}
        with self._mutex:
            searched, self._searched = self._searched, set()
        elsewhere = {digest: now + ELSEWHERE for digest in searched - found if not is_mine(digest)}
        with self._mutex:
            if len(self._elsewhere) + len(elsewhere) > MOST_KNOWN:
                self._elsewhere.clear()
            self._elsewhere |= elsewhere

    def gathering(self) -> float | None:
        """Until when messages gather; ``None`` = none do."""
        with self._mutex:
            untils = [each.until for digest in self._appended if (each := self._known.get(digest)) is not None]
        return min(untils, default=None)

    def due(self) -> float | None:
        """When a turn has to follow, because of messages that gather or that were appended to the keys of others;
        ``None`` = for none of these."""
        with self._mutex:
            of_others = (self._appended - self._known.keys()) & self._elsewhere.keys()
            untils = [self._elsewhere[digest] for digest in of_others]
        gathering = self.gathering()
        return min(untils if gathering is None else [*untils, gathering], default=None)

    def has(self, key: SequenceKey) -> bool:
        """Whether messages were appended to a key that takes them at once, and no turn has taken them."""
        with self._mutex:
            return key.digest in self._appended and key.digest in self._known

    def is_quiet(self, key: SequenceKey, now: float) -> bool:
        """Whether a key takes messages at once, nothing of it is on its way or waits, and little of other keys is."""
        with self._mutex:
            known = self._known.get(key.digest)
            quiet = known is not None and not known.waits and key.digest not in self._appended
            while quiet and (first := next(iter(self._waiting.items()), None)) is not None:
                if now - BUSY < first[1] <= now:
                    break
                del self._waiting[first[0]]
            return quiet and len(self._waiting) < FEW_KEYS

    def take_of(self, keys: Collection[SequenceKey]) -> None:
        """A transaction works on keys now, and reads their rows behind this call."""
        digests = {key.digest for key in keys}
        with self._mutex:
            self._taken = self._taken or not digests.isdisjoint(self._appended)
            self._appended -= digests


def _wake_none() -> None:
    pass
