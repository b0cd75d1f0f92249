"""Addresses that do not take acknowledgements: how often that is tried."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from dataclasses import dataclass

from mercury.statemachine.retransmission import Backoff, is_due

#: Seconds before another acknowledgement is posted to an address that took none, when its source was heard since, and
#: at most; the pauses between.
FIRST, LONGEST = 1.0, 300.0
PAUSES = Backoff(base=2.0, cap=LONGEST, jitter=0.0)
#: Seconds after which a trial whose end is not known is over.
OPEN = 60.0
#: Addresses that are known, and sequences whose acknowledgements are put off, at most. Peers name and make them.
KNOWN = 10_000


@dataclass(slots=True)
class _Address:
    failures: int = 0
    #: When the last one failed, when the next one may be tried, and since when one is being tried.
    failed: float = 0.0
    next: float = 0.0
    trying: float | None = None


class Trials:
    """Acknowledgements to an address that does not take them: one at a time, later each time. Times are seconds.

    All sequences whose AcksTo is that address wait for one trial. When it succeeds, all of them are acknowledged. The
    pause does not count for a sequence that something was heard of since the last failure: its source is there, and
    repeats what is not acknowledged.

    It is known in memory only. Above `KNOWN` the address that failed longest ago is forgotten, and counts as one that
    works until it fails again; a sequence that is forgotten is acknowledged after `LONGEST` at the latest. Safe to be
    used by many threads.
    """

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        #: By the digest of the address, which may be long.
        self._addresses: OrderedDict[bytes, _Address] = OrderedDict()
        #: Sequences that are put off, with their address; the one that was put off longest ago comes first.
        self._put_off: OrderedDict[str, bytes] = OrderedDict()

    def wait(self, address: str, sequence: str, now: float, heard: float) -> float | None:
        """Until when the acknowledgement of a sequence is put off; ``None`` = it is posted now.

        :param heard: when something was heard of the sequence.
        """
        with self._mutex:
            known = self._addresses.get(key := _key(address)) if self._addresses else None
            if known is None:
                return None
            tried = known.trying is not None and not is_due(known.trying + OPEN, now, OPEN)
            paused = heard <= known.failed and not is_due(known.next, now, LONGEST)
            if tried or paused:
                return self._put(sequence, key, now)
            soon = min(known.failed + FIRST, known.next)
            if not is_due(soon, now, FIRST):
                return soon
            known.trying = now
            self._put_off.pop(sequence, None)
            return None

    def failed(self, address: str, sequence: str, now: float) -> float:
        """One could not be delivered. Returns when that of its sequence is due again."""
        with self._mutex:
            key = _key(address)
            later = self._put(sequence, key, now)
            known = self._addresses.get(key)
            if known is None:
                known = self._addresses[key] = _Address()
            elif known.trying is None:
                return later  # posted before the first one had failed
            self._addresses.move_to_end(key)
            if len(self._addresses) > KNOWN:
                self._addresses.popitem(last=False)
            known.failures += 1
            known.failed, known.trying = now, None
            known.next = now + PAUSES.delay(known.failures, 0.0)
            return known.next

    def worked(self, address: str) -> list[str]:
        """One was taken. Returns the sequences whose acknowledgements were put off."""
        with self._mutex:
            if not self._addresses or self._addresses.pop(key := _key(address), None) is None:
                return []
            found = [sequence for sequence, of in self._put_off.items() if of == key]
            for sequence in found:
                del self._put_off[sequence]
            return found

    def _put(self, sequence: str, key: bytes, now: float) -> float:
        self._put_off[sequence] = key
        self._put_off.move_to_end(sequence)
        if len(self._put_off) > KNOWN:
            self._put_off.popitem(last=False)
        return now + LONGEST


def _key(address: str) -> bytes:
    return hashlib.blake2b(address.encode(errors="surrogatepass"), digest_size=16).digest()
