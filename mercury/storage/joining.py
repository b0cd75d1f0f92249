"""The part that Mercury has in a transaction of the application's."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, TypeAlias, cast

from mercury.errors import CapabilityError
from mercury.storage import api, application

if TYPE_CHECKING:
    from sqlalchemy import Connection
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession
    from sqlalchemy.orm import Session

#: A transaction of the application's that Mercury can be part of: of SQLAlchemy, on the store's own database.
Work: TypeAlias = "Session | Connection"
#: The same of an asynchronous application.
AsyncWork: TypeAlias = "AsyncSession | AsyncConnection"


def part_of(store: api.StorageManager, tx: application.Transaction | None) -> AbstractContextManager[api.Transaction]:
    """A transaction for one piece of work: a new one, or the one that is given, which its owner ends.

    :raises CapabilityError: ``tx`` is none of Mercury's; nothing was written.
    """
    if tx is None:
        return store.transaction()
    if not hasattr(tx, "rms"):
        raise CapabilityError(
            f"tx: it is what `with mercury.transaction() as tx` gives, not {type(tx).__name__}; a SQLAlchemy Session "
            "or Connection is joined by `with mercury.transaction(session) as tx`"
        )
    return nullcontext(cast(api.Transaction, tx))
