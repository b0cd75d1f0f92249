"""Exceptions after which a run is repeated in another way."""

from __future__ import annotations

from mercury.errors import DataError


class RowMisplaced(Exception):
    """The number or the sequence of a damaged row is lost."""


class RefusedAfterHandler(DataError):
    """The store refuses the delivery or the response of a message whose handler's work is committed."""
