"""The time limit of handlers.

A thread cannot be ended from outside. So a handler that takes longer than its limit is not interrupted, but its work
does not take effect: it is rolled back, and the attempt has failed. A single statement that takes longer than the limit
is ended by a database that can do that, so a handler that waits for one comes back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from mercury.engine.application import Operation
from mercury.errors import MercuryError
from mercury.storage.api import Transaction

T = TypeVar("T")


class HandlerTooSlow(MercuryError):
    """A handler took longer than its time limit."""


def within_limit(operation: Operation, tx: Transaction, monotonic: Callable[[], float], call: Callable[[], T]) -> T:
    """The result of a call of a handler, which must be made in the savepoint of its work.

    :param monotonic: seconds by a clock that is never set.
    :raises HandlerTooSlow: the call took longer than the operation's time limit, however it ended.
    """
    limit = operation.time_limit
    if limit is None:
        return call()
    began = monotonic()
    failure: Exception | None = None
    try:
        with tx.limited_statements(limit):
            result = call()
    except Exception as error:
        failure = error
    took = monotonic() - began
    if took > limit:
        raise HandlerTooSlow(
            f"it took {took:.3g} s, and its time limit is {limit:g} s: its work is rolled back"
        ) from failure
    if failure is not None:
        raise failure
    return result
