"""Mercury's work inside a transaction of the application."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, TypeAlias, cast

from mercury.errors import CapabilityError
from mercury.storage import api, application

if TYPE_CHECKING:
    from sqlalchemy import Connection
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession
    from sqlalchemy.orm import Session

#: A SQLAlchemy transaction of the application that Mercury can join: on the store's own database.
Work: TypeAlias = "Session | Connection"
#: The same for asynchronous applications.
AsyncWork: TypeAlias = "AsyncSession | AsyncConnection"


def part_of(
    store: api.StorageManager, tx: application.Transaction | None, before_commit: api.BeforeCommit | None = None
) -> AbstractContextManager[api.Transaction]:
    """The transaction to use: ``tx``, which its owner ends, or a new one if ``tx`` is ``None``.

    :param before_commit: of a new one.
    :raises CapabilityError: ``tx`` is not a transaction of Mercury; nothing was written.
    """
    if tx is None:
        return store.transaction(before_commit)
    if not hasattr(tx, "rms"):
        raise CapabilityError(
            f"tx: expected the tx of `with mercury.transaction() as tx`, not {type(tx).__name__}; a SQLAlchemy Session "
            "or Connection is joined by `with mercury.transaction(session) as tx`"
        )
    return nullcontext(cast(api.Transaction, tx))
