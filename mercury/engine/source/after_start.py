"""After a start, or a fail-over of the database: ask the destination which numbers it has, before new ones are sent.

If the store was restored from a back-up, it has forgotten which numbers it has sent since. It would give them to other
messages, which the destination takes for copies of the first ones and acknowledges: they would be lost. An
acknowledgement of numbers that the store has not sent stops the sequence instead (`apply_effects.FORGOTTEN`). A restore
needs a start of the processes, or a database that took another history (`StorageManager.history_since`), such as a
standby that did not have the last commits. So each process asks once for each sequence that it finds, before it sends a
message of it; an acknowledgement that another process got since then is as good.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from mercury.storage.records import RmsRecord

#: Of a sequence's record, a number (0 = its CreateSequence), and whether it is acknowledged.
IsInFlight = Callable[[str, int, bool], bool]


#: The shortest retransmission interval of a CreateSequence that waits for an exchange behind others, in seconds: while
#: it waits, its work would be in vain.
CREATION_WAIT = 5.0


def _always() -> float:
    return -math.inf


def none_in_flight(_record_id: str, _number: int, _acknowledged: bool) -> bool:
    """`ThisProcess.is_in_flight` where nothing is posted."""
    return False


def no_exchange(_record_id: str) -> bool:
    """`ThisProcess.has_exchange` where nothing is posted."""
    return False


def none_wait(_endpoint: str) -> bool:
    """`ThisProcess.creations_wait` where nothing is posted."""
    return False


@dataclass(frozen=True, slots=True)
class ThisProcess:
    """What the work on source sequences needs to know of its process."""

    #: Whether a message is being posted, or waits to be: then its retransmission interval has not begun.
    is_in_flight: IsInFlight = none_in_flight
    #: Whether an exchange with a message of a sequence's record is open, for however long.
    has_exchange: Callable[[str], bool] = no_exchange
    #: When it has begun to work on the store with its present history, in seconds since the epoch.
    since: Callable[[], float] = _always
    #: Whether creations of sequences wait for exchanges with the server of an endpoint.
    creations_wait: Callable[[str], bool] = none_wait

    def least_pause(self, endpoint: str) -> float:
        """The shortest retransmission interval of a creation that begins to wait now."""
        return CREATION_WAIT if self.creations_wait(endpoint) else 0.0


class AfterStart:
    """For the work on one key: which of its sequences ask first.

    Only a destination that is Mercury is asked: others may answer no AckRequested without a message.

    :param since: `ThisProcess.since`. It is asked when a sequence is locked: a transaction may be the first one on a
    database that has failed over.
    """

    def __init__(self, since: Callable[[], float]) -> None:
        self._since = since
        self._unheard: set[str] = set()

    def look(self, record: RmsRecord) -> None:
        """Note whether the destination of a sequence was not heard since then. To be called before
        messages get numbers, which restarts the measuring of silence."""
        is_mercury = record.batch_messages > 0  # what the destination has stated in Mercury's own element
        if is_mercury and record.machine.last_heard < self._since():
            self._unheard.add(record.id)

    def ask(self, record: RmsRecord, now: float) -> None:
        """Let a sequence with new messages to post wait for an acknowledgement, if its destination was not heard."""
        if record.id in self._unheard:
            record.machine.ask_first(now)
