"""Dead letters as an operator sees them: groups, pages, and one in full."""

from __future__ import annotations

from collections.abc import Callable

from mercury.storage.letters import EVERY_LETTER, DeadLetter, LetterCount, LetterFilter
from mercury.storage.searching import LetterGroup, Page
from mercury.storage.sql.reads import letters
from mercury.storage.sql.store import SqlStore


class Letters:
    """The dead letters of a store in a database.

    :param clock: seconds since the epoch.
    """

    def __init__(self, store: SqlStore, clock: Callable[[], float]) -> None:
        self._store = store
        self._clock = clock

    def groups(self, which: LetterFilter = EVERY_LETTER, limit: int = 100) -> Page[LetterGroup]:
        """Dead letters that match a filter, grouped by direction, endpoint, reason and certainty; the largest first.

        Only the oldest `MOST_ROWS` are read; `Page.after` is set if there are more.

        :raises StorageError: the store failed.
        """
        with self._store.transaction() as tx:
            return letters.groups(tx, which, limit)

    def page(self, which: LetterFilter = EVERY_LETTER, after: str | None = None, limit: int = 50) -> Page[DeadLetter]:
        """Dead letters that match a filter, without their bodies, the oldest first.

        :param after: `Page.after` of the page before.
        :raises UnknownPlace: ``after`` is not from a page.
        :raises StorageError: the store failed.
        """
        with self._store.transaction() as tx:
            return letters.page(tx, which, after, limit)

    def find(self, which: LetterFilter = EVERY_LETTER, limit: int = 100) -> list[DeadLetter]:
        """The first dead letters that match a filter, without their bodies, the oldest first.

        :raises StorageError: the store failed.
        """
        with self._store.transaction() as tx:
            return letters.first(tx, which, limit)

    def count(self, which: LetterFilter = EVERY_LETTER) -> list[LetterCount]:
        """The numbers of all dead letters that match a filter, grouped, the highest number first.

        :raises StorageError: the store failed.
        """
        with self._store.transaction() as tx:
            return tx.dead_letters.count(which)

    def one(self, identifier: str) -> DeadLetter | None:
        """The dead letter with an identifier, with its body; ``None`` = there is none.

        :raises StorageError: the store failed.
        """
        with self._store.transaction() as tx:
            found = tx.dead_letters.find(LetterFilter(ids=frozenset([identifier])), 1)
        return found[0] if found else None
