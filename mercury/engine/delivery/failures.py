"""Exceptions after which a run is repeated in another way."""

from __future__ import annotations

from mercury.errors import DataError


class RowMisplaced(Exception):
    """A damaged row of a buffer has lost its number or its buffer."""


class RefusedAfterHandler(DataError):
    """The store refuses the delivery or the response of a message whose handler's work is committed."""
