"""The part of a request that is read next."""

from __future__ import annotations

import enum


class Reading(enum.Enum):
    """The part of a request that is read next."""

    NOTHING = "nothing"
    HEAD = "head"
    BODY = "body"
