"""What the processes on a store have done lately, by minute and by service."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sqlalchemy import Subquery, func, select

from mercury.storage.nodes import Traffic
from mercury.storage.searching import MOST_ROWS
from mercury.storage.sql.nodes import SUMS
from mercury.storage.sql.overview import select_any
from mercury.storage.sql.schema import TRAFFIC

if TYPE_CHECKING:
    from mercury.storage.sql.transaction import SqlTransaction


def by_service(tx: SqlTransaction, since: int) -> list[Traffic]:
    """The sums of each service.

    :param since: the first minute.
    """
    rows = _rows(since, None)
    query = select_any(rows.c.service, *_sums(rows)).group_by(rows.c.service).order_by(rows.c.service)
    return [Traffic(row["service"], **_values(row)) for row in tx.read(query)]


def by_minute(tx: SqlTransaction, since: int, service: str | None = None) -> dict[int, Traffic]:
    """The sums of each minute in which something was done.

    :param since: the first minute.
    :param service: only of this service; ``None`` = of all.
    """
    rows = _rows(since, service)
    query = select_any(rows.c.minute, *_sums(rows)).group_by(rows.c.minute).order_by(rows.c.minute)
    return {row["minute"]: Traffic(service or "", **_values(row)) for row in tx.read(query)}


def _rows(since: int, service: str | None) -> Subquery:
    """The newest rows: of many processes with many services, a bounded number."""
    read = select(TRAFFIC).where(TRAFFIC.c.minute >= since)
    read = read.where(TRAFFIC.c.service == service) if service is not None else read
    return read.order_by(TRAFFIC.c.minute.desc()).limit(MOST_ROWS).subquery("traffic")


def _sums(rows: Subquery) -> Sequence[Any]:
    return [func.sum(rows.c[name]).label(name) for name in SUMS]


def _values(row: Any) -> dict[str, Any]:
    """The sums as Python's numbers; PostgreSQL gives decimals."""
    return {name: float(row[name]) if name == "seconds" else int(row[name]) for name in SUMS}
