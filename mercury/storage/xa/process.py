"""A process among the coordinators of a store: the names it goes by, and what it is about to commit."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from mercury.errors import TransientStorageError
from mercury.storage.xa.decisions import DecisionLog, IncarnationIsDead
from mercury.storage.xa.names import Gtrid


class Process:
    """This process. It has a name from its first transaction that others may take part in, and seldom a second one.

    :param store: the store's id.
    :param new_incarnation: a name that no start of any process ever had.
    :param lease: seconds without a sign of life after which others may give it up.
    :param clock: seconds since the epoch.
    """

    def __init__(
        self,
        decisions: DecisionLog,
        store: str,
        new_incarnation: Callable[[], str],
        lease: float,
        clock: Callable[[], float],
    ) -> None:
        self._decisions = decisions
        self._store = store
        self._new_incarnation = new_incarnation
        self._lease = lease
        self._clock = clock
        self._incarnation: str | None = None
        #: All names that this process has gone by.
        self._mine: set[str] = set()
        self._seen_at = 0.0
        self._begun = 0
        self._mutex = threading.Lock()
        self._enrolling = threading.Lock()
        self._running: set[Gtrid] = set()

    @property
    def incarnation(self) -> str | None:
        """The name of this process in decisions; ``None`` = it has none yet."""
        return self._incarnation

    def keep_alive(self) -> str:
        """Let the others know that this process lives. Returns the name it goes by.

        :raises StorageError: the decision log is away.
        """
        now = self._clock()
        with self._mutex:
            known, beats = self._incarnation, now - self._seen_at >= self._lease / 3
            if known is not None and beats:
                self._seen_at = now
        if known is not None and beats and not self._decisions.heartbeat(known, self._decisions.now()):
            self._given_up(known)
            known = None
        return known or self._enroll(now)

    def _enroll(self, now: float) -> str:
        with self._enrolling:
            if self._incarnation is None:
                incarnation = self._new_incarnation()
                self._decisions.enroll(incarnation, self._decisions.now())
                with self._mutex:
                    self._incarnation, self._seen_at = incarnation, now
                    self._mine.add(incarnation)
                return incarnation
            return self._incarnation

    def _given_up(self, incarnation: str) -> None:
        """The others believe that this process is dead: it needs a new name."""
        with self._mutex:
            if self._incarnation == incarnation:
                self._incarnation = None

    def is_mine(self, incarnation: str) -> bool:
        """Whether this process goes by this name, or has gone by it."""
        with self._mutex:
            return incarnation in self._mine

    def at_rest(self) -> Callable[[Gtrid], bool]:
        """What tells of transactions whether this process was done with them at this moment, or they are not its own.

        To be read before a database is: what is prepared there may be finished by the time that one acts.
        """
        with self._mutex:
            running, begun, mine = frozenset(self._running), self._begun, frozenset(self._mine)

        def done(gtrid: Gtrid) -> bool:
            own = gtrid.incarnation in mine or self.is_mine(gtrid.incarnation)
            return not own or (gtrid not in running and gtrid.counter <= begun)

        return done

    @contextmanager
    def run(self) -> Iterator[Gtrid]:
        with self._mutex:
            if self._incarnation is None:
                raise TransientStorageError("this process was given up for dead; the same work may be done again")
            self._begun += 1
            gtrid = Gtrid(self._store, self._incarnation, self._begun)
            self._running.add(gtrid)
        try:
            yield gtrid
        except IncarnationIsDead as error:
            self._given_up(gtrid.incarnation)
            raise TransientStorageError(str(error)) from error
        finally:
            with self._mutex:
                self._running.discard(gtrid)
