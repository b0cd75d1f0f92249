"""The rows of a source sequence that may be sent now, within a number of messages and of bytes."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    CTE,
    BigInteger,
    ColumnElement,
    and_,
    bindparam,
    case,
    cast,
    func,
    not_,
    or_,
    select,
)

from mercury.storage.sql.prepared import Prepared, sought
from mercury.storage.sql.rms_statements import BODY, BODY_COLUMNS, LIMIT, ROW, TRANSMITTED

MOST_BYTES = bindparam("most_bytes", type_=BigInteger)


def _first(wanted: ColumnElement[bool], order: ColumnElement[Any], size: ColumnElement[Any]) -> CTE:
    """The first rows, each with its counted bytes, and those of the rows up to it (``upto``)."""
    upto = cast(func.sum(size).over(order_by=order), BigInteger).label("upto")
    return select(ROW, upto, size.label("counted")).where(wanted).order_by(order).limit(LIMIT).cte("first_rows")


def _fits(first: CTE) -> ColumnElement[bool]:
    """Whether a row is within the bytes; the lowest that counts always is."""
    return or_(first.c.upto <= MOST_BYTES, first.c.upto <= first.c.counted)


def _unnumbered() -> Prepared:
    first = _first(and_(ROW.c.key_id == bindparam("key_id"), ROW.c.number.is_(None)), ROW.c.position, ROW.c.size)
    rows = select(first, *BODY_COLUMNS).join_from(first, BODY, sought(BODY.c.message_id, first.c.message_id))
    return Prepared(rows.where(_fits(first)).order_by(first.c.position))


UNNUMBERED = _unnumbered()
#: The bytes that a row takes of a window.
UNACKNOWLEDGED_BYTES = case((ROW.c.acknowledged, 0), else_=ROW.c.size)


def _window() -> tuple[CTE, ColumnElement[Any], ColumnElement[Any]]:
    """The unsettled rows that fit, and for those numbered later: the rows before them, and their bytes."""
    first = _first(TRANSMITTED, ROW.c.number, UNACKNOWLEDGED_BYTES)
    many = select(func.count()).select_from(first).scalar_subquery().label("many")
    taken = select(func.max(first.c.upto)).scalar_subquery().label("taken")
    return select(first).where(_fits(first)).cte("rows_in_window"), many, taken


def _unsettled() -> Prepared:
    window, many, taken = _window()
    rows = select(window, *BODY_COLUMNS, many, taken).join_from(
        window, BODY, sought(BODY.c.message_id, window.c.message_id)
    )
    return Prepared(rows.order_by(window.c.number))


def _unsettled_due(*, one: bool) -> Prepared:
    """Unsettled rows that are due, with their bodies; also the first row, and the one that is due next.

    :param one: only the lowest row that is due, with its body, and the one that is due next after it.
    """
    window, many, taken = _window()
    is_due: ColumnElement[bool] = window.c.due <= bindparam("now")
    if one:
        is_due = window.c.number == func.coalesce(select(func.min(window.c.number)).where(is_due).scalar_subquery(), 0)
    lowest = select(func.min(window.c.number)).scalar_subquery()
    later = select(window.c.number).where(not_(is_due)).order_by(window.c.due, window.c.number).limit(1)
    body = and_(sought(BODY.c.message_id, window.c.message_id), is_due)
    wanted = or_(is_due, window.c.number == lowest, window.c.number == later.scalar_subquery())
    rows = select(*window.c, *BODY_COLUMNS, many, taken).join_from(window, BODY, body, isouter=True)
    return Prepared(rows.where(wanted).order_by(window.c.number))


UNSETTLED = _unsettled()
UNSETTLED_DUE, UNSETTLED_ONE = _unsettled_due(one=False), _unsettled_due(one=True)
