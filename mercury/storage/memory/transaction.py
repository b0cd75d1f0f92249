"""The transactions of the store."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from mercury.errors import CapabilityError, StorageError
from mercury.storage.api import BeforeCommit, Topic
from mercury.storage.application import OVER, Ending, Outcome, call_each
from mercury.storage.claims import Claim
from mercury.storage.memory.attachments import MemoryAttachments, names_of
from mercury.storage.memory.committed import Committed
from mercury.storage.memory.dead_letters import MemoryDeadLetters
from mercury.storage.memory.invoker import MemoryInvoker
from mercury.storage.memory.locks import HeldLocks, LockTable
from mercury.storage.memory.peer_stores import MemoryPeerStores
from mercury.storage.memory.replay import MemoryReplay
from mercury.storage.memory.rmd import MemoryRmd
from mercury.storage.memory.rms import MemoryRms

if TYPE_CHECKING:
    from sqlalchemy import Connection
    from sqlalchemy.orm import Session

_OPEN, _ROLLED_BACK, _COMMITTED = Outcome(), Outcome(ending=Ending.ROLLED_BACK), Outcome(ending=Ending.COMMITTED)


class StoreParts(Protocol):
    """The parts of the store that a transaction uses."""

    committed: Committed
    lock_table: LockTable
    #: The claim of `StorageManager.guard_all`.
    guarded_by: Claim | None
    #: Called with each commit.
    counter: Callable[[int], None] | None

    def holds(self, claim: Claim) -> bool:
        """Whether a claim is not lost."""

    def check_claim(self, claim: Claim) -> None:
        """
        :raises Conflict: the claim is lost.
        """

    def check_member(self, claim: Claim) -> None:
        """
        :raises NotActive: the claim that the transaction began under is lost.
        """

    def notify(self, topics: frozenset[Topic], keys: frozenset[str]) -> None:
        """Call the listeners: a commit has caused work; for source sequences only with these keys, if there are any."""


class MemoryTransaction:
    """`Transaction` on the in-memory store. Its changes are private until the commit."""

    def __init__(self, store: StoreParts, before_commit: BeforeCommit | None = None) -> None:
        self.store = store
        self._before_commit = before_commit
        self.locks = HeldLocks(store.lock_table)
        self._rmd: MemoryRmd | None = None
        self._invoker: MemoryInvoker | None = None
        self._rms: MemoryRms | None = None
        self._dead_letters: MemoryDeadLetters | None = None
        self._attachments: MemoryAttachments | None = None
        self._replay: MemoryReplay | None = None
        self.peer_stores = MemoryPeerStores(store.committed)
        self._claims: list[Claim] = []
        self._member = store.guarded_by
        self._after_commit: list[Callable[[], None]] = []
        self.outcome = _OPEN
        self._over = False

    def __enter__(self) -> MemoryTransaction:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        topics: frozenset[Topic] = frozenset()
        try:
            self.outcome = _ROLLED_BACK
            if error is None:
                if self._before_commit is not None:
                    self._send_first(self._before_commit)
                topics = self._commit()
                self.outcome = _COMMITTED
        finally:
            self._over = True
            self.locks.release()
        if error is None:
            if self.store.counter is not None:
                self.store.counter(0)
            self._committed(topics)

    def _send_first(self, before_commit: BeforeCommit) -> None:
        """Call `before_commit`. The actions that it adds do not wait for those of the application."""
        of_application, self._after_commit = self._after_commit, []
        before_commit(self)
        self._after_commit += of_application

    def _committed(self, topics: frozenset[Topic]) -> None:
        """After the commit: announce the topics, and call the actions of `after_commit`."""
        announce = partial(self._announce, topics)
        if self._before_commit is not None:
            call_each((announce, *self._after_commit))  # the actions are the application's, which may be slow
        else:
            call_each((*self._after_commit, announce))

    def _announce(self, topics: frozenset[Topic]) -> None:
        if topics:
            self.store.notify(topics, self._appended_only())

    # Each manager is made when it is first used: most transactions use one or two kinds.

    @property
    def rmd(self) -> MemoryRmd:
        if self._rmd is None:
            self._rmd = MemoryRmd(self.store.committed, self.locks)
        return self._rmd

    @property
    def invoker(self) -> MemoryInvoker:
        if self._invoker is None:
            self._invoker = MemoryInvoker(self.store.committed, self.locks)
        return self._invoker

    @property
    def rms(self) -> MemoryRms:
        self._require_open()
        if self._rms is None:
            self._rms = MemoryRms(self.store.committed, self.locks, self.store.holds)
        return self._rms

    @property
    def dead_letters(self) -> MemoryDeadLetters:
        if self._dead_letters is None:
            self._dead_letters = MemoryDeadLetters(self.store.committed)
        return self._dead_letters

    @property
    def attachments(self) -> MemoryAttachments:
        if self._attachments is None:
            self._attachments = MemoryAttachments(self.store.committed)
        return self._attachments

    @property
    def replay(self) -> MemoryReplay:
        if self._replay is None:
            self._replay = MemoryReplay(self.store.committed)
        return self._replay

    @contextmanager
    def savepoint(self, *, waits: bool = False) -> Iterator[None]:  # noqa: ARG002 - nothing is left
        saved = (self.rmd.savepoint(), self.invoker.savepoint(), self.rms.savepoint())
        recorded, peers = dict(self.replay.added), dict(self.peer_stores.changed)
        lengths = len(self.dead_letters.added), len(self.dead_letters.deleted), len(self._after_commit)
        written = len(self.attachments.added)
        try:
            yield
        except BaseException:
            self.rmd.rollback_to(saved[0])
            self.invoker.rollback_to(saved[1])
            self.rms.rollback_to(saved[2])
            self.replay.added, self.peer_stores.changed = recorded, peers
            del self.dead_letters.added[lengths[0] :]
            del self.dead_letters.deleted[lengths[1] :]
            del self._after_commit[lengths[2] :]
            del self.attachments.added[written:]
            raise

    def connection(self, resource: str | None = None) -> Connection:
        raise no_database(resource)

    def session(self, resource: str | None = None) -> Session:
        raise no_database(resource)

    def execute_later(
        self,
        statement: str,  # noqa: ARG002
        parameters: Mapping[str, Any] | None = None,  # noqa: ARG002
        *,
        resource: str | None = None,
    ) -> None:
        raise no_database(resource)

    def limited_statements(self, seconds: float) -> AbstractContextManager[None]:  # noqa: ARG002
        return nullcontext()  # there are none

    @property
    def in_database(self) -> bool:
        return False

    def end_work(self) -> None: ...  # applications have no connection to this store

    def translate(self, error: Exception) -> StorageError | None:
        return error if isinstance(error, StorageError) else None

    def guard(self, claim: Claim) -> None:
        self._claims.append(claim)

    def after_commit(self, action: Callable[[], None]) -> None:
        self._require_open()
        self._after_commit.append(action)

    def _require_open(self) -> None:
        if self._over:
            raise StorageError(OVER)

    def _appended_only(self) -> frozenset[str]:
        """The digests of the keys to which messages were appended, if nothing else of source sequences was changed."""
        rms = self._rms
        if rms is None or not rms.appended or any((*rms.changed_rows.values(), *rms.changed_records.values())):
            return frozenset()
        return frozenset(message.channel.key.digest for message in rms.appended)

    def _commit(self) -> frozenset[Topic]:
        topics: set[Topic] = set()
        with self.store.committed.mutex:
            for claim in self._claims:
                self.store.check_claim(claim)
            managers = [used for used in (self._rmd, self._invoker, self._rms) if used is not None]
            if self._member is not None and self._writes:
                self.store.check_member(self._member)
            if self._dead_letters is not None:
                self._dead_letters.check()
            if self._replay is not None:
                self._replay.check()
            if self.peer_stores.changed:
                self.peer_stores.check()
            for manager in managers:
                manager.check()
            for manager in managers:
                topics |= manager.install()
            if self._dead_letters is not None:
                self._dead_letters.install()
            if self._attachments is not None:
                self._attachments.install()
            if self._replay is not None:
                self._replay.install()
            if self.peer_stores.changed:
                self.peer_stores.install()
            if self.store.committed.attachments:
                self._remove_attachments()
        return frozenset(topics)

    @property
    def _writes(self) -> bool:
        """Whether this transaction has locked or changed anything."""
        changes: list[object] = [self.locks.any, self.peer_stores.changed]
        if self._rms is not None:
            changes.append(self._rms.appended)
        if self._invoker is not None:
            changes += [self._invoker.inserted, self._invoker.added, self._invoker.deleted]
        if self._rmd is not None:
            changes.append(self._rmd.inserted)
        if self._dead_letters is not None:
            changes += [self._dead_letters.added, self._dead_letters.deleted]
        changes += [part.added for part in (self._attachments, self._replay) if part is not None]
        return any(changes)

    def _remove_attachments(self) -> None:
        """Remove those that only rows had which this commit has removed."""
        parts = [used for used in (self._invoker, self._rms, self._dead_letters) if used is not None]
        added = [row for part in parts for row in (part.appended if isinstance(part, MemoryRms) else part.added)]
        removed = [row for part in parts for row in part.removed]
        for name in names_of(removed) - names_of(added):
            self.store.committed.attachments.pop(name, None)


def no_database(resource: str | None) -> CapabilityError:
    """The refusal of what only a database can do.

    :param resource: what was to be used; ``None`` = the store itself.
    """
    what = f" ({resource})" if resource else ""
    return CapabilityError(f"the store memory: is not a database; no application's transaction can include it{what}")
