"""The limit on the messages that wait under a key."""

from __future__ import annotations

from mercury.errors import Overloaded
from mercury.storage.api import Transaction
from mercury.storage.records import SequenceKey

#: The most messages sent between two counts of the backlog.
BACKLOG_COUNT_INTERVAL = 1000


class BacklogLimit:
    """Refuses messages of a key while its backlog is at the limit.

    :param most: the limit, in messages.
    """

    def __init__(self, key: SequenceKey, most: int) -> None:
        self._key = key
        self._most = most
        #: The messages that may still be sent before the next count.
        self._left = 0

    def take(self, tx: Transaction) -> None:
        """Count one message against the limit. The store's backlog is counted more often the nearer it is to the limit,
        because a count costs more than a send.

        :raises Overloaded: the backlog is at the limit.
        """
        if self._left > 0:
            self._left -= 1
            return
        waiting = tx.rms.backlog(self._key)
        if waiting >= self._most:
            raise Overloaded(f"{waiting} messages for {self._key} wait already; at most {self._most} may")
        self._left = min((self._most - waiting) // 4, BACKLOG_COUNT_INTERVAL)
