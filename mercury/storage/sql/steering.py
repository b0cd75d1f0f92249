"""Changes by operators: suspended sequences, paused services, and the audit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import delete, update

from mercury.storage.audit import AuditEntry
from mercury.storage.claims import FOREVER, SUSPENDED
from mercury.storage.sql.reads.operators import audit_values
from mercury.storage.sql.reads.sequences import IS_SUSPENSION
from mercury.storage.sql.schema import AUDIT, CLAIM, PAUSED_SERVICE

if TYPE_CHECKING:
    from mercury.storage.sql.transaction import SqlTransaction


def suspend(tx: SqlTransaction, resource: str, by: str) -> None:
    """Take the claim on a resource, also from the process that has it, until `resume`.

    What that process does under its claim is rolled back: its commit is conditional on the epoch.
    """
    taken = tx.dialect.upsert(CLAIM).values(resource=resource, owner=f"{SUSPENDED}{by}", epoch=1, until=FOREVER)
    again = taken.on_conflict_do_update(
        index_elements=[CLAIM.c.resource],
        set_={"owner": taken.excluded.owner, "until": FOREVER, "epoch": CLAIM.c.epoch + 1},
    )
    tx.write(again)


def resume(tx: SqlTransaction, resource: str) -> bool:
    """Give a claim back that suspends a resource. Returns whether there was one."""
    changed = update(CLAIM).where(CLAIM.c.resource == resource, IS_SUSPENSION).values(owner="", until=0.0)
    return tx.write(changed) > 0


def pause_service(tx: SqlTransaction, service: str, at: float, by: str) -> bool:
    """Let no process call a handler of a service. Returns ``False`` if it was paused already."""
    paused = tx.dialect.upsert(PAUSED_SERVICE).values(service=service, paused_at=at, paused_by=by)
    return bool(tx.read_locked(paused.on_conflict_do_nothing().returning(PAUSED_SERVICE.c.service)))


def resume_service(tx: SqlTransaction, service: str) -> bool:
    """End the pause of a service. Returns whether there was one."""
    return tx.write(delete(PAUSED_SERVICE).where(PAUSED_SERVICE.c.service == service)) > 0


def note(tx: SqlTransaction, *entries: AuditEntry) -> None:
    """Add actions to the audit, by one statement."""
    tx.insert(AUDIT, [audit_values(entry) for entry in entries])
