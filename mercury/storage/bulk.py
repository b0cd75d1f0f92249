"""Bulk actions: one action of an operator on many dead letters, made in pieces, and how far it is."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from mercury.storage.audit import Actor
from mercury.storage.letters import LetterFilter

#: Seconds without a piece from which on no process seems to work on a bulk action.
SILENCE = 30.0
#: The first letters that were refused, which a bulk action lists.
MOST_REFUSALS = 20


class BulkAction(enum.Enum):
    """What is done to each dead letter."""

    REDRIVE = "redrive"
    REDIRECT = "redirect"
    DISCARD = "discard"


class BulkState(enum.Enum):
    """The state of a bulk action."""

    #: Pieces are made.
    RUNNING = "running"
    #: The process that made them has ended in an orderly way; an operator may let it go on.
    STOPPED = "stopped"
    #: An operator has ended it. What is done stays done.
    CANCELLED = "cancelled"
    #: Every letter of the selection was looked at.
    DONE = "done"


#: The states that may follow each state.
FOLLOWING: Mapping[BulkState, frozenset[BulkState]] = MappingProxyType(
    {
        BulkState.RUNNING: frozenset(BulkState),
        BulkState.STOPPED: frozenset({BulkState.STOPPED, BulkState.RUNNING, BulkState.CANCELLED}),
        BulkState.CANCELLED: frozenset(),
        BulkState.DONE: frozenset(),
    }
)

#: The order in which letters of one window are handled: dead since, whether it has no number, number, position.
LetterKey = tuple[float, bool, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bulk:
    """One bulk action. Times are seconds since the epoch."""

    #: The store sets it.
    id: int = 0
    action: BulkAction
    state: BulkState = BulkState.RUNNING
    #: The selection; without identifiers.
    which: LetterFilter
    #: The highest position that a dead letter had when it began: later ones do not belong to it.
    last_position: int
    #: Of `REDIRECT`: the other endpoint.
    endpoint: str | None = None
    #: Also letters that may take effect twice.
    allow_duplicate: bool = False
    actor: Actor
    note: str = ""
    started_at: float
    #: When the last piece was made, or the state has changed.
    changed_at: float
    #: The letters that matched when it began.
    total: int
    done: int = 0
    #: Those that stay dead letters.
    refused: int = 0
    #: The first of them, each with the reason.
    refusals: tuple[tuple[str, str], ...] = ()
    #: The positions behind which, and up to which, the current window of letters is; without an end it is not read yet.
    window: int = 0
    window_end: int | None = None
    #: The letter of the window that was handled last; ``None`` = none was.
    last: LetterKey | None = None
    #: The position of its line in the audit.
    audit: int = 0

    @property
    def handled(self) -> int:
        """The letters that were looked at."""
        return self.done + self.refused

    def is_silent(self, now: float) -> bool:
        """Whether it is said to run, and no process seems to work on it: that was killed, or the store fails."""
        return self.state is BulkState.RUNNING and now - self.changed_at > SILENCE
