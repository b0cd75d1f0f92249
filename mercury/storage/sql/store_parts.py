"""What a unit of work uses of its store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from sqlalchemy import Engine

from mercury.bounded import BoundedDict
from mercury.storage.claims import Claim
from mercury.storage.records import SequenceKey
from mercury.storage.sql.commit_markers import CommitMarkers
from mercury.storage.sql.deferred import DeferrableConstraints
from mercury.storage.sql.dialect import Dialect
from mercury.storage.sql.kept_connection import KeptConnection
from mercury.storage.sql.new_work import NewWork
from mercury.storage.sql.notify import Announcement


class StoreParts(Protocol):
    """The methods of its store that a unit of work uses."""

    @property
    def id(self) -> str:
        """The store's unique id."""

    @property
    def dialect(self) -> Dialect: ...

    @property
    def engine(self) -> Engine: ...

    @property
    def kept(self) -> KeptConnection:
        """Gives connections to transactions, and takes them back."""

    @property
    def commit_markers(self) -> CommitMarkers: ...

    @property
    def deferrable(self) -> DeferrableConstraints:
        """Whether the database has deferrable constraints."""

    @property
    def remembered_keys(self) -> BoundedDict[str, SequenceKey]: ...

    @property
    def clock(self) -> Callable[[], float]:
        """Seconds since the epoch."""

    @property
    def counter(self) -> Callable[[int], None] | None:
        """Called after each commit with the number of its statements; ``None`` = they are not counted."""

    @property
    def guarded_by(self) -> Claim | None:
        """The claim of `StorageManager.guard_all`."""

    def soon(self, due: float | None, /) -> bool:
        """Whether a worker must be woken for work that is due at this time."""

    def is_own_database(self, resource: str, /) -> bool:
        """Whether a database named for two-phase commit (``resources=``) is the store's own.

        :raises CapabilityError: databases were named, but not this one; or it cannot take part.
        :raises TransientStorageError: the database does not answer.
        """

    def attachments_used(self) -> None:
        """Note that this process works with attachments (`RetentionStore.has_attachments`)."""

    def settle(self) -> None:
        """Finish the branches that earlier commits of this process left prepared in the store, so that a message sent
        now does not overtake theirs.

        :raises TransientStorageError: a branch could not be finished yet.
        """

    def announcement(self, work: NewWork, /) -> Announcement | None:
        """What announces work to other processes, if something may be sent now. The caller sends it."""

    def announced(self, announcement: Announcement, /) -> None:
        """An announcement was sent behind its commit."""

    def notify(self, here: NewWork, elsewhere: NewWork, /) -> None:
        """Report that a commit has made work.

        :param here: for this process.
        :param elsewhere: what is to be announced to other processes.
        """
