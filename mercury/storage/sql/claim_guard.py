"""The check of claims: as a query, and as a statement that fails and can be sent with the commit (decision 51)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from sqlalchemy import bindparam, select

from mercury.storage.claims import Claim
from mercury.storage.sql.claims import STORES
from mercury.storage.sql.dialect import Dialect
from mercury.storage.sql.prepared import ListOf, Prepared, among
from mercury.storage.sql.schema import CLAIM

#: Reads claims and locks their rows (shared): no other owner can take them over before the commit.
HELD = Prepared(
    select(CLAIM.c.resource, CLAIM.c.owner, CLAIM.c.epoch)
    .where(among(CLAIM.c.resource, "resources"))
    .order_by(CLAIM.c.resource)
    .with_for_update(read=True)
)
#: The beginning of the error of a claim that is lost.
LOST = "mercury: claims held"
#: Locks the rows of claims (shared), in the order of all locks: no other owner can take them over before the commit. If
#: one is lost, a text that is no number is converted, and the error ends the transaction.
GUARD = f"""
with held as (
    select c.resource from {CLAIM.name} c
    join unnest(%(guard_resources)s::text[], %(guard_owners)s::text[], %(guard_epochs)s::bigint[])
        as g(resource, owner, epoch)
        on c.resource = g.resource and c.owner = g.owner and c.epoch = g.epoch
    order by c.resource for share of c
)
select case when count(*) = %(guard_count)s::bigint then 0 else cast('{LOST}: ' || count(*) as integer) end from held
""".strip()  # noqa: S608 - the name of a table


#: The same for one claim, whose plan PostgreSQL keeps.
GUARD_OF_ONE = f"""
with held as (
    select resource from {CLAIM.name}
    where resource = %(guard_resource)s::text and owner = %(guard_owner)s::text and epoch = %(guard_epoch)s::bigint
    for share
)
select case when count(*) = 1 then 0 else cast('{LOST}: ' || count(*) as integer) end from held
""".strip()  # noqa: S608 - the name of a table


@lru_cache(maxsize=STORES)
def free_claim(dialect: Dialect) -> Prepared:
    """As `HELD` for one claim, without waiting; it finds none in a transaction that may wait at its commit, whose
    queries do not see what is committed meanwhile, or whose commit may be lost in a crash."""
    held = select(CLAIM.c.resource, CLAIM.c.owner, CLAIM.c.epoch).where(CLAIM.c.resource == bindparam("resource"))
    return Prepared(held.where(dialect.commits_at_once()).with_for_update(read=True, skip_locked=True))


def guard(claims: Sequence[Claim], dialect: Dialect) -> tuple[str, dict[str, Any]]:
    """The check of these claims, each once: its text and its parameters."""
    if len(claims) == 1:
        (claim,) = claims
        values = {"guard_resource": claim.resource, "guard_owner": claim.owner, "guard_epoch": str(claim.epoch)}
        return GUARD_OF_ONE, values
    return GUARD, _parameters(claims, dialect)


def _parameters(claims: Sequence[Claim], dialect: Dialect) -> dict[str, Any]:
    array = dialect.writers[ListOf]
    return {
        "guard_resources": array([claim.resource for claim in claims]),
        "guard_owners": array([claim.owner for claim in claims]),
        "guard_epochs": array([claim.epoch for claim in claims]),
        "guard_count": str(len(claims)),
    }
