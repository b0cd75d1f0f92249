"""An exception of an application whose text cannot be read."""

from __future__ import annotations


class Unreadable(ValueError):
    """Its ``__str__`` raises, and what it raises cannot be read either."""

    def __str__(self) -> str:
        raise self
