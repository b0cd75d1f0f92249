"""Which messages wait for an exchange or are being posted, so that they are not posted a second time."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable

from mercury.engine.exchange import Outgoing, Purpose
from mercury.engine.runtime.server_queues import Slot

#: Seconds for which a message is not posted again while its exchange is open: it is not lost, but the server is slow or
#: holds the exchange for the response. Longer than the default time for which a server holds it.
OPEN_TIMEOUT = 5.0
#: The same for an acknowledged request: the destination has it, and only its response is awaited. Some destinations
#: send responses one after the other, and one of them sends none any more after that of a repeated request (LIVE-14).
#: Longer than the default `http.timeout`, after which the exchange ends by itself.
ACKNOWLEDGED_TIMEOUT = 60.0


class InFlight:
    """The messages of a pool that wait, and those that are being posted. Times are seconds. Not thread-safe."""

    def __init__(self) -> None:
        #: The messages that wait, or that may begin.
        self._queued: set[Slot] = set()
        #: The messages that are being posted, with the begin of their latest exchange; infinite for a message with
        #: attachments, which may be sent for longer than the limit.
        self._open: dict[Slot, float] = {}
        #: The batches among these messages, with the number of the last message of each.
        self._batches: dict[Slot, int] = {}
        #: The number of open exchanges with messages of a sequence, where there are any. A message may have several.
        self._exchanges = Counter[str]()

    def has(self, outgoing: Outgoing, clock: Callable[[], float]) -> bool:
        """Whether a post need not be made, because the same message waits or is being posted.

        An acknowledgement that is being posted does not count: a later one may have more.
        """
        slot = outgoing.slot
        if slot in self._queued:
            return True
        began = self._open.get(slot) if outgoing.purpose is Purpose.MESSAGE else None
        return began is not None and clock() < began + OPEN_TIMEOUT

    def has_exchange(self, record_id: str) -> bool:
        """Whether an exchange with a message of a sequence is open, for however long."""
        return record_id in self._exchanges

    def has_message(self, record_id: str, number: int, now: float, *, acknowledged: bool) -> bool:
        """Whether a message of a sequence waits, or has been in an open exchange for less than the limit.

        :param number: 0 = its CreateSequence.
        :param acknowledged: it is a request that is acknowledged, which has a longer limit.
        """
        slot, limit = (Purpose.MESSAGE.value, record_id, number), ACKNOWLEDGED_TIMEOUT if acknowledged else OPEN_TIMEOUT
        others = self._with(slot) if number else [(Purpose.CREATE.value, record_id, 0)]
        return any(each in self._queued or self._is_open(each, now, limit) for each in (slot, *others))

    def queue(self, outgoing: Outgoing) -> None:
        """A post waits."""
        self._queued.add(outgoing.slot)
        if outgoing.last is not None:
            self._batches[outgoing.slot] = outgoing.last

    def drop(self, outgoing: Outgoing) -> None:
        """A post that waited is not made."""
        self._queued.discard(outgoing.slot)

    def begin(self, outgoing: Outgoing, now: float) -> None:
        """The exchange of a post that waited begins."""
        self._open[outgoing.slot] = math.inf if outgoing.envelope.parts else now
        self._queued.discard(outgoing.slot)
        if outgoing.purpose is Purpose.MESSAGE and outgoing.record_id is not None:
            self._exchanges[outgoing.record_id] += 1

    def begin_again(self, outgoing: Outgoing, before: float, now: float) -> None:
        """A further exchange of an open post begins.

        :param before: when the previous one began; a later post of the same message remains.
        """
        if self._open.get(outgoing.slot) == before:
            self._open[outgoing.slot] = now

    def end(self, outgoing: Outgoing, began: float, reply_at: float | None) -> None:
        """An exchange has ended.

        :param began: when it began; a later exchange of the same message remains.
        :param reply_at: its reply came then and has yet to be stored: until then the message counts as being posted.
        """
        slot, record_id = outgoing.slot, outgoing.record_id
        if outgoing.purpose is Purpose.MESSAGE and record_id is not None:
            self._exchanges[record_id] -= 1
            if not self._exchanges[record_id]:
                del self._exchanges[record_id]
        if self._open.get(slot) != (math.inf if outgoing.envelope.parts else began):
            return
        if reply_at is not None:
            self._open[slot] = min(self._open[slot], reply_at)
        else:
            del self._open[slot]
            self._forget_batch(slot)

    def stored(self, outgoing: Outgoing) -> None:
        """The reply to a post is committed."""
        self._open.pop(outgoing.slot, None)
        self._forget_batch(outgoing.slot)

    def forget_batches(self) -> None:
        self._batches.clear()

    def __bool__(self) -> bool:
        """Whether any message is being posted."""
        return bool(self._open)

    def _is_open(self, slot: Slot, now: float, limit: float) -> bool:
        began = self._open.get(slot)
        return began is not None and now < began + limit

    def _with(self, slot: Slot) -> list[Slot]:
        """The batches that contain the message of a slot."""
        of_it = [each for each in self._batches if each[:2] == slot[:2]]
        return [each for each in of_it if each[2] <= slot[2] <= self._batches[each]]

    def _forget_batch(self, slot: Slot) -> None:
        if slot not in self._queued:
            self._batches.pop(slot, None)
