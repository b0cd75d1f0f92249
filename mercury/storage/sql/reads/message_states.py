"""The states of `MessageState` as SQL, for rows of messages to send."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, and_, not_, or_


def is_unsent(row: Any) -> ColumnElement[bool]:
    """See `MessageState.UNSENT`.

    :param row: the columns of a table, or of a query, with those of messages to send.
    """
    return and_(not_(row.acknowledged), or_(row.number.is_(None), row.attempts == 0))


def is_unacknowledged(row: Any) -> ColumnElement[bool]:
    """See `MessageState.UNACKNOWLEDGED`."""
    return and_(not_(row.acknowledged), row.number.is_not(None), row.attempts > 0)


def is_unanswered(row: Any) -> ColumnElement[bool]:
    """See `MessageState.UNANSWERED`."""
    return and_(row.acknowledged, row.expects_response, not_(row.answered))
