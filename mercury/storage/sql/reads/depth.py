"""How much waits in a store, counted in the oldest rows of each table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import Subquery, Table, and_, case, func, literal, not_, or_, select

from mercury.storage.records import InboundKind, OutboundKind
from mercury.storage.searching import MOST_ROWS, Count, Depth, EndpointSeen, ServiceSeen
from mercury.storage.sql.overview import UNFINISHED, select_any
from mercury.storage.sql.prepared import Row
from mercury.storage.sql.reads.message_states import is_unacknowledged, is_unanswered, is_unsent
from mercury.storage.sql.reads.operators import hosting_nodes, paused_services
from mercury.storage.sql.reads.sequences import IS_SUSPENSION
from mercury.storage.sql.rms_statements import RETAINED
from mercury.storage.sql.schema import (
    CLAIM,
    DEAD_LETTER,
    DECISION,
    HEURISTIC,
    INVOKER_BUFFER,
    INVOKER_MESSAGE,
    RMS_MESSAGE,
)
from mercury.storage.sql.values import ENDPOINT_END, endpoint_in

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement

    from mercury.storage.sql.transaction import SqlTransaction

ROW, MESSAGE, BUFFER = RMS_MESSAGE, INVOKER_MESSAGE, INVOKER_BUFFER
FAILING = BUFFER.c.attempts > 0


def depth(tx: SqlTransaction, limit: int) -> Depth:
    """The figures of a store.

    :param limit: the most endpoints, and the most services: those with the oldest messages come first.
    """
    sent, received = _by_endpoint(tx, limit), _by_service(tx, limit)
    more = sent.read > MOST_ROWS
    oldest = sent.first("all_oldest_unacknowledged")
    if oldest is None and more:
        oldest = tx.rms.oldest_unacknowledged()  # it may wait behind them
    doubt = select(DECISION.c.decided_at).where(UNFINISHED).limit(MOST_ROWS + 1).subquery("read_rows")
    (doubtful,) = tx.read(
        select_any(func.count().label("read"), func.min(doubt.c.decided_at).label("oldest")).select_from(doubt)
    )
    return Depth(
        unsent=Count(sent.total("unsent"), more),
        unacknowledged=Count(sent.total("unacknowledged"), more),
        unanswered=Count(sent.total("unanswered"), more),
        unhandled=_count(received.read),
        dead_letters=_counted(tx, DEAD_LETTER),
        in_doubt=_count(doubtful["read"]),
        oldest_unacknowledged=oldest,
        oldest_unhandled=received.first("all_oldest"),
        oldest_in_doubt=doubtful["oldest"],
        endpoints=_endpoints(sent),
        services=_services(tx, received),
        failing=_counted(tx, BUFFER, FAILING),
        suspended=_counted(tx, CLAIM, IS_SUSPENSION),
        heuristic=_counted(tx, HEURISTIC),
    )


@dataclass(frozen=True, slots=True)
class _Grouped:
    """The oldest rows of a table in groups, those with the oldest row first; each group has the totals of all groups,
    so that one statement reads the table once."""

    groups: Sequence[Row]

    @property
    def read(self) -> int:
        """The rows that were counted."""
        return self.total("read")

    def total(self, name: str) -> int:
        """The sum of a column over all groups."""
        return int(self.first(f"all_{name}") or 0)  # the sum of numbers may be a Decimal

    def first(self, name: str) -> Any:
        """What is the same in all groups; ``None`` = there is no group."""
        return self.groups[0][name] if self.groups else None


def _by_endpoint(tx: SqlTransaction, limit: int) -> _Grouped:
    """Messages to send, by the beginning of their channel, which names the endpoint."""
    row = _sent().c
    # A reply that is retained is done, and is one of the rows that were read: those behind the last one are not known.
    waits = not_(row.retained)
    undone = and_(waits, or_(not_(row.acknowledged), and_(row.expects_response, not_(row.answered))))
    in_time = or_(row.not_before.is_(None), row.number.is_not(None))  # it does not wait for its time
    beginning = tx.dialect.beginning(row.channel, ENDPOINT_END).label("beginning")
    grouped = (
        select_any(
            beginning,
            func.count().label("read"),
            _sum(undone).label("many"),
            func.min(case((undone, row.created_at))).label("oldest"),
            func.max(case((undone, row.attempts))).label("attempts"),
            _sum(and_(waits, is_unsent(row))).label("unsent"),
            _sum(and_(waits, is_unacknowledged(row))).label("unacknowledged"),
            _sum(and_(waits, is_unanswered(row))).label("unanswered"),
            func.min(case((and_(waits, not_(row.acknowledged), in_time), row.created_at))).label(
                "oldest_unacknowledged"
            ),
        )
        .group_by(beginning)
        .subquery("by_endpoint")
    )
    each = grouped.c
    summed = (each.read, each.unsent, each.unacknowledged, each.unanswered)
    totals = [func.sum(column).over().label(f"all_{column.name}") for column in summed]
    totals.append(func.min(each.oldest_unacknowledged).over().label("all_oldest_unacknowledged"))
    query = select(grouped, *totals).order_by(case((each.many > 0, 0), else_=1), each.oldest).limit(limit)
    return _Grouped(tx.read(query))


def _endpoints(sent: _Grouped) -> tuple[EndpointSeen, ...]:
    """The endpoints with messages among the oldest, those with the oldest message first."""
    return tuple(
        EndpointSeen(
            endpoint=endpoint_in(row["beginning"]) or "(damaged)",
            waiting=Count(int(row["many"]), sent.read > MOST_ROWS),
            oldest=row["oldest"],
            attempts=row["attempts"],
        )
        for row in sent.groups
        if row["many"]
    )


def services(tx: SqlTransaction, limit: int) -> tuple[ServiceSeen, ...]:
    """The services with messages among the oldest, the paused ones, and those that a running node hosts."""
    return _services(tx, _by_service(tx, limit))


def _by_service(tx: SqlTransaction, limit: int) -> _Grouped:
    """Received messages by service."""
    received = _received()
    name = func.coalesce(BUFFER.c.service, literal("")).label("name")
    rows = (
        select(name, received.c.received_at)
        .join_from(received, BUFFER, BUFFER.c.sequence == received.c.sequence, isouter=True)
        .subquery("received_rows")
    )
    oldest = func.min(rows.c.received_at).label("oldest")
    grouped = select(rows.c.name, func.count().label("read"), oldest).group_by(rows.c.name).subquery("by_service")
    each = grouped.c
    totals = (func.sum(each.read).over().label("all_read"), func.min(each.oldest).over().label("all_oldest"))
    return _Grouped(tx.read(select(grouped, *totals).order_by(each.oldest).limit(limit)))


def _services(tx: SqlTransaction, received: _Grouped) -> tuple[ServiceSeen, ...]:
    more = received.read > MOST_ROWS
    failed = select(func.coalesce(BUFFER.c.service, literal("")).label("name")).where(FAILING).limit(MOST_ROWS)
    failed_rows = failed.subquery("failed")
    failing = {
        row["name"]: row["many"]
        for row in tx.read(select(failed_rows.c.name, func.count().label("many")).group_by(failed_rows.c.name))
    }
    found: dict[str, Row] = {row["name"]: row for row in received.groups}
    paused, hosted = paused_services(tx), hosting_nodes(tx)
    names = dict.fromkeys([*found, *sorted(failing), *sorted(paused), *sorted(hosted)])
    return tuple(
        ServiceSeen(
            name=name,
            waiting=Count(found[name]["read"], more) if name in found else Count(0, more),
            failing=failing.get(name, 0),
            oldest=found[name]["oldest"] if name in found else None,
            paused_at=paused[name][0] if name in paused else None,
            paused_by=paused[name][1] if name in paused else None,
            nodes=hosted.get(name, 0),
        )
        for name in names
    )


def _sent() -> Subquery:
    """The oldest messages of the application and responses. One row more than are counted shows that there are more."""
    columns = (ROW.c.key_id, ROW.c.number, ROW.c.acknowledged, ROW.c.answered, ROW.c.expects_response, ROW.c.attempts)
    more = (ROW.c.created_at, ROW.c.channel, ROW.c.not_before, RETAINED.label("retained"))
    oldest = select(*columns, *more).where(ROW.c.kind == OutboundKind.MESSAGE.value)
    return oldest.order_by(ROW.c.position).limit(MOST_ROWS + 1).subquery("sent")


def _received() -> Subquery:
    oldest = select(MESSAGE.c.sequence, MESSAGE.c.received_at).where(MESSAGE.c.kind == InboundKind.MESSAGE.value)
    return oldest.order_by(MESSAGE.c.position).limit(MOST_ROWS + 1).subquery("received")


def _counted(tx: SqlTransaction, table: Table, *where: ColumnElement[bool]) -> Count:
    window = select(literal(1).label("one")).select_from(table).where(*where).limit(MOST_ROWS + 1).subquery("counted")
    (row,) = tx.read(select(func.count().label("many")).select_from(window))
    return _count(row["many"])


def _count(many: int) -> Count:
    return Count(min(many, MOST_ROWS), many > MOST_ROWS)


def _sum(condition: ColumnElement[bool]) -> Any:
    return func.sum(case((condition, 1), else_=0))
