"""The processes on a store as an operator sees them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mercury.storage.nodes import Node
from mercury.storage.sql.reads import operators
from mercury.storage.sql.store import SqlStore
from mercury.storage.sql.transaction import SqlTransaction

#: Seconds of silence after which a node counts as gone: several of the periods in which it says that it runs.
SILENT_AFTER = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLine:
    """One node."""

    node: Node
    #: How long it has not said that it runs, in seconds.
    silence: float
    #: How many sequences it works on: claims that have not expired.
    claims: int

    @property
    def alive(self) -> bool:
        """Whether it was seen lately."""
        return self.silence <= SILENT_AFTER


class Nodes:
    """The nodes of a store in a database.

    :param clock: seconds since the epoch.
    """

    def __init__(self, store: SqlStore, clock: Callable[[], float]) -> None:
        self._store = store
        self._clock = clock

    def all(self) -> tuple[NodeLine, ...]:
        """The nodes that have not stopped in an orderly way, the newest first.

        :raises StorageError: the store failed.
        """
        with self._store.transaction() as tx:
            return node_lines(tx, self._clock())


def node_lines(tx: SqlTransaction, now: float) -> tuple[NodeLine, ...]:
    """The nodes with their claims."""
    claims = operators.claims_by_owner(tx, now)
    return tuple(
        NodeLine(node=each, silence=max(0.0, now - each.seen_at), claims=claims.get(each.id, 0))
        for each in operators.nodes(tx)
    )
