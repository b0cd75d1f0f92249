"""A store in a SQL database."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any, Protocol

from sqlalchemy import URL, Connection, select

from mercury.bounded import BoundedDict
from mercury.errors import StorageError
from mercury.storage.api import BeforeCommit, Capabilities, CommitListener, KeyListener, Topic, Transaction
from mercury.storage.application import FORKED
from mercury.storage.claims import ACTIVE_MEMBER, Claim, WorkFilter
from mercury.storage.gauges import MOST_ROWS, Gauges
from mercury.storage.maintenance import Pauses
from mercury.storage.nodes import Node, Traffic
from mercury.storage.records import SequenceKey
from mercury.storage.sql import attachments, claims, clocks, gauges, nodes, retention, work
from mercury.storage.sql.commit_markers import CommitMarkers
from mercury.storage.sql.deferred import DeferrableConstraints
from mercury.storage.sql.dialect import Dialect
from mercury.storage.sql.errors import translated
from mercury.storage.sql.history import History
from mercury.storage.sql.joining import Joins
from mercury.storage.sql.kept_connection import KeptConnection
from mercury.storage.sql.new_work import NewWork
from mercury.storage.sql.notify import Announcement, Notifier
from mercury.storage.sql.prepared import Prepared, search
from mercury.storage.sql.schema import STORE
from mercury.storage.sql.transaction import SqlTransaction

#: The longest poll interval of workers, in seconds.
NOTIFY_HORIZON = 0.2
#: Size of the cache from sequence identifier to key.
REMEMBERED = 10_000


class TransactionCoordinator(Protocol):
    """Makes and commits transactions in which other databases take part; see `mercury.storage.xa.coordinator`."""

    def transaction(self, *, of_application: bool = False) -> SqlTransaction: ...

    def is_store(self, resource: str, /) -> bool:
        """As `StoreParts.is_own_database`."""

    def settle(self) -> None:
        """As `StoreParts.settle`."""

    def close(self) -> None: ...


class SqlStore:
    """`StorageManager` in a SQL database. The schema must be up to date; `opening` checks it.

    :param lock_timeout: seconds after which waiting for a lock raises `TransientStorageError`.
    :param idle_timeout: seconds after which PostgreSQL ends an idle transaction, so that a stopped process cannot hold
    locks forever (decision 3). SQLite ignores it.
    :param clock: seconds since the epoch.
    :param database_clock: measure leases by the database's clock instead of the caller's ``now``.
    """

    def __init__(
        self,
        url: URL,
        dialect: Dialect,
        *,
        lock_timeout: float = 10.0,
        idle_timeout: float = 30.0,
        database_clock: bool = True,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.url = url
        self.dialect = dialect
        self.engine = dialect.engine(url, lock_timeout, idle_timeout)
        self.kept = KeptConnection(self.engine)
        #: The same connection pool in autocommit mode, for queries.
        self._autocommit = self.engine.execution_options(isolation_level="AUTOCOMMIT")
        self._database_clock = database_clock and dialect.has_clock
        #: Seconds since the epoch.
        self.clock = clock
        #: A cache of the keys of sequences by identifier and by MessageID of CreateSequence: they never change.
        self.remembered_keys: BoundedDict[str, SequenceKey] = BoundedDict(REMEMBERED)
        #: Makes transactions that other databases may take part in; ``None`` = no databases were named.
        self.coordinator: TransactionCoordinator | None = None
        #: The claim of `guard_all`.
        self.guarded_by: Claim | None = None
        self.deferrable = DeferrableConstraints(dialect)
        self.commit_markers = CommitMarkers(self.engine, dialect)
        self.counter: Callable[[int], None] | None = None  #: Called with each commit (`count_commits`).
        self._listeners: list[CommitListener] = []
        #: Listeners for commits of other processes only.
        self._for_others: list[CommitListener] = []
        self._for_keys: list[KeyListener] = []
        self._closed = self._has_attachments = False
        self._process = os.getpid()
        self._notifier = Notifier(url, self._others_committed) if self.capabilities.notifies else None
        self._history = History(self.engine, dialect, clock)
        self._joins = Joins(self)

    @property
    def capabilities(self) -> Capabilities:
        own = self.dialect.capabilities
        return own if self.coordinator is None else replace(own, delivers_on_arrival=False)

    @property
    def id(self) -> str:
        """The store's unique id; a copy of its database needs a new one."""
        with self.connection() as connection:
            return str(connection.execute(select(STORE.c.id)).scalar_one())

    @property
    def history_since(self) -> float:
        return self._history.since

    def soon(self, due: float | None) -> bool:
        """Whether a worker must be woken for work that is due at this time; it finds later work by polling."""
        return due is not None and due <= self.clock() + NOTIFY_HORIZON

    def transaction(self, before_commit: BeforeCommit | None = None) -> SqlTransaction:
        self._require_open()
        if self.coordinator is not None:
            return self.coordinator.transaction(of_application=before_commit is not None)
        return SqlTransaction(self, before_commit=before_commit)

    def is_own_database(self, resource: str) -> bool:
        """As `StoreParts.is_own_database`."""
        return self.coordinator is not None and self.coordinator.is_store(resource)

    def settle(self) -> None:
        """As `StoreParts.settle`."""
        if self.coordinator is not None:
            self.coordinator.settle()

    def join(self, work: object) -> AbstractContextManager[Transaction]:
        self._require_open()
        return self._joins.join(work)

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """A connection outside any unit of work; the caller commits."""
        self._require_open()
        with translated(), self.engine.connect() as connection:
            yield connection

    def active_member(self, now: float) -> tuple[Claim, float] | None:
        with self.reading() as connection:
            found = claims.holder(connection, ACTIVE_MEMBER)
            if found is None:
                return None
            at = self.dialect.now(connection) if self._database_clock else now
            return found[0], found[1] - at

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A connection where each statement is a transaction of its own."""
        self._require_open()
        with translated(), self._autocommit.connect() as connection:
            yield connection

    @contextmanager
    def _changing(self) -> Iterator[Connection]:
        """A connection for changes outside any unit of work, under the claim of `guard_all`."""
        if self.guarded_by is None:
            with self.reading() as connection:
                yield connection
        else:
            self._require_open()
            with SqlTransaction(self) as tx:
                yield tx.writing()

    @contextmanager
    def _reader(self) -> Iterator[work.Reader]:
        """Executes queries, each in a transaction of its own."""
        with self.reading() as connection:

            def read(query: Prepared, parameters: Mapping[str, Any]) -> Sequence[Any]:
                compiled = self.dialect.compiled(query, parameters)
                return search(connection, compiled.text, compiled.parameters(parameters))

            yield read

    def _require_open(self) -> None:
        if self._closed:
            raise StorageError("the store is closed")
        if os.getpid() != self._process:
            raise StorageError(FORKED)

    def announcement(self, work: NewWork) -> Announcement | None:
        """As `StoreParts.announcement`."""
        return self._notifier.claim(work) if self._notifier is not None and work else None

    def announced(self, announcement: Announcement) -> None:
        """As `StoreParts.announced`."""
        if self._notifier is not None:
            self._notifier.announced(announcement)

    def notify(self, here: NewWork, elsewhere: NewWork) -> None:
        """As `StoreParts.notify`."""
        if here:
            self._notify_here(here)
        if elsewhere and self._notifier is not None:
            self._notifier.send(elsewhere)

    def _notify_here(self, work: NewWork) -> None:
        if Topic.RMS in work.topics:
            for of_keys in self._for_keys:
                of_keys(work.keys)
        for listener in self._listeners:
            listener(work.topics)

    def _others_committed(self, work: NewWork) -> None:
        self._notify_here(work)
        for listener in self._for_others:
            listener(work.topics)

    # --- work ------------------------------------------------------------------------------------------------------

    def due_rmd(self, now: float, limit: int, work_filter: WorkFilter | None = None) -> list[str]:
        with self._reader() as read:
            return work.due_rmd(read, now, limit, work_filter)

    def due_invoker(self, now: float, limit: int, work_filter: WorkFilter | None = None) -> dict[str, str]:
        with self._reader() as read:
            return work.due_invoker(read, now, limit, work_filter)

    def stuck_invoker(self, now: float, limit: int, work_filter: WorkFilter | None = None) -> list[str]:
        with self._reader() as read:
            return work.stuck_invoker(read, now, limit, work_filter)

    def due_rms(self, now: float, limit: int, work_filter: WorkFilter | None = None) -> list[SequenceKey]:
        with self._reader() as read:
            return work.due_rms(read, now, limit, work_filter)

    def next_due(self, topic: Topic, work_filter: WorkFilter | None = None) -> float | None:
        with self._reader() as read:
            match topic:
                case Topic.RMD:
                    return work.next_rmd(read, work_filter)
                case Topic.INVOKER:
                    return work.next_invoker(read, work_filter)
                case Topic.RMS:
                    return work.next_rms(read, work_filter)

    def work_due(self, now: float, work_filter: WorkFilter | None = None) -> dict[Topic, float]:
        with self._reader() as read:
            return work.work_due(read, now, work_filter)

    # --- claims ----------------------------------------------------------------------------------------------------

    def claim(self, resource: str, owner: str, now: float, lease: float) -> Claim | None:
        with self._claiming(resource) as connection:
            at = None if self._database_clock else now
            return claims.take(self.dialect, connection, resource, owner, at, lease)

    def claim_all(self, resources: Collection[str], owner: str, now: float, lease: float) -> list[Claim]:
        if not resources:
            return []
        with self._changing() as connection:
            at = None if self._database_clock else now
            return claims.take_all(self.dialect, connection, resources, owner, at, lease)

    def release(self, claim: Claim) -> None:
        with self._claiming(claim.resource) as connection:
            claims.release(self.dialect, connection, claim)

    def _claiming(self, resource: str) -> AbstractContextManager[Connection]:
        return self.reading() if resource == ACTIVE_MEMBER else self._changing()

    def guard_all(self, claim: Claim | None) -> None:
        self.guarded_by = claim

    def sweep(self, *, kept_before: float, idle_before: float, limit: int, audit_before: float = 0.0) -> int:
        with self._changing() as connection:
            # Claims and markers have times of the database: a process that is ahead of it would remove live ones. Other
            # rows have times of processes: where the database is ahead, they would go too early.
            ahead = min(0.0, self.dialect.now(connection) - self.clock()) if self._database_clock else 0.0
            return retention.sweep(
                connection,
                kept_before=kept_before + ahead,
                idle_before=idle_before + ahead,
                limit=limit,
                audit_before=audit_before + ahead,
            )

    def count_commits(self, counter: Callable[[int], None]) -> None:
        self.counter = counter

    def gauges(self, now: float, most: int = MOST_ROWS) -> Gauges:
        with self.reading() as connection:
            at = self.dialect.now(connection) if self._database_clock else now
            return gauges.read(self.dialect, connection, at, most)

    @property
    def has_attachments(self) -> bool:
        return self._has_attachments

    def attachments_used(self) -> None:
        self._has_attachments = True

    def remove_attachments(self, limit: int) -> int:
        self._has_attachments = False  # before the query: a transaction may write some meanwhile
        with self._changing() as connection:
            removed, left = attachments.remove_unused(connection, limit)
        if left:
            self._has_attachments = True
        return removed

    def note_node(self, node: Node) -> None:
        with self.reading() as connection:
            nodes.note(self.dialect, connection, node)

    def others(self, identifier: str, since: float) -> bool:
        with self.reading() as connection:
            return nodes.others(connection, identifier, since)

    def members(self, since: float) -> list[str]:
        with self.reading() as connection:
            return nodes.members(connection, since)

    def add_traffic(self, identifier: str, at: float, traffic: Sequence[Traffic]) -> None:
        with self.reading() as connection:
            nodes.add_traffic(self.dialect, connection, identifier, at, traffic)

    def forget_node(self, identifier: str) -> None:
        with self.reading() as connection:
            nodes.forget(connection, identifier)

    def advance_overdue(self, now: float, longest: Pauses) -> int:
        with self._changing() as connection:
            at = self.dialect.now(connection) if self._database_clock else now
            found = clocks.advance_overdue(connection, now, at, longest)
        if found:
            everything = NewWork(frozenset(Topic))
            self.notify(everything, everything)
        return found

    # --- the process -----------------------------------------------------------------------------------------------

    def listen(
        self, listener: CommitListener, others: CommitListener | None = None, keys: KeyListener | None = None
    ) -> None:
        self._listeners.append(listener)
        if others is not None:
            self._for_others.append(others)
        if keys is not None:
            self._for_keys.append(keys)
        if self._notifier is not None:
            self._notifier.listen()

    def close(self) -> None:
        if self.coordinator is not None:
            self.coordinator.close()
        self._closed = True
        if self._notifier is not None:
            self._notifier.close()
        self._listeners.clear()
        self._for_others.clear()
        self._for_keys.clear()
        own = os.getpid() == self._process  # the connections of its parent are not a forked process's to end
        if own:
            self.kept.close()
        self.engine.dispose(close=own)
