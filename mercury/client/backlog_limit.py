"""How many more messages may wait under a key."""

from __future__ import annotations

from mercury.errors import Overloaded
from mercury.storage.api import Transaction
from mercury.storage.records import SequenceKey

#: Messages sent between two counts of those that wait, at most.
BACKLOG_COUNT_INTERVAL = 1000


class BacklogLimit:
    """Refuses messages of a key while too many wait.

    :param most: messages that may wait.
    """

    def __init__(self, key: SequenceKey, most: int) -> None:
        self._key = key
        self._most = most
        #: Messages that may be sent before those that wait are counted again.
        self._left = 0

    def take(self, tx: Transaction) -> None:
        """Count what waits, the more often the less room there is: to count costs more than to send.

        :raises Overloaded: there is no room for another one.
        """
        if self._left > 0:
            self._left -= 1
            return
        waiting = tx.rms.backlog(self._key)
        if waiting >= self._most:
            raise Overloaded(f"{waiting} messages for {self._key} wait already; at most {self._most} may")
        self._left = min((self._most - waiting) // 4, BACKLOG_COUNT_INTERVAL)
