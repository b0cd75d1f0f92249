"""A circuit breaker for acknowledgements that are posted: limits the attempts at recipients that do not accept them."""

from __future__ import annotations

import hashlib
import threading
from dataclasses import dataclass

from mercury.bounded import BoundedDict
from mercury.engine.addresses import endpoint_of
from mercury.engine.exchange import Outgoing
from mercury.statemachine.retransmission import Backoff, is_due
from mercury.storage.records import RmdRecord

#: The pause in seconds after a failed attempt: the shortest, if the source has sent something since, and the longest.
FIRST, LONGEST = 1.0, 300.0
#: The pauses between two attempts, if the source is silent.
PAUSES = Backoff(base=2.0, cap=LONGEST, jitter=0.0)
#: Seconds after which an attempt without a known result no longer blocks the next one.
OPEN = 60.0
#: The most failing recipients, and the most deferred sequences, that are remembered: peers determine their numbers.
KNOWN = 10_000


@dataclass(frozen=True, slots=True)
class Recipient:
    """The owner, the address and the protocol versions of acknowledgements.

    One address may accept the acknowledgements of one peer or version and refuse those of another, and every peer may
    name every allowed address.
    """

    #: A digest of these values, because peers choose them and they may be long.
    digest: bytes

    @classmethod
    def of(cls, record: RmdRecord) -> Recipient:
        """The recipient of the acknowledgements of a sequence."""
        protocol = record.protocol
        versions = protocol.soap.value, protocol.addressing.value, protocol.rm.value
        return cls.named(record.owner, record.acks_to.url, record.acks_to.parameters, *versions)

    @classmethod
    def of_post(cls, outgoing: Outgoing) -> Recipient:
        """The recipient of a posted acknowledgement."""
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
    #: When the last attempt failed, when the next attempt is allowed, and when the open attempt began.
    failed: float = 0.0
    next: float = 0.0
    trying: float | None = None


class Trials:
    """The recipients that do not accept acknowledgements. Thread-safe. Times are seconds.

    One attempt at a time is made at such a recipient, after growing pauses. All sequences with this recipient wait for
    the result; after a success all of them are acknowledged. The pause does not apply to a sequence whose source has
    sent something since the last failure: this source is running, and repeats what is not acknowledged.

    Failures are only in memory. Above `KNOWN` recipients the one that failed longest ago is forgotten, and counts as
    working until it fails again. A deferred sequence that is forgotten is acknowledged after `LONGEST` at the latest.
    """

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._failing: BoundedDict[Recipient, _Failures] = BoundedDict(KNOWN)
        #: Deferred sequences with their recipients; the one deferred longest ago comes first.
        self._put_off: BoundedDict[str, Recipient] = BoundedDict(KNOWN)

    @property
    def all_work(self) -> bool:
        """Whether no recipient is known to refuse acknowledgements: then none waits, and none was deferred for one."""
        return not self._failing

    def wait(self, recipient: Recipient, sequence: str, now: float, heard: float) -> float | None:
        """The time until which the acknowledgement of a sequence is deferred; ``None`` = post it now.

        :param heard: when the source of the sequence last sent something.
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
        """A post to a recipient failed. Returns when the acknowledgement of the sequence is due again."""
        with self._mutex:
            later = self._put(sequence, recipient, now)
            known = self._failing.get(recipient)
            if known is None:
                known = _Failures()
            elif known.trying is None:
                return later  # posted before the first failure
            self._failing[recipient] = known
            known.failures += 1
            known.failed, known.trying = now, None
            known.next = now + PAUSES.delay(known.failures, 0.0)
            return known.next

    def worked(self, recipient: Recipient) -> list[str]:
        """A post to a recipient succeeded. Returns the sequences whose acknowledgements were deferred."""
        with self._mutex:
            if self._failing.pop(recipient, None) is None:
                return []
            found = [sequence for sequence, of in self._put_off.items() if of == recipient]
            for sequence in found:
                del self._put_off[sequence]
            return found

    def _put(self, sequence: str, recipient: Recipient, now: float) -> float:
        self._put_off[sequence] = recipient
        return now + LONGEST
