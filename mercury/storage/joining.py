"""What an application may hand over as its transaction."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, TypeAlias, cast

from mercury.storage.api import StorageManager, Transaction

if TYPE_CHECKING:
    from sqlalchemy import Connection
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession
    from sqlalchemy.orm import Session

#: Mercury's own, or one of SQLAlchemy on the store's database.
Work: TypeAlias = "Transaction | Session | Connection"
#: The same of an asynchronous application.
AsyncWork: TypeAlias = "AsyncSession | AsyncConnection"


def part_of(store: StorageManager, work: Work | None) -> AbstractContextManager[Transaction]:
    """A transaction for one piece of work: a new one, or the one that is given, which its owner ends.

    :raises CapabilityError: the store can not be part of ``work``; nothing was written.
    """
    if work is None:
        return store.transaction()
    return nullcontext(cast(Transaction, work)) if hasattr(work, "rms") else store.join(work)
