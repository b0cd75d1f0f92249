"""Actions of operators on sequences and services. Each is one transaction, with its entry in the audit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mercury.client.inbound_ends import request_end
from mercury.engine.ids import Ids, RandomIds
from mercury.errors import SequenceError
from mercury.operations.acting import NotPossible, check, entry_of
from mercury.operations.restarting import InDoubt, Restarted, restart
from mercury.operations.sequences import SequenceLine, destination_line, source_line
from mercury.statemachine.events import DestinationEnd
from mercury.statemachine.rms_table import RmsState
from mercury.storage.api import Topic
from mercury.storage.audit import Actor, TargetKind
from mercury.storage.names import destination_claim, source_claim
from mercury.storage.records import OutboundKind, OutboundMessage, RmsRecord
from mercury.storage.searching import SourceSeen
from mercury.storage.sql import steering
from mercury.storage.sql.reads import operators, sequences
from mercury.storage.sql.store import SqlStore
from mercury.storage.sql.transaction import SqlTransaction
from mercury.texts import counted


@dataclass(frozen=True, slots=True)
class _Found:
    """A sequence that an action is for."""

    line: SequenceLine
    #: The resource of its claim, and the kind of work on it.
    resource: str
    topic: Topic
    #: Of a source.
    record: RmsRecord | None


class SequenceActions:
    """Actions on sequences, by identifier; of a source that has none yet, by internal id.

    Each takes ``expected``, the `SequenceLine.seen` that the operator saw (``None`` = no check), and ``reason`` for the
    audit. Each raises `Changed` if the sequence is another one now, `NotPossible` if the action cannot be done, and
    `StorageError` if the store failed; then nothing is changed.

    :param clock: seconds since the epoch.
    """

    def __init__(self, store: SqlStore, clock: Callable[[], float], ids: Ids | None = None) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids or RandomIds()

    def suspend(self, name: str, actor: Actor, *, expected: str | None = None, reason: str = "") -> None:
        """Let no process work on a sequence until `resume`, also after restarts.

        A source sends nothing under its key, and a destination delivers nothing. Messages are still taken from the
        application, received and acknowledged. What a process does at this moment is rolled back, or, if it is on the
        wire, not repeated.
        """
        with self._store.transaction() as tx:
            found = self._found(tx, name)
            check(f"the sequence {name}", expected, found.line.seen)
            if found.line.suspended_by is not None:
                raise NotPossible(f"it is suspended by {found.line.suspended_by} already")
            if found.record is not None and (found.record.channel.back_channel or found.record.channel.polled):
                raise NotPossible("its messages leave when its client fetches them: only the client can stop that")
            steering.suspend(tx, found.resource, actor.name)
            self._note(tx, actor, "suspend", found, after={"suspended_by": actor.name}, reason=reason)

    def resume(self, name: str, actor: Actor, *, expected: str | None = None, reason: str = "") -> None:
        """End the suspension of a sequence: its work is due at once."""
        with self._store.transaction() as tx:
            found = self._found(tx, name)
            check(f"the sequence {name}", expected, found.line.seen)
            if not steering.resume(tx, found.resource):
                raise NotPossible("it is not suspended")
            tx.topics.add(found.topic)
            before = {"suspended_by": found.line.suspended_by}
            self._note(tx, actor, "resume", found, before=before, after={"suspended_by": None}, reason=reason)

    def close(self, name: str, actor: Actor, *, expected: str | None = None, reason: str = "") -> None:
        """Close a sequence: it takes no new message. A source ends when everything is acknowledged, and later messages
        of its key go to a successor; a destination delivers what it has received. A process on the store does it.
        """
        self._end(name, actor, "close", DestinationEnd.CLOSE, OutboundKind.END, expected, reason)

    def terminate(self, name: str, actor: Actor, *, expected: str | None = None, reason: str = "") -> None:
        """Terminate a sequence. Messages of a source that are not acknowledged become dead letters. What a destination
        has received behind a gap is delivered or not by its IncompleteSequenceBehavior. A process on the store does it.
        """
        self._end(name, actor, "terminate", DestinationEnd.TERMINATE, OutboundKind.ABANDON, expected, reason)

    def restart(
        self,
        name: str,
        actor: Actor,
        *,
        in_doubt: InDoubt = InDoubt.REFUSE,
        expected: str | None = None,
        reason: str = "",
    ) -> Restarted:
        """Give a source sequence up, and send what it has not sent yet in a successor.

        :param in_doubt: what becomes of messages that were sent and not acknowledged.
        """
        with self._store.transaction() as tx:
            found = self._found(tx, name)
            check(f"the sequence {name}", expected, found.line.seen)
            if found.record is None:
                raise NotPossible("its source decides whether it restarts: it can be closed or terminated here")
            tx.rms.lock([found.record.channel.key])
            records = {each.id: each for each in tx.rms.records(found.record.channel.key)}
            record = records.get(found.record.id)
            if record is None or not record.machine.alive:
                raise NotPossible("it has ended")
            if record.channel.back_channel or record.channel.polled:
                raise NotPossible("its messages leave when its client fetches them: it ends with the client's sequence")
            record.last_error = f"restarted in a successor by {actor.name}"
            done = restart(tx, self._store, self._ids, record, in_doubt, self._clock())
            tx.topics.add(Topic.RMS)
            after = {"moved": done.moved, "in_doubt": done.doubtful, "in_doubt_messages": in_doubt.value}
            self._note(tx, actor, "restart", found, before={"state": found.line.seen}, after=after, reason=reason)
        return done

    def _end(
        self,
        name: str,
        actor: Actor,
        action: str,
        received: DestinationEnd,
        sent: OutboundKind,
        expected: str | None,
        reason: str,
    ) -> None:
        with self._store.transaction() as tx:
            found = self._found(tx, name)
            check(f"the sequence {name}", expected, found.line.seen)
            before = {"state": found.line.seen}
            if found.record is None:
                try:
                    request_end(tx, name, received)
                except SequenceError as error:
                    raise NotPossible(str(error)) from error
            else:
                self._end_source(tx, name, found.record, sent)
            self._note(tx, actor, action, found, before=before, after={"requested": action}, reason=reason)

    def _end_source(self, tx: SqlTransaction, name: str, record: RmsRecord, kind: OutboundKind) -> None:
        tx.rms.lock([record.channel.key])
        records = tx.rms.records(record.channel.key)
        if not any(each.id == record.id and each.machine.alive for each in records):
            raise NotPossible(f"the sequence {name} has ended")
        if record.channel.plain or record.channel.back_channel or record.channel.polled:
            raise NotPossible("it carries responses that its client fetches: it ends with the client's sequence")
        newest = records[-1]
        if newest.id != record.id:  # what ends a key, ends its newest sequence
            raise NotPossible(
                f"it takes no more messages, and all of its own are acknowledged: {_ends_when(record)}. Later messages "
                f"of its key go to {_name(newest)}, the newest sequence: name that one if it is to end"
            )
        end = OutboundMessage(message_id=self._ids.new(), channel=record.channel, kind=kind, created_at=self._clock())
        if record.machine.state is not RmsState.NEW:  # the key only waits: the sequence gets a new id at every look
            end.sequence_id = record.id  # the key may have a successor before the end is carried out
        tx.rms.append(end)

    def _found(self, tx: SqlTransaction, name: str) -> _Found:
        now = self._clock()
        source: SourceSeen | None = sequences.source(tx, name)
        if source is not None:
            record = source.record
            return _Found(source_line(source, now), source_claim(record.channel.key.digest), Topic.RMS, record)
        destination = sequences.destination(tx, name)
        if destination is None:
            raise NotPossible(f"there is no sequence {name}")
        return _Found(destination_line(destination, now), destination_claim(name), Topic.INVOKER, None)

    def _note(
        self,
        tx: SqlTransaction,
        actor: Actor,
        action: str,
        found: _Found,
        *,
        before: Mapping[str, object] | None = None,
        after: Mapping[str, object] | None = None,
        reason: str = "",
    ) -> None:
        steering.note(
            tx, entry_of(self._clock(), actor, action, TargetKind.SEQUENCE, found.line.id, before, after, reason)
        )


def _name(record: RmsRecord) -> str:
    return record.machine.identifier or record.id


def _ends_when(record: RmsRecord) -> str:
    """When a sequence ends that has a successor."""
    machine = record.machine
    if not machine.unanswered or machine.abandoned:
        return "its end is being sent, and it ends by itself"
    awaited = counted(machine.unanswered, "response has", "responses have")
    return f"it ends when {awaited} come. If none comes, an operator gives it up: mercury sequences restart"


class ServiceActions:
    """Actions on services. `Changed`, `NotPossible` and `StorageError` as for `SequenceActions`.

    :param clock: seconds since the epoch.
    """

    def __init__(self, store: SqlStore, clock: Callable[[], float]) -> None:
        self._store = store
        self._clock = clock

    def pause(self, service: str, actor: Actor, *, reason: str = "") -> None:
        """Let no process on the store call a handler of a service until `resume`. Messages are still received and
        acknowledged. Calls that run at this moment end, with the others of their run."""
        if not service:
            raise NotPossible("responses belong to no service: their sequences can be suspended")
        with self._store.transaction() as tx:
            now = self._clock()
            if not steering.pause_service(tx, service, now, actor.name):
                raise NotPossible(f"the service {service} is paused already")
            after = {"paused_by": actor.name}
            steering.note(
                tx,
                entry_of(
                    self._clock(), actor, "pause", TargetKind.SERVICE, service, {"paused_by": None}, after, reason
                ),
            )

    def resume(self, service: str, actor: Actor, *, reason: str = "") -> None:
        """End the pause of a service."""
        with self._store.transaction() as tx:
            paused = operators.paused_services(tx).get(service)
            if paused is None or not steering.resume_service(tx, service):
                raise NotPossible(f"the service {service} is not paused")
            tx.topics.add(Topic.INVOKER)
            before = {"paused_by": paused[1], "paused_at": paused[0]}
            steering.note(
                tx,
                entry_of(
                    self._clock(), actor, "resume", TargetKind.SERVICE, service, before, {"paused_by": None}, reason
                ),
            )
