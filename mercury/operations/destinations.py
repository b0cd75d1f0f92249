"""A destination that has another store from now on, as an operator says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from mercury.engine.ids import Ids, RandomIds
from mercury.engine.source.apply_effects import save_rms
from mercury.engine.source.peer_store import doubtful
from mercury.operations.acting import NotPossible, check, entry_of
from mercury.operations.restarting import InDoubt, restart
from mercury.statemachine.faults import Ranges
from mercury.statemachine.ranges import RangeSet
from mercury.storage.api import Topic
from mercury.storage.audit import Actor, TargetKind
from mercury.storage.peer_stores import PeerStore
from mercury.storage.records import RmsRecord
from mercury.storage.sql import steering
from mercury.storage.sql.peer_stores import at_other_stores
from mercury.storage.sql.store import SqlStore
from mercury.storage.sql.transaction import SqlTransaction
from mercury.texts import counted
from mercury.wire.values import store_id

#: The sequences that one query reads.
PART = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """A sequence at the store before, which is given up."""

    #: Its identifier; of one that was never made, its internal id.
    identifier: str
    key: str
    #: The numbers that the successor sends, and those that were sent and are not acknowledged.
    moved: Ranges
    in_doubt: Ranges


@dataclass(frozen=True, slots=True, kw_only=True)
class NewDestination:
    """What has changed."""

    endpoint: str
    #: The ids of the stores.
    before: str
    store: str
    sequences: tuple[Left, ...]
    #: What became of the messages in doubt.
    in_doubt: InDoubt


class DestinationActions:
    """Actions on destinations. `NotPossible` and `StorageError` as for `SequenceActions`.

    :param clock: seconds since the epoch.
    """

    def __init__(self, store: SqlStore, clock: Callable[[], float], ids: Ids | None = None) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids or RandomIds()

    def refused(self, limit: int) -> tuple[PeerStore, ...]:
        """The destinations for which another store has answered."""
        with self._store.transaction() as tx:
            return tuple(tx.peer_stores.refused(limit))

    def replace(
        self,
        endpoint: str,
        actor: Actor,
        *,
        store: str | None = None,
        in_doubt: InDoubt = InDoubt.REFUSE,
        expected: str | None = None,
        reason: str = "",
    ) -> NewDestination:
        """Say that a destination is a new one: it has another store from now on.

        Each of its sequences is given up in a transaction of its own, and a successor at the new store sends what was
        never sent. Repeated after a crash in between, it does the rest.

        :param store: the id of the new store; ``None`` = the one that was refused.
        :param in_doubt: what becomes of messages that were sent to the store before and are not acknowledged.
        :param expected: the other store that the operator has seen answer; ``None`` = no check.
        """
        if store is not None and store_id(store) is None:
            raise NotPossible(f"{store!r} is not the id of a store ('mercury db status' there prints it)")
        with self._store.transaction() as tx:
            known = tx.peer_stores.get(endpoint)
            if known is None:
                raise NotPossible(f"no destination {endpoint} has stated a store")
            check(f"the other store that answers for {endpoint}", expected, known.refused or "none")
            chosen = store or known.refused
            if chosen is None or store_id(chosen) is None:
                raise NotPossible(f"no other store has stated its id for {endpoint}: name the new one by its id")
            left = list(self._left(tx, endpoint, chosen))
            if in_doubt is InDoubt.REFUSE:
                _refuse_doubt(left)
            tx.peer_stores.replace(endpoint, chosen, self._clock())
            before, after = {"store": known.store}, {"store": chosen, "in_doubt_messages": in_doubt.value}
            steering.note(
                tx, entry_of(self._clock(), actor, "replace", TargetKind.DESTINATION, endpoint, before, after, reason)
            )
        done = [self._give_up(each, chosen, in_doubt, actor, reason) for each in left]
        return NewDestination(
            endpoint=endpoint,
            before=known.store,
            store=chosen,
            sequences=tuple(each for each in done if each is not None),
            in_doubt=in_doubt,
        )

    def _left(self, tx: SqlTransaction, endpoint: str, store: str) -> Iterator[RmsRecord]:
        """The open sequences of a destination that are at other stores."""
        after: int | None = 0
        while after is not None:
            found, after = at_other_stores(tx, store, after, PART)
            yield from (each for each in found if each.channel.endpoint == endpoint)

    def _give_up(self, seen: RmsRecord, store: str, in_doubt: InDoubt, actor: Actor, reason: str) -> Left | None:
        """Give a sequence up; ``None`` = it has ended meanwhile."""
        key = seen.channel.key
        with self._store.transaction() as tx:
            tx.rms.lock([key])
            record = next((each for each in tx.rms.records(key) if each.id == seen.id), None)
            if record is None or not record.machine.alive or record.store in (None, store):
                return None
            if record.machine.identifier is None:  # nothing was sent: the new store is asked to create it
                record.store, record.due = store, self._clock()
                save_rms(tx, record)
                tx.topics.add(Topic.RMS)
                return Left(identifier=record.id, key=key.name, moved=(), in_doubt=())
            record.last_error = f"its destination is a new one, says {actor.name}"
            # What was sent since the look counts as in doubt too, and is not repeated without a request.
            choice = InDoubt.PARK if in_doubt is InDoubt.REFUSE else in_doubt
            done = restart(tx, self._store, self._ids, record, choice, self._clock())
            tx.topics.add(Topic.RMS)
            name = record.machine.identifier or record.id
            after = {"moved": done.moved, "in_doubt": done.doubtful, "in_doubt_messages": choice.value, "store": store}
            before = {"store": record.store}
            steering.note(
                tx, entry_of(self._clock(), actor, "replace", TargetKind.SEQUENCE, name, before, after, reason)
            )
        return Left(identifier=name, key=key.name, moved=done.moved, in_doubt=done.doubtful)


def _refuse_doubt(left: list[RmsRecord]) -> None:
    many = sum(RangeSet(doubtful(each.machine)).count for each in left)
    if many:
        raise NotPossible(
            f"{counted(many, 'message was sent and is', 'messages were sent and are')} not acknowledged, so the store "
            "before may have them. Sending them to the new one may repeat their effect: ask for it explicitly "
            "(--even-if-unknown), or make them dead letters (--park-unknown)"
        )
