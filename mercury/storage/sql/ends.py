"""Ends of a transaction that Mercury does not make: by the application, or by the database."""

from __future__ import annotations

import re
from functools import lru_cache

from mercury.errors import Conflict, DataError, StorageError, TransientStorageError
from mercury.storage.application import OVER
from mercury.storage.sql.errors import translate

COMMITS = "the transaction is Mercury's: it commits when its 'with' block is left"
COMMITTED = "the application has tried to commit the transaction on its own; nothing is kept"
ROLLED_BACK = "the application has rolled back the transaction on its own; nothing is kept"
ENDED_BEFORE = "the transaction had ended before its commit; what was done in it was kept or not"
ENDED = "the database has rolled back the whole transaction, not a statement alone; nothing is kept"

#: A statement without one of these words ends no transaction.
_WORDS = re.compile(r"\b(?:commit|end|prepare|rollback|abort)\b", re.IGNORECASE)
#: Literals, the bodies of functions too, and comments.
_QUOTED = re.compile(r"\b[eE]'(?:[^'\\]|\\.|'')*'|'[^']*'|\"[^\"]*\"|\$(\w*)\$.*?\$\1\$|--[^\n]*|/\*.*?\*/", re.DOTALL)
#: ``end`` counts as the first word only: behind others it may end the body of a function.
_COMMITS = re.compile(r"(?:^|;)\s*(?:commit|prepare\s+transaction)\b|^\s*end\b", re.IGNORECASE)
_ROLLS_BACK = re.compile(r"(?:^|;)\s*(?:abort\b|rollback\b(?!\s+(?:(?:work|transaction)\s+)?to\b))", re.IGNORECASE)
#: The most characters of a statement that is remembered: one with literals may be as long as what it stores.
MOST_REMEMBERED = 2000


class Ends:
    """What a transaction knows of its end; it is the owner of its connections."""

    def __init__(self) -> None:
        super().__init__()
        #: Mercury ends the transaction now, or has ended it.
        self._ending = False
        #: Why nothing of the transaction can be kept any more.
        self.broken: StorageError | None = None

    def ended_by_application(self, *, commit: bool) -> None:
        """Called when the application ends a transaction that only Mercury may end.

        :raises StorageError: the application commits; the transaction is rolled back.
        """
        if self._ending:
            return
        self.broken = self.broken or DataError(COMMITTED if commit else ROLLED_BACK)
        if commit:
            raise StorageError(COMMITS)

    def ended_by_database(self, error: Exception) -> None:
        """Called when the database has rolled back the transaction by itself.

        :param error: that of the statement with which it did; if it may pass, the whole transaction may be repeated.
        """
        known = translate(error) or TransientStorageError(repr(error))  # none of the database: no memory is left
        # A conflict is a constraint of the application's: no statement on Mercury's tables ends the transaction.
        passes = isinstance(known, TransientStorageError) and not isinstance(known, Conflict)
        self.broken = (TransientStorageError if passes else DataError)(f"{ENDED}: {known}")

    def ended(self) -> None:
        """Called when the transaction has ended in any way: nothing may be done with it any more."""
        self.broken = self.broken or StorageError(OVER)

    def require_whole(self) -> None:
        """Check that the transaction can still be kept.

        :raises StorageError: it has ended, or a part of it that failed could not be undone.
        """
        if self.broken is not None:
            raise self.broken


def note_end(owner: Ends, statement: str) -> None:
    """Tell the owner of a connection before the application executes a statement that ends its transaction.

    :raises StorageError: the statement commits.
    """
    commits = _commits(statement) if len(statement) > MOST_REMEMBERED else _remembered(statement)
    if commits is not None:
        owner.ended_by_application(commit=commits)


def _commits(statement: str) -> bool | None:
    """Whether a statement commits the transaction or rolls it back; ``None`` = it does neither."""
    if _WORDS.search(statement) is None:
        return None
    text = _QUOTED.sub(" ", statement)
    if _COMMITS.search(text) is not None:
        return True
    return False if _ROLLS_BACK.search(text) is not None else None


@lru_cache(maxsize=1024)
def _remembered(statement: str) -> bool | None:
    return _commits(statement)
