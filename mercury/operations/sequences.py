"""Sequences as an operator sees them: pages, and one sequence in full."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mercury.engine.status import SequenceStatus, destination_status, status_of
from mercury.operations.reasons import Wait, why_destination_waits, why_source_waits
from mercury.operations.timelines import Happening, of_destination, of_source
from mercury.statemachine.faults import Ranges
from mercury.statemachine.messages import IncompleteSequenceBehavior
from mercury.storage.audit import AuditEntry, AuditFilter
from mercury.storage.nodes import Node
from mercury.storage.peer_stores import PeerStore
from mercury.storage.records import RmdRecord, RmsRecord, Role
from mercury.storage.searching import Count, DestinationSeen, Holder, Page, SequenceFilter, SourceSeen, UnknownPlace
from mercury.storage.sql.reads import letters, operators, sequences
from mercury.storage.sql.store import SqlStore
from mercury.storage.sql.transaction import SqlTransaction

#: The beginnings of the arguments for a following page, by side.
SOURCES, DESTINATIONS = "s", "d"
#: The most actions, and the most dead letters, in the timeline of one sequence.
MOST_HAPPENINGS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceLine:
    """One sequence in a list."""

    #: Its identifier; of a source that has none yet, its internal id.
    id: str
    status: SequenceStatus
    waiting: Count
    #: What it waits for; ``None`` = nothing is left to do.
    wait: Wait | None
    #: The operator who has suspended it.
    suspended_by: str | None = None
    #: It waits because its service is paused.
    paused: bool = False

    @property
    def why(self) -> str | None:
        """What it waits for, in words; ``None`` = nothing is left to do."""
        return None if self.wait is None else self.wait.text

    @property
    def stuck(self) -> bool:
        """Whether an operator has to look at it."""
        return self.wait is not None and self.wait.stuck

    @property
    def seen(self) -> str:
        """What an action checks: ``open``, ``closed``, ``ended`` or ``failed``, and whether it is suspended."""
        if self.status.failure is not None:
            phase = "failed"
        elif self.status.state.name.startswith("ENDED"):
            phase = "ended"
        else:
            phase = "closed" if self.status.closed else "open"
        return phase if self.suspended_by is None else f"{phase}, suspended by {self.suspended_by}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeSequence:
    """One sequence in full."""

    line: SequenceLine
    record: RmsRecord | RmdRecord
    #: Message numbers below the highest one that are not acknowledged, or have not arrived.
    gaps: Ranges
    #: Messages of its key without a number.
    unsent: Count
    #: The other direction of the pair.
    pair: SequenceLine | None
    #: The claim on it, and the node that has it, if it is known.
    holder: Holder | None
    node: Node | None
    timeline: tuple[Happening, ...]
    #: What operators have done to it, the newest first.
    audit: tuple[AuditEntry, ...]
    #: What a destination that ends incomplete does with messages behind a gap; ``None`` = a source.
    behavior: IncompleteSequenceBehavior | None = None
    #: What is known of the store that a source sends to.
    peer_store: PeerStore | None = None


class Sequences:
    """The sequences of a store in a database.

    :param clock: seconds since the epoch.
    """

    def __init__(self, store: SqlStore, clock: Callable[[], float]) -> None:
        self._store = store
        self._clock = clock

    def page(self, which: SequenceFilter, after: str | None = None, limit: int = 50) -> Page[SequenceLine]:
        """Sequences that match a filter: the sources in the order in which they were made, then the destinations.

        :param after: `Page.after` of the page before.
        :raises UnknownPlace: ``after`` is not from a page.
        :raises StorageError: the store failed.
        """
        side, place = (after[:1], after[1:]) if after else ("", None)
        if side not in ("", SOURCES, DESTINATIONS):
            raise UnknownPlace(after or "")
        now, found = self._clock(), []
        with self._store.transaction() as tx:
            if which.source is not False and side != DESTINATIONS:
                sources = sequences.source_page(tx, which, place, limit)
                found += [source_line(each, now) for each in sources.items]
                if sources.after is not None:
                    return Page(tuple(found), f"{SOURCES}{sources.after}")
                place = None
            if which.source is True:
                return Page(tuple(found))
            if len(found) >= limit:
                return Page(tuple(found), DESTINATIONS)
            received = sequences.destination_page(tx, which, place or None, limit - len(found))
        found += [destination_line(each, now) for each in received.items]
        return Page(tuple(found), None if received.after is None else f"{DESTINATIONS}{received.after}")

    def find(self, part: str, limit: int = 2) -> list[str]:
        """The identifiers that contain a text; if it is a whole one, only that.

        :raises StorageError: the store failed.
        """
        with self._store.transaction() as tx:
            return [part] if sequences.is_name(tx, part) else sequences.identifiers_with(tx, part, limit)

    def named(self, part: str, limit: int) -> tuple[SequenceLine, ...]:
        """The sequences whose identifier (or internal id) contains a text: sources, then destinations.

        A sequence whose two ends are in this store is shown by both.

        :param limit: the most identifiers that are taken from each side.
        :raises StorageError: the store failed.
        """
        now = self._clock()
        with self._store.transaction() as tx:
            names = sequences.identifiers_with(tx, part, limit)
            sources = [source_line(each, now) for each in sequences.sources_named(tx, names)]
            return (*sources, *(destination_line(each, now) for each in sequences.destinations_named(tx, names)))

    def one(self, name: str) -> WholeSequence | None:
        """The sequence with an identifier (or internal id); ``None`` = there is none.

        :raises StorageError: the store failed.
        """
        now = self._clock()
        with self._store.transaction() as tx:
            source = sequences.source(tx, name)
            if source is not None:
                return _whole_source(tx, source, now)
            destination = sequences.destination(tx, name)
            return _whole_destination(tx, destination, now) if destination is not None else None


def source_line(seen: SourceSeen, now: float) -> SequenceLine:
    """The line of a source sequence."""
    record = seen.record
    return SequenceLine(
        id=record.machine.identifier or record.id,
        status=status_of(record, seen.waiting.value),
        waiting=seen.waiting if record.machine.alive else Count(0),
        wait=why_source_waits(seen, now),
        suspended_by=seen.holder.suspended_by if seen.holder is not None else None,
    )


def destination_line(seen: DestinationSeen, now: float) -> SequenceLine:
    """The line of a destination sequence."""
    return SequenceLine(
        id=seen.record.identifier,
        status=destination_status(seen.record, seen.buffer),
        waiting=Count(seen.waiting),
        wait=why_destination_waits(seen, now),
        suspended_by=seen.holder.suspended_by if seen.holder is not None else None,
        paused=seen.waiting > 0 and seen.buffer is not None and seen.paused_by is not None,
    )


def _whole_source(tx: SqlTransaction, seen: SourceSeen, now: float) -> WholeSequence:
    record, machine = seen.record, seen.record.machine
    line = source_line(seen, now)
    key = record.channel.key
    actions = _actions(tx, line.id, str(key))
    dead = letters.of_key(tx, key.endpoint, key.name, MOST_HAPPENINGS)
    other = record.channel.pair if record.channel.role is not Role.REQUEST else record.offered
    pair = sequences.destination(tx, other) if other is not None else None
    return WholeSequence(
        line=line,
        record=record,
        gaps=tuple(machine.acknowledged.gaps(1, machine.acknowledged.highest)),
        unsent=seen.unsent,
        pair=destination_line(pair, now) if pair is not None else None,
        holder=seen.holder,
        node=operators.node(tx, seen.holder.owner) if seen.holder is not None else None,
        timeline=of_source(record, actions, [each for each in dead if each.sequence == record.id]),
        audit=actions,
        peer_store=tx.peer_stores.get(key.endpoint) if record.store is not None else None,
    )


def _whole_destination(tx: SqlTransaction, seen: DestinationSeen, now: float) -> WholeSequence:
    record, machine = seen.record, seen.record.machine
    line = destination_line(seen, now)
    actions = _actions(tx, record.identifier)
    pair = None
    if record.service is None:
        pair = sequences.source_that_offered(tx, record.identifier)
    elif record.response_channel is not None:
        answering = sequences.sources_of(tx, record.response_channel.key.digest, 1)
        pair = answering[0] if answering else None
    return WholeSequence(
        line=line,
        record=record,
        gaps=tuple(machine.received.gaps(1, max(machine.received.highest, machine.last_number or 0))),
        unsent=Count(0),
        pair=source_line(pair, now) if pair is not None else None,
        holder=seen.holder,
        node=operators.node(tx, seen.holder.owner) if seen.holder is not None else None,
        timeline=of_destination(
            record, seen.buffer, actions, letters.of_sequence(tx, record.identifier, MOST_HAPPENINGS)
        ),
        audit=actions,
        behavior=seen.buffer.machine.behavior if seen.buffer is not None else None,
    )


def _actions(tx: SqlTransaction, *targets: str) -> tuple[AuditEntry, ...]:
    found = [each for name in targets for each in _audit(tx, name)]
    return tuple(sorted(found, key=lambda each: -each.position))


def _audit(tx: SqlTransaction, target: str) -> tuple[AuditEntry, ...]:
    return operators.audit(tx, AuditFilter(target=target), None, MOST_HAPPENINGS).items
