"""Conditions on rows of messages to send: the states of `MessageState`, and where they go."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, and_, func, not_, or_

from mercury.storage.sql.values import channel_mark


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


def is_to(row: Any, endpoint: str | None, key: str | None) -> ColumnElement[bool]:
    """Whether a message goes to an endpoint, under a key, or both. At least one is given."""
    channel: ColumnElement[str] = row.channel
    return channel != func.replace(channel, channel_mark(endpoint, key), "")
