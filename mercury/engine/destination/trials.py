"""Peers that do not take acknowledgements: how often that is tried."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from dataclasses import dataclass

from mercury.engine.addresses import endpoint_of
from mercury.engine.exchange import Outgoing
from mercury.statemachine.retransmission import Backoff, is_due
from mercury.storage.records import RmdRecord

#: Seconds before another acknowledgement is posted to a recipient that took none, when its source was heard since, and
#: at most; the pauses between.
FIRST, LONGEST = 1.0, 300.0
PAUSES = Backoff(base=2.0, cap=LONGEST, jitter=0.0)
#: Seconds after which a trial whose end is not known is over.
OPEN = 60.0
#: Recipients that are known, and sequences whose acknowledgements are put off, at most. Peers name and make them.
KNOWN = 10_000


@dataclass(frozen=True, slots=True)
class Recipient:
    """Whose acknowledgements go where, and how. The same address may take those of one peer or version and not those of
    another, and each peer may name each allowed address."""

    #: Its digest: peers name the rest of it, which may be long.
    digest: bytes

    @classmethod
    def of(cls, record: RmdRecord) -> Recipient:
        """Of the acknowledgements of a sequence."""
        protocol = record.protocol
        versions = protocol.soap.value, protocol.addressing.value, protocol.rm.value
        return cls.named(record.owner, record.acks_to.url, record.acks_to.parameters, *versions)

    @classmethod
    def of_post(cls, outgoing: Outgoing) -> Recipient:
        """Of an acknowledgement that was posted."""
        envelope = outgoing.envelope
        versions = (
            each.value if each is not None else "" for each in (envelope.soap, envelope.addressing, envelope.rm)
        )
        parameters = envelope.to.parameters if envelope.to is not None else ()
        return cls.named(outgoing.owner, outgoing.url, parameters, *versions)

    @classmethod
    def named(cls, owner: str, url: str, parameters: tuple[bytes, ...] = (), *versions: str) -> Recipient:
        texts = (owner, endpoint_of(url), *versions)
        parts = *(text.encode(errors="surrogatepass") for text in texts), *parameters
        digest = hashlib.blake2b(digest_size=16)
        for part in parts:
            digest.update(len(part).to_bytes(8, "big") + part)
        return cls(digest.digest())


@dataclass(slots=True)
class _Failures:
    failures: int = 0
    #: When the last one failed, when the next one may be tried, and since when one is being tried.
    failed: float = 0.0
    next: float = 0.0
    trying: float | None = None


class Trials:
    """Acknowledgements to a recipient that does not take them: one at a time, later each time. Times are seconds.

    All sequences with that recipient wait for one trial. When it succeeds, all of them are acknowledged. The pause
    does not count for a sequence that something was heard of since the last failure: its source is there, and repeats
    what is not acknowledged.

    It is known in memory only. Above `KNOWN` the one that failed longest ago is forgotten, and counts as one that
    works until it fails again; a sequence that is forgotten is acknowledged after `LONGEST` at the latest. Safe to be
    used by many threads.
    """

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._failing: OrderedDict[Recipient, _Failures] = OrderedDict()
        #: Sequences that are put off, with their recipient; the one that was put off longest ago comes first.
        self._put_off: OrderedDict[str, Recipient] = OrderedDict()

    def wait(self, recipient: Recipient, sequence: str, now: float, heard: float) -> float | None:
        """Until when the acknowledgement of a sequence is put off; ``None`` = it is posted now.

        :param heard: when something was heard of the sequence.
        """
        with self._mutex:
            known = self._failing.get(recipient)
            if known is None:
                return None
            tried = known.trying is not None and not is_due(known.trying + OPEN, now, OPEN)
            paused = heard <= known.failed and not is_due(known.next, now, LONGEST)
            if tried or paused:
                return self._put(sequence, recipient, now)
            soon = min(known.failed + FIRST, known.next)
            if not is_due(soon, now, FIRST):
                return soon
            known.trying = now
            self._put_off.pop(sequence, None)
            return None

    def failed(self, recipient: Recipient, sequence: str, now: float) -> float:
        """One could not be delivered. Returns when that of its sequence is due again."""
        with self._mutex:
            later = self._put(sequence, recipient, now)
            known = self._failing.get(recipient)
            if known is None:
                known = self._failing[recipient] = _Failures()
            elif known.trying is None:
                return later  # posted before the first one had failed
            self._failing.move_to_end(recipient)
            if len(self._failing) > KNOWN:
                self._failing.popitem(last=False)
            known.failures += 1
            known.failed, known.trying = now, None
            known.next = now + PAUSES.delay(known.failures, 0.0)
            return known.next

    def worked(self, recipient: Recipient) -> list[str]:
        """One was taken. Returns the sequences whose acknowledgements were put off."""
        with self._mutex:
            if self._failing.pop(recipient, None) is None:
                return []
            found = [sequence for sequence, of in self._put_off.items() if of == recipient]
            for sequence in found:
                del self._put_off[sequence]
            return found

    def _put(self, sequence: str, recipient: Recipient, now: float) -> float:
        self._put_off[sequence] = recipient
        self._put_off.move_to_end(sequence)
        if len(self._put_off) > KNOWN:
            self._put_off.popitem(last=False)
        return now + LONGEST
