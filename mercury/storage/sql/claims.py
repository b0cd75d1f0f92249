"""Claims in SQL: a row for each sequence that was ever claimed, with its lease and epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import case, or_, update

from mercury.storage.claims import Claim
from mercury.storage.sql.errors import translated
from mercury.storage.sql.schema import CLAIM

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from mercury.storage.sql.dialect import Dialect


def take(dialect: Dialect, connection: Connection, resource: str, owner: str, now: float, lease: float) -> Claim | None:
    """Take or prolong a claim in one statement; the epoch grows when the owner changes."""
    insert = dialect.upsert(CLAIM).values(resource=resource, owner=owner, epoch=1, until=now + lease)
    mine = CLAIM.c.owner == insert.excluded.owner
    statement = insert.on_conflict_do_update(
        index_elements=[CLAIM.c.resource],
        set_={
            "owner": insert.excluded.owner,
            "until": insert.excluded.until,
            "epoch": case((mine, CLAIM.c.epoch), else_=CLAIM.c.epoch + 1),
        },
        where=or_(mine, CLAIM.c.until <= now),
    ).returning(CLAIM.c.epoch)
    with translated():
        epoch = connection.execute(statement).scalar_one_or_none()
    return Claim(resource, owner, epoch) if epoch is not None else None


def release(connection: Connection, claim: Claim) -> None:
    """Give a claim back: it has no owner, and the next owner gets a higher epoch."""
    held = update(CLAIM).where(
        CLAIM.c.resource == claim.resource, CLAIM.c.owner == claim.owner, CLAIM.c.epoch == claim.epoch
    )
    with translated():
        connection.execute(held.values(owner="", until=0.0))
