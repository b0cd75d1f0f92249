"""Partial indexes in migrations."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa


def only_where(condition: str) -> dict[str, Any]:
    """The arguments of an index on the rows that meet a condition."""
    return {"postgresql_where": sa.text(condition), "sqlite_where": sa.text(condition)}
