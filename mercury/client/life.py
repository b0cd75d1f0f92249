"""The life of a message: when it may be delivered at the earliest and at the latest."""

from __future__ import annotations

import math
from typing import TypedDict

from mercury.errors import ConfigurationError


class Life(TypedDict, total=False):
    """The keyword arguments of each call that sends: the times of one message. ``None`` = as if it were left out."""

    #: Seconds from the call on after which the message is not delivered any more: it becomes a dead letter whose reason
    #: begins with *expired*.
    expires_in: float | None
    #: The same as a time, in seconds since the epoch.
    expires_at: float | None
    #: The message is not sent before this time, in seconds since the epoch. Later messages of its key wait behind it.
    not_before: float | None


def times_of(life: Life, now: float) -> tuple[float | None, float | None]:
    """When a message expires, and before when it is not sent.

    :param now: seconds since the epoch.
    :raises ConfigurationError: a time is no number, both ends of the life are given, it is over before it begins, or
        ``expires_in`` is not positive.
    """
    unknown = life.keys() - Life.__annotations__.keys()
    if unknown:
        raise TypeError(f"unexpected keyword argument {min(unknown)!r}")
    expires_in, expires_at, not_before = life.get("expires_in"), life.get("expires_at"), life.get("not_before")
    for name, value in (("expires_in", expires_in), ("expires_at", expires_at), ("not_before", not_before)):
        if value is not None and not math.isfinite(value):
            raise ConfigurationError(f"{name} is {value}: it must be a number of seconds")
    if expires_in is not None:
        if expires_at is not None:
            raise ConfigurationError("expires_in and expires_at are given: a message has one end of its life")
        if expires_in <= 0:
            raise ConfigurationError(f"expires_in is {expires_in:g}: it must be above 0")
        expires_at = now + expires_in
    if not_before is not None and not_before <= now:
        not_before = None
    if expires_at is not None and expires_at <= (not_before or now):
        raise ConfigurationError("the message expires before it may be sent")
    return expires_at, not_before
