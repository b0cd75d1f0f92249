"""Everything that an operator sees and does, on one store."""

from __future__ import annotations

import time
from collections.abc import Callable

from mercury.engine.ids import Ids
from mercury.engine.lateness import WatchSettings
from mercury.operations.acting import entry_of
from mercury.operations.bulk_actions import BulkActions
from mercury.operations.destinations import DestinationActions
from mercury.operations.letter_actions import LetterActions
from mercury.operations.letters import Letters
from mercury.operations.message_actions import MessageActions
from mercury.operations.messages import Messages
from mercury.operations.nodes import Nodes, node_lines
from mercury.operations.overview import StoreView, problems
from mercury.operations.sequences import Sequences
from mercury.operations.services import Services
from mercury.operations.steering import SequenceActions, ServiceActions
from mercury.operations.traffic import TrafficReads
from mercury.operations.transactions import InDoubt
from mercury.storage.audit import Actor, AuditEntry, AuditFilter, TargetKind
from mercury.storage.searching import Page, SequenceFilter
from mercury.storage.sql import steering
from mercury.storage.sql.reads import depth, operators
from mercury.storage.sql.store import SqlStore

#: The most endpoints, services and stuck sequences of the overview.
MOST_LINES = 20


class Operations:
    """The operator's view of a store in a database, and the actions on it. No process needs to run on the store.

    :param clock: seconds since the epoch.
    :param watch: the ages from which on a waiting message is a problem.
    """

    def __init__(
        self,
        store: SqlStore,
        clock: Callable[[], float] = time.time,
        watch: WatchSettings | None = None,
        ids: Ids | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._watch = watch or WatchSettings()
        self.sequences = Sequences(store, clock)
        self.messages = Messages(store, clock)
        self.letters = Letters(store, clock)
        self.services = Services(store, clock)
        self.nodes = Nodes(store, clock)
        self.traffic = TrafficReads(store, clock)
        self.sequence_actions = SequenceActions(store, clock, ids)
        self.destination_actions = DestinationActions(store, clock, ids)
        self.service_actions = ServiceActions(store, clock)
        self.message_actions = MessageActions(store, clock, ids)
        self.letter_actions = LetterActions(store, clock, ids)
        self.bulk_actions = BulkActions(store, clock, self.letter_actions)

    def now(self) -> float:
        """The time, in seconds since the epoch."""
        return self._clock()

    def overview(self, doubt: InDoubt | None = None) -> StoreView:
        """How much waits, and what is wrong now.

        :param doubt: the transactions in doubt; ``None`` = the databases were not asked, and the decisions are judged.
        :raises StorageError: the store failed.
        """
        now = self._clock()
        stuck = self.sequences.page(SequenceFilter(stuck=True), limit=MOST_LINES).items
        with self._store.transaction() as tx:
            figures, nodes = depth.depth(tx, MOST_LINES), node_lines(tx, now)
            refused = tx.peer_stores.refused(MOST_LINES)
        found = problems(figures, nodes, stuck, self._watch, now, doubt, refused)
        return StoreView(at=now, depth=figures, nodes=nodes, stuck=stuck, problems=found)

    def ages(self) -> dict[str, float]:
        """For how many seconds the oldest messages wait that are not acknowledged, and not handled; 0 = there are none.

        :raises StorageError: the store failed.
        """
        now = self._clock()
        with self._store.transaction() as tx:
            found = depth.depth(tx, 1)
        return {
            "not acknowledged": max(0.0, now - (found.oldest_unacknowledged or now)),
            "not handled": max(0.0, now - (found.oldest_unhandled or now)),
        }

    def note(self, actor: Actor, action: str, kind: TargetKind, target: str, *, reason: str = "") -> None:
        """Write to the audit what was done outside the store.

        :raises StorageError: the store failed.
        """
        with self._store.transaction() as tx:
            steering.note(tx, entry_of(self._clock(), actor, action, kind, target, reason=reason))

    def audit(self, which: AuditFilter | None = None, after: str | None = None, limit: int = 50) -> Page[AuditEntry]:
        """What was done by hand, the newest first.

        :param after: `Page.after` of the page before.
        :raises UnknownPlace: ``after`` is not from a page.
        :raises StorageError: the store failed.
        """
        with self._store.transaction() as tx:
            return operators.audit(tx, which or AuditFilter(), after, limit)
