"""The enums that tables and dictionaries are asked by all the time."""

from __future__ import annotations

import enum


class Member(enum.Enum):
    """An enum whose members are cheap keys.

    There is one object for each member, so it may be hashed as an object. `enum.Enum` hashes the name, by a function in
    Python, at every look into a table.
    """

    __hash__ = object.__hash__
