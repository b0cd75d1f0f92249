"""Enums that are keys of tables on the hot path: their hash is the object's."""

from __future__ import annotations

import enum


class HashedEnum(enum.Enum):
    """An enum whose members are cheap keys.

    There is one object for each member, so it may be hashed as an object. `enum.Enum` hashes the name, by a function in
    Python, at every look-up in a table.
    """

    __hash__ = object.__hash__
