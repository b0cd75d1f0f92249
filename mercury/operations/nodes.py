"""The processes on a store as an operator sees them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from mercury.storage.nodes import Node
from mercury.storage.sql.reads import operators
from mercury.storage.sql.store import SqlStore
from mercury.storage.sql.transaction import SqlTransaction
from mercury.texts import counted, span

#: Seconds of silence after which a node may be gone: more than the period in which it says that it runs (15 s).
LATE_AFTER = 20.0
#: Seconds of silence after which a node counts as gone: several of these periods.
SILENT_AFTER = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLine:
    """One node."""

    node: Node
    #: How long it has not said that it runs, in seconds.
    silence: float
    #: How many sequences it works on: claims that have not expired.
    claims: int
    #: Seconds until the last of these claims expires; 0 = it has none.
    claimed_for: float = 0.0
    #: It is not `alive`, has no claim any more, and a node that is alive hosts the same services.
    replaced: bool = False

    @property
    def alive(self) -> bool:
        """Whether it was seen lately."""
        return self.silence <= SILENT_AFTER

    @property
    def late(self) -> bool:
        """Whether it should have said meanwhile that it runs."""
        return self.silence > LATE_AFTER

    @property
    def up(self) -> float:
        """How long it has run, in seconds: until now, or until it was last seen."""
        return max(0.0, self.node.seen_at - self.node.started_at) + (self.silence if self.alive else 0.0)

    @property
    def holds(self) -> str | None:
        """What waits because this node is silent, in words; ``None`` = it is not, or it holds nothing."""
        if not (self.late and self.claims):
            return None
        held = counted(self.claims, "sequence that it claimed is", "sequences that it claimed are")
        return f"{held} free again in {span(self.claimed_for)}"

    @property
    def consequence(self) -> str | None:
        """What its silence means for others, in words; ``None`` = nothing that is known."""
        return "others host its services" if self.replaced else self.holds

    @property
    def state(self) -> str:
        """In words that follow its name: it runs, or for how long it has not been seen, and the consequence."""
        if self.alive and self.holds is None:
            return "runs"
        silent = f"has not been seen for {span(self.silence)}"
        return silent if self.consequence is None else f"{silent}; {self.consequence}"


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
    lines = []
    for each in operators.nodes(tx):
        held, until = claims.get(each.id, (0, now))
        silence = max(0.0, now - each.seen_at)
        lines.append(NodeLine(node=each, silence=silence, claims=held, claimed_for=max(0.0, until - now)))
    serving = [each for each in lines if each.alive]
    return tuple(replace(each, replaced=_is_replaced(each, serving)) for each in lines)


def _is_replaced(gone: NodeLine, serving: list[NodeLine]) -> bool:
    """Whether others do what a node did, and nothing waits for it any more."""
    if gone.alive or gone.claims:
        return False
    return any(set(gone.node.services) <= set(each.node.services) for each in serving)
