"""The part of `Mercury` that looks at the store of the process, and acts on what is in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mercury.client.dead_letters import DeadLetters, Redriven
from mercury.client.inbound_ends import end_at_destination
from mercury.client.overview import Watch
from mercury.engine.status import SequenceStatus
from mercury.errors import ConfigurationError, StorageError
from mercury.statemachine.events import DestinationEnd
from mercury.storage.api import StorageManager
from mercury.storage.letters import EVERY_LETTER, DeadLetter, LetterFilter

if TYPE_CHECKING:
    from mercury.storage.xa.recovery import InDoubt


def refuse_beside_active_member(store: StorageManager, now: float) -> None:
    """Check, for a process with the role ``active-active``, that no process on its store has the other one.

    :param now: seconds since the epoch.
    :raises ConfigurationError: another process is the active member.
    """
    try:
        found = store.active_member(now)
    except StorageError:
        return  # the workers wait for the store, and say so
    if found is not None and found[1] > 0:
        raise ConfigurationError(
            "role: another process on this store is its active member, so this one needs role = active-standby too; or "
            f"stop that one first (its lease ends in {found[1]:.0f} s if it has died)"
        )


class StoreAccess:
    """The part of `Mercury` that looks at its store."""

    watch: Watch
    store: StorageManager
    _dead_letters: DeadLetters

    def sequences(self) -> list[SequenceStatus]:
        """All sequences that are remembered, on both sides."""
        return self.watch.sequences()

    def close_sequence(self, identifier: str) -> None:
        """Close a received sequence: see `end_at_destination`. It takes no new message, and what was received is
        delivered. Its source is sent CloseSequence, and may send the rest in another sequence (WS-RM 1.1 section 3.5).
        """
        end_at_destination(self.store, identifier, DestinationEnd.CLOSE)

    def terminate_sequence(self, identifier: str) -> None:
        """Terminate a received sequence: see `end_at_destination`. Its source is sent TerminateSequence (WS-RM 1.1
        section 3.6). What was received behind a gap is delivered or not by IncompleteSequenceBehavior."""
        end_at_destination(self.store, identifier, DestinationEnd.TERMINATE)

    def dead_letters(self, which: LetterFilter = EVERY_LETTER) -> list[DeadLetter]:
        """Messages that could not be delivered, the oldest first; with a filter those that it means."""
        return self._dead_letters.find(which)

    def redrive(self, which: LetterFilter, *, allow_duplicate: bool = False) -> Redriven:
        """Redrive dead letters: see `DeadLetters.redrive`."""
        return self._dead_letters.redrive(which, allow_duplicate=allow_duplicate)

    def discard(self, which: LetterFilter) -> int:
        """Delete dead letters: see `DeadLetters.discard`."""
        return self._dead_letters.discard(which)

    def in_doubt(self) -> InDoubt | None:
        """What two-phase commits have left to recovery, as of its last run; ``None`` = no ``resources`` are named.

        ``len()`` of it is their number, ``oldest(now)`` the age of the oldest in seconds: it keeps its locks.
        """
        return self.watch.in_doubt()
