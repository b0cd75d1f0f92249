"""Repairs times in the tables that were written while a clock ran ahead."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import Table, Update, and_, exists, or_, select, update

from mercury.storage.claims import ACTIVE_MEMBER, SUSPENDED
from mercury.storage.maintenance import SKEW, Pauses
from mercury.storage.sql.errors import translated
from mercury.storage.sql.schema import CLAIM, INVOKER_BUFFER, RMD_SEQUENCE, RMS_SEQUENCE

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Connection


def advance_overdue(connection: Connection, now: float, lease_now: float, longest: Pauses) -> int:
    """As `RetentionStore.advance_overdue`; each statement of ``connection`` is a transaction of its own.

    :param lease_now: the time of the clock that leases are measured by.
    """
    rms, rmd, buffer, claim = RMS_SEQUENCE.c, RMD_SEQUENCE.c, INVOKER_BUFFER.c, CLAIM.c
    suspends = claim.owner.startswith(SUSPENDED, autoescape=True)  # it lasts until an operator ends it
    # That of the active member has a lease of its own, which this process does not know; the member prolongs it.
    works = and_(claim.resource != ACTIVE_MEMBER, ~suspends)
    late: list[tuple[Table, ColumnElement[bool], dict[str, Any]]] = [
        (RMS_SEQUENCE, and_(rms.planned_at > now + SKEW, rms.due > now), {"due": now, "planned_at": now}),
        (RMD_SEQUENCE, and_(rmd.ack_due > now + longest.acknowledgement, rmd.due > now), {"due": now}),
        (INVOKER_BUFFER, buffer.retry_at > now + longest.redelivery, {"retry_at": now}),
        (CLAIM, and_(claim.until > lease_now + 2 * longest.lease, works), {"until": lease_now + longest.lease}),
    ]
    with translated():
        # A query first: it locks nothing, and nearly always finds nothing.
        if not connection.execute(select(or_(*(exists().where(where) for _, where, _ in late)))).scalar_one():
            return 0
        return sum(connection.execute(_set(table, where, values)).rowcount for table, where, values in late)


def _set(table: Table, where: ColumnElement[bool], values: dict[str, Any]) -> Update:
    return update(table).where(where).values(values)
