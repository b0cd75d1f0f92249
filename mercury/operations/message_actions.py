"""Actions of operators on waiting messages, with their entries in the audit."""

from __future__ import annotations

from collections.abc import Callable

from mercury.client.waiting import WaitingMessages
from mercury.engine.ids import Ids
from mercury.operations.acting import entry_of
from mercury.storage.audit import Actor, TargetKind
from mercury.storage.letters import Direction
from mercury.storage.sql import steering
from mercury.storage.sql.store import SqlStore
from mercury.storage.sql.transaction import SqlTransaction


class MessageActions:
    """Actions on waiting messages: see `WaitingMessages`, which says what they raise.

    :param clock: seconds since the epoch.
    """

    def __init__(self, store: SqlStore, clock: Callable[[], float], ids: Ids | None = None) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids

    def retry(self, direction: Direction, position: int, actor: Actor, *, reason: str = "") -> None:
        """Make a message due now."""
        self._waiting(actor, reason).retry(direction, position)

    def park(self, direction: Direction, position: int, actor: Actor, *, reason: str = "") -> None:
        """Make a message a dead letter, so that the messages behind it are processed."""
        self._waiting(actor, reason).park(direction, position)

    def _waiting(self, actor: Actor, reason: str) -> WaitingMessages:
        def told(tx: SqlTransaction, action: str, message: str) -> None:
            steering.note(tx, entry_of(self._clock(), actor, action, TargetKind.MESSAGE, message, reason=reason))

        return WaitingMessages(self._store, self._clock, self._ids, told)
