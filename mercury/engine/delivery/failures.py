"""Why a run is done again in another way."""

from __future__ import annotations

from mercury.errors import DataError


class RowMisplaced(Exception):
    """A row of a buffer has lost its place."""


class RefusedAfterHandler(DataError):
    """The store refuses what comes of a message whose handler's work is committed."""
