"""The time limit of handlers.

A thread cannot be ended from outside. So a handler that takes longer than its limit is not interrupted, but its work
does not take effect: it is rolled back, and the attempt has failed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from mercury.engine.application import Operation
from mercury.errors import MercuryError

T = TypeVar("T")


class HandlerTooSlow(MercuryError):
    """A handler took longer than its time limit."""


def within_limit(operation: Operation, monotonic: Callable[[], float], call: Callable[[], T]) -> T:
    """The result of a call of a handler, which must be made in the savepoint of its work.

    :param monotonic: seconds by a clock that is never set.
    :raises HandlerTooSlow: the call took longer than the operation's time limit.
    """
    if operation.time_limit is None:
        return call()
    began = monotonic()
    result = call()
    took = monotonic() - began
    if took > operation.time_limit:
        raise HandlerTooSlow(
            f"it took {took:.3g} s, and its time limit is {operation.time_limit:g} s: its work is rolled back"
        )
    return result
