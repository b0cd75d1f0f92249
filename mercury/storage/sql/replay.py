"""Messages with WS-Security that were received, in SQL."""

from __future__ import annotations

from collections.abc import Mapping

from mercury.storage.sql.schema import REPLAY
from mercury.storage.sql.statements import Statements


class SqlReplay:
    """`ReplayCache` of one transaction."""

    def __init__(self, transaction: Statements) -> None:
        self._tx = transaction

    def add(self, digests: Mapping[str, float]) -> frozenset[str]:
        if not digests:
            return frozenset()
        # In one order: two transactions that add the same digests would otherwise wait for each other.
        rows = [{"digest": digest, "expires": digests[digest]} for digest in sorted(digests)]
        insert = self._tx.dialect.upsert(REPLAY).values(rows).on_conflict_do_nothing().returning(REPLAY.c.digest)
        new = {row["digest"] for row in self._tx.read_locked(insert)}
        return frozenset(digests.keys() - new)
