"""A server without a fence: ``mercury serve tests.trial.planted.unfenced:app``.

Its commits do not look whether it is still the active member, or has its claims: what a paused member has begun is
committed when it wakes.
"""

from __future__ import annotations

from fastapi import FastAPI

from mercury.storage.sql.transaction import SqlTransaction
from mercury.trial.programs import server


def app() -> FastAPI:
    def check_nothing(tx: SqlTransaction) -> None:
        """In place of the check of the claims."""

    setattr(SqlTransaction, "_check_claims", check_nothing)  # noqa: B010
    # In the last statement of a transaction too.
    setattr(SqlTransaction, "_last_calls", lambda tx: tx.take_pending())  # noqa: B010
    return server.app()
