"""This process as a coordinator of a store: its incarnations, and the transactions that it is about to commit."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from mercury.errors import TransientStorageError
from mercury.storage.xa.decisions import DecisionLog, IncarnationIsDead
from mercury.storage.xa.names import Gtrid


class Process:
    """This process. It enrolls an incarnation at its first distributed transaction, and another after being declared
    dead.

    :param store: the store's id.
    :param new_incarnation: returns a name that no other start of any process has.
    :param lease: seconds without a heartbeat after which others may declare an incarnation dead.
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
        #: All incarnations of this process.
        self._mine: set[str] = set()
        self._seen_at = 0.0
        self._begun = 0
        self._mutex = threading.Lock()
        self._enrolling = threading.Lock()
        self._running: set[Gtrid] = set()

    @property
    def incarnation(self) -> str | None:
        """The current incarnation, which decisions name; ``None`` = none yet."""
        return self._incarnation

    def keep_alive(self) -> str:
        """Give a heartbeat. Returns the current incarnation.

        :raises StorageError: the decision log does not answer.
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
        """Drop an incarnation that others have declared dead; the next `keep_alive` enrolls a new one."""
        with self._mutex:
            if self._incarnation == incarnation:
                self._incarnation = None

    def is_mine(self, incarnation: str) -> bool:
        """Whether this is or was an incarnation of this process."""
        with self._mutex:
            return incarnation in self._mine

    def at_rest(self) -> Callable[[Gtrid], bool]:
        """Take a snapshot; the returned function returns whether a transaction was finished in this process at that
        moment, or belongs to another process.

        Call it before you read the prepared branches of a database: this process may finish one after it was read.
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
                raise TransientStorageError("this process was declared dead by others; the same work may be repeated")
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
