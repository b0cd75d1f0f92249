"""How much a stage may hold: the settings of a stage, and the count of the messages in it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from mercury.statemachine.bounds import at_least

#: The reason of the refusal of a message that a full stage does not take.
FULL = "Too many messages wait in the stage for the store"


@dataclass(frozen=True, slots=True, kw_only=True)
class StageSettings:
    """A store on the local disk that takes messages in front of the store, and how much it may hold.

    :raises ConfigurationError: a number is out of range; the text begins with its name.
    """

    #: The URL of the stage, ``sqlite:///FILE``; ``None`` = there is none, and messages go to the store itself.
    store: str | None = None
    #: The most messages in the stage; above it new ones are refused as busy.
    max_messages: int = 1_000_000
    #: The most bytes of the messages in the stage; above it new ones are refused as busy.
    max_bytes: int = 1024**3
    #: The most messages that one transaction moves to the store.
    batch: int = 2000
    #: The most bytes of the bodies that one transaction moves, unless a single message has more.
    batch_bytes: int = 8 * 1024 * 1024

    def __post_init__(self) -> None:
        at_least(1, max_messages=self.max_messages, max_bytes=self.max_bytes)
        at_least(1, batch=self.batch, batch_bytes=self.batch_bytes)


class StageRoom:
    """Counts the messages in a stage. Thread-safe.

    :param most: the most messages that it may hold.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._mutex = threading.Lock()
        self._waiting = 0
        #: Whether the messages that an earlier process has left in the stage are counted.
        self.is_counted = False
        #: How often it has changed.
        self._changes = 0

    @property
    def waiting(self) -> int:
        """The messages in the stage."""
        return self._waiting

    def is_full(self, more: int) -> bool:
        """Whether another message is above the limit.

        :param more: the messages that the open transaction has accepted before it.
        """
        return self._waiting + more >= self._most

    def change(self, messages: int) -> None:
        """Add messages that a commit has put into the stage; fewer than 0 = it has removed them."""
        with self._mutex:
            self._waiting = max(0, self._waiting + messages)
            self._changes += 1

    def recount(self, read: Callable[[], int]) -> None:
        """Set the count to what the store has, unless it changes meanwhile: a commit whose outcome was unknown, or
        another process on the stage, may have changed the store only. The first count is kept in any case, with the
        changes meanwhile: before it nothing is known of what an earlier process has left."""
        with self._mutex:
            changes, waiting = self._changes, self._waiting
        found = read()
        with self._mutex:
            if changes == self._changes:
                self._waiting = found
            elif not self.is_counted:
                self._waiting = max(0, found + self._waiting - waiting)
            self.is_counted = True
