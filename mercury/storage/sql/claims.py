"""Claims in SQL: a row for each sequence that was ever claimed, with its lease and epoch."""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from typing import TYPE_CHECKING

from sqlalchemy import Double, Integer, Text, bindparam, case, literal, or_, select, true, update

from mercury.storage.claims import Claim
from mercury.storage.sql.errors import translated
from mercury.storage.sql.prepared import Prepared, change, fetch
from mercury.storage.sql.schema import CLAIM

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from mercury.storage.sql.dialect import Dialect

#: The stores of one process: nearly always one.
STORES = 16
RELEASE = Prepared(
    update(CLAIM)
    .where(
        CLAIM.c.resource == bindparam("of_resource"),
        CLAIM.c.owner == bindparam("of_owner"),
        CLAIM.c.epoch == bindparam("of_epoch"),
    )
    .values(owner="", until=0.0)
)


@lru_cache(maxsize=STORES)
def _taking(dialect: Dialect, *, own_clock: bool, several: bool = False) -> Prepared:
    """Takes or prolongs claims; the epoch of each grows when the owner changes.

    :param own_clock: measure the lease by the database's clock.
    :param several: take those on a list of resources.
    """
    at = dialect.clock() if own_clock else bindparam("now", type_=Double)
    owner = bindparam("of_owner", type_=Text)
    until = at + bindparam("lease", type_=Double)
    if several:
        # In one order by all processes: otherwise two could each have a row that the other waits for.
        each = dialect.each("resources")
        rows = select(each.c.value, owner, literal(1, type_=Integer), until).where(true()).order_by(each.c.value)
        insert = dialect.upsert(CLAIM).from_select(("resource", "owner", "epoch", "until"), rows)
    else:
        resource = bindparam("of_resource", type_=Text)
        insert = dialect.upsert(CLAIM).values(resource=resource, owner=owner, epoch=1, until=until)
    mine = CLAIM.c.owner == insert.excluded.owner
    taken = insert.on_conflict_do_update(
        index_elements=[CLAIM.c.resource],
        set_={
            "owner": insert.excluded.owner,
            "until": insert.excluded.until,
            "epoch": case((mine, CLAIM.c.epoch), else_=CLAIM.c.epoch + 1),
        },
        where=or_(mine, CLAIM.c.until <= at),
    )
    return Prepared(taken.returning(CLAIM.c.resource, CLAIM.c.epoch))


def take(
    dialect: Dialect, connection: Connection, resource: str, owner: str, now: float | None, lease: float
) -> Claim | None:
    """Take or prolong a claim in one statement.

    :param now: the time in seconds since the epoch; ``None`` = that of the database's clock.
    """
    values = {"of_resource": resource, "of_owner": owner, "lease": lease} | ({} if now is None else {"now": now})
    with translated():
        compiled = dialect.compiled(_taking(dialect, own_clock=now is None), values)
        rows = fetch(connection, compiled.text, compiled.parameters(values))
    return Claim(resource, owner, rows[0][1]) if rows else None


def take_all(
    dialect: Dialect, connection: Connection, resources: Collection[str], owner: str, now: float | None, lease: float
) -> list[Claim]:
    """As `take`, for many claims in one statement. Returns those that are taken."""
    values = {"resources": list(resources), "of_owner": owner, "lease": lease} | ({} if now is None else {"now": now})
    with translated():
        compiled = dialect.compiled(_taking(dialect, own_clock=now is None, several=True), values)
        rows = fetch(connection, compiled.text, compiled.parameters(values))
    return [Claim(resource, owner, epoch) for resource, epoch in rows]


def holder(connection: Connection, resource: str) -> tuple[Claim, float] | None:
    """The claim on a resource and the end of its lease, seconds since the epoch; ``None`` = no owner has it."""
    found = connection.execute(select(CLAIM).where(CLAIM.c.resource == resource, CLAIM.c.owner != "")).first()
    return None if found is None else (Claim(found.resource, found.owner, found.epoch), float(found.until))


def release(dialect: Dialect, connection: Connection, claim: Claim) -> None:
    """Give a claim back: it has no owner, and the next owner gets a higher epoch."""
    values = {"of_resource": claim.resource, "of_owner": claim.owner, "of_epoch": claim.epoch}
    with translated():
        compiled = dialect.compiled(RELEASE, values)
        change(connection, compiled.text, compiled.parameters(values))
