"""Messages that are done: acknowledged, and answered if they were requests. Those with a correlation are remembered."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from sqlalchemy import ColumnElement, Select, and_, func, or_, select

from mercury.storage.names import key_digest
from mercury.storage.searching import MOST_ROWS, MessageFilter, Page, Settled, UnknownPlace
from mercury.storage.sql.overview import select_any
from mercury.storage.sql.schema import RMS_KEPT, RMS_KEY, RMS_SEQUENCE

if TYPE_CHECKING:
    from mercury.storage.sql.transaction import SqlTransaction

KEPT, SOURCE, KEY = RMS_KEPT, RMS_SEQUENCE, RMS_KEY


def settled(tx: SqlTransaction, message_id: str | None, correlation: str | None, limit: int) -> list[Settled]:
    """Settled messages with this MessageID and this correlation; ``None`` = any."""
    wanted = ((KEPT.c.message_id, message_id), (KEPT.c.correlation, correlation))
    found = select(KEPT).where(*(column == value for column, value in wanted if value is not None))
    return [Settled(**row) for row in tx.read(_with_sequence(found.limit(limit)))]


def settled_page(tx: SqlTransaction, which: MessageFilter, after: str | None, limit: int) -> Page[Settled]:
    """Settled messages that match a filter, of which endpoint, key, sequence and times count: the newest first.

    :raises UnknownPlace: ``after`` is not from a page.
    """
    conditions: list[ColumnElement[bool]] = []
    if which.sequence is not None:
        conditions.append(or_(SOURCE.c.identifier == which.sequence, SOURCE.c.id == which.sequence))
    if which.endpoint is not None and which.key is not None:
        conditions.append(SOURCE.c.key_id == key_digest(which.endpoint, which.key))
    elif which.endpoint is not None:
        conditions.append(KEY.c.endpoint == which.endpoint)
    elif which.key is not None:
        conditions.append(KEY.c.name == which.key)
    window = select(KEPT).where(*_before(after), *_times(which))
    window = window.order_by(KEPT.c.settled_at.desc(), KEPT.c.message_id.desc())
    window = window.limit(MOST_ROWS if conditions else limit + 1)
    query = _with_sequence(window)
    rows = query.selected_columns
    ordered = query.where(*conditions).order_by(rows["settled_at"].desc(), rows["message_id"].desc())
    found = [Settled(**row) for row in tx.read(ordered.limit(limit + 1))]
    if len(found) > limit:
        return Page(tuple(found[:limit]), _place(found[limit - 1].settled_at, found[limit - 1].message_id))
    if not conditions:
        return Page(tuple(found))
    read = window.subquery("read_rows")
    (many,) = tx.read(select_any(func.count().label("many")).select_from(read))
    if many["many"] < MOST_ROWS:
        return Page(tuple(found))
    (last,) = tx.read(select(read).order_by(read.c.settled_at, read.c.message_id).limit(1))
    return Page(tuple(found), _place(last["settled_at"], last["message_id"]))


def _with_sequence(kept: Select[Any]) -> Select[Any]:
    rows = kept.subquery("kept")
    about = (SOURCE.c.identifier.label("sequence"), KEY.c.endpoint, KEY.c.name.label("key"))
    joined = rows.outerjoin(SOURCE, SOURCE.c.id == rows.c.sequence_id)
    return select(*rows.c, *about).select_from(joined.outerjoin(KEY, KEY.c.key_id == SOURCE.c.key_id))


def _times(which: MessageFilter) -> list[ColumnElement[bool]]:
    found = [KEPT.c.settled_at >= which.since] if which.since is not None else []
    return [*found, *([KEPT.c.settled_at < which.until] if which.until is not None else [])]


def _before(after: str | None) -> list[ColumnElement[bool]]:
    if after is None:
        return []
    try:
        at, message_id = json.loads(after)
        at, message_id = float(at), str(message_id)
    except (TypeError, ValueError) as error:
        raise UnknownPlace(after) from error
    same = and_(KEPT.c.settled_at == at, KEPT.c.message_id < message_id)
    return [KEPT.c.settled_at <= at, or_(KEPT.c.settled_at < at, same)]


def _place(at: float, message_id: str) -> str:
    return json.dumps([at, message_id])
