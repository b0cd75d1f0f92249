"""The three steps of a move: read the stage, write to the store, remove from the stage; each in its transaction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from mercury.engine.application import Application
from mercury.engine.backlog_share import sequence_limit, unblocks_rest
from mercury.engine.context import EngineContext
from mercury.engine.dead_letters import DAMAGED, dead_letter_inbound
from mercury.engine.rmd_records import marker_rows, save_rmd
from mercury.engine.stage.damage import end_row, in_place, is_over, misplaced, what_they_say, without_a_place
from mercury.engine.stage_room import StageSettings
from mercury.statemachine import effects, events
from mercury.statemachine.faults import Fault
from mercury.statemachine.invoker import InvokerBuffer
from mercury.statemachine.messages import ANONYMOUS_ENDPOINT
from mercury.statemachine.policy import DestinationPolicy
from mercury.statemachine.protocol import Protocol
from mercury.statemachine.rmd import RMDSequence
from mercury.storage.api import Transaction
from mercury.storage.buffers import BufferPart
from mercury.storage.records import InboundKind, InboundMessage, InvokerRecord, RmdRecord

#: The store does not end a sequence for silence while its source is heard at the stage: seconds.
NEVER_SILENT = 100 * 365 * 86400.0
#: The reasons of dead letters.
ENDED_IN_STORE = "its sequence was ended in the store while it was in the stage"
CLOSED_IN_STORE = "its sequence was closed in the store while it was in the stage"


@dataclass(slots=True)
class Move:
    """What is moved of one sequence."""

    buffer: InvokerRecord
    #: The sequence at the stage; ``None`` = the stage has forgotten it, long after its end.
    request: RmdRecord | None
    #: The messages that were read, in ascending order, and the rows that tell its end.
    messages: list[InboundMessage]
    markers: list[InboundMessage]
    #: The damaged rows that some of the messages were found in, by the messages' numbers.
    misplaced: dict[int, InboundMessage] = field(default_factory=dict)
    #: The messages that the store has now.
    moved: list[InboundMessage] = field(default_factory=list)
    #: Whether the store refuses a value of it.
    refused: bool = False

    @property
    def rest(self) -> bool:
        """Whether the store has not taken all of it."""
        return self.refused or len(self.moved) < len(self.messages)

    @property
    def sequence(self) -> str:
        return self.buffer.sequence

    @property
    def is_over(self) -> bool:
        """Whether no other message of the sequence can come."""
        return is_over(self.request)


def read(tx: Transaction, sequences: Iterable[str], settings: StageSettings) -> list[Move]:
    """What waits of these sequences, within the limits of one batch. The markers of an end are alone in a move.

    Each sequence has a share of the batch, because the store may have no room for all that waits of one; what the first
    ones do not use is left to the last ones.
    """
    names = list(sequences)
    buffers, requests = tx.invoker.read_many(names), tx.rmd.read_many(names)
    moves, most, size = [], settings.batch, settings.batch_bytes
    for others, name in zip(range(len(names), 0, -1), names, strict=True):
        if name not in buffers or most <= 0 or size <= 0:
            continue
        part = _waiting(tx, buffers[name], max(1, most // others), max(1, size // others))
        markers = part.markers if part.messages else tx.invoker.markers(name)
        lost = misplaced(tx, buffers[name], requests.get(name), BufferPart(markers, part.messages))
        messages = _in_places(name, part, lost)
        markers = [] if messages else markers or without_a_place(tx, name)
        if messages or markers:
            moves.append(Move(buffers[name], requests.get(name), messages, markers, lost))
        most -= len(messages) + len(markers)
        size -= sum(len(message.payload) for message in messages)
    return moves


def _waiting(tx: Transaction, buffer: InvokerRecord, most: int, size: int) -> BufferPart:
    """The lowest messages of a buffer that are still in the stage."""
    low = buffer.machine.next
    part = tx.invoker.part(buffer.sequence, low, low + most - 1, size)
    if not part.messages:  # a gap of more than a batch
        low = next(iter(tx.invoker.numbers(buffer.sequence).numbers()), 0)
        part = tx.invoker.part(buffer.sequence, low, low + most - 1, size) if low else part
    return part


def _in_places(sequence: str, part: BufferPart, lost: Mapping[int, InboundMessage]) -> list[InboundMessage]:
    """The messages that were read, and the lost ones, in ascending order."""
    rows = list(lost.values())
    found = {number: row for number, row in part.messages.items() if not rows or row not in rows}
    found |= {number: in_place(row, sequence, number) for number, row in lost.items()}
    return [found[number] for number in sorted(found)]


def write(tx: Transaction, context: EngineContext, application: Application, moves: Iterable[Move], now: float) -> None:
    """Store what the store does not have yet; sets `Move.moved`.

    :param tx: a transaction of the store, not of the stage.
    :param context: of the engine at the stage.
    :param application: as the engine of the store sees it, with the policies of its services.
    """
    moves = list(moves)
    names = [move.sequence for move in moves]
    locked, buffers = tx.rmd.lock(names), tx.invoker.read_many(names)
    rows: list[InboundMessage] = []
    for move in moves:
        record, buffer = locked.get(move.sequence), buffers.get(move.sequence)
        if record is None:
            if not move.messages:
                continue  # the store has forgotten it after its end
            record = _sequence(move, now)
            buffer = _buffer(move, record, application.policy(record.service))
            tx.rmd.insert(record)
            tx.invoker.insert(buffer)
        rows += _take(tx, context, application.policy(record.service), move, record, buffer, now)
        record.machine.heard_at(now if record.machine.tombstone else now + NEVER_SILENT)
        save_rmd(tx, context, record)
    if rows:
        tx.invoker.add(rows)


def remove(tx: Transaction, moves: Iterable[Move], retry_at: float) -> int:
    """Remove from the stage what the store has committed. Returns the number of messages.

    :param retry_at: when the sequences are read again of which the store has not taken all.

    :raises Conflict: another process has removed some of it; nothing is removed.
    """
    count = 0
    for move in sorted(moves, key=lambda each: each.sequence):  # buffers are locked in this order
        numbers = [message.number for message in move.moved]
        markers = [] if move.refused else move.markers
        if not numbers and not markers and not move.rest:
            continue
        machine = move.buffer.machine
        move.buffer.retry_at = retry_at if move.rest else None
        for number in numbers:
            machine.handle(events.MessageBuffered(number=number))
        machine.handle(events.Delivered(tuple(numbers)))
        gone = [*markers, *(row for number, row in move.misplaced.items() if number in numbers)]
        if numbers and move.is_over and not move.rest and not tx.invoker.markers(move.sequence):
            # The end is moved next: the store may forget the sequence after it, so nothing else may be moved then.
            tx.invoker.add([end_row(move.buffer, move.request)])
        for event in what_they_say(markers, move.request) if markers else ():
            machine.handle(event)
        move.buffer.consumed_bytes += sum(message.size for message in move.moved)
        tx.invoker.save_delivered(move.buffer, consumed=numbers, markers=gone)
        count += len(numbers)
    return count


def _take(
    tx: Transaction,
    context: EngineContext,
    policy: DestinationPolicy,
    move: Move,
    record: RmdRecord,
    buffer: InvokerRecord | None,
    now: float,
) -> list[InboundMessage]:
    """The rows that the buffer of a locked sequence of the store gets.

    What the store refuses for good becomes a dead letter, and its number is recorded as that of any other message: the
    stage has acknowledged it, and nothing else can become of it.
    """
    if move.markers:
        if not move.is_over:
            return []  # its last number is known, and some are missing: the end is moved when they have come
        last = move.request.machine.last_number if move.request is not None else None
        ended = record.machine.handle(events.TerminateReceived(last), now, policy)
        return marker_rows(record, ended)
    rows: list[InboundMessage] = []
    letters: dict[str, list[InboundMessage]] = {}
    # The store has at most the gaps that the stage has let come into being.
    wide = replace(policy, max_ranges=max(policy.max_ranges, record.machine.received.count + len(move.messages) + 1))
    for message in move.messages:
        if message.number in record.machine.received:
            move.moved.append(message)
            continue
        if (
            not record.machine.final  # dead letters need no room in the buffer
            and buffer is not None
            and not unblocks_rest(record, buffer, message.number)
            and sequence_limit(policy, record, buffer, message.size) is not None
        ):
            break  # the rest stays in the stage
        taken = record.machine.handle(
            events.MessageReceived(number=message.number, last=message.last and not message.damaged), now, wide
        )
        move.moved.append(message)
        fault = next((effect.fault for effect in taken if isinstance(effect, effects.RaiseFault)), None)
        if fault is not None:
            record.machine.lose(message.number)
            letters.setdefault(_reason(record, fault), []).append(message)
            continue
        record.received_bytes += message.size
        if message.damaged:
            letters.setdefault(DAMAGED, []).append(message)
        else:
            rows.append(message)
    record.machine.handle(events.AckSent(), now, policy)
    for reason, messages in letters.items():
        dead_letter_inbound(tx, context, record.service, messages, reason, now, owner=record.owner)
    if CLOSED_IN_STORE in letters and buffer is not None and not buffer.machine.cut:
        # Numbers of dead letters count as received: a buffer that waited for them would take them for damaged rows.
        rows.append(InboundMessage(sequence=record.identifier, number=0, kind=InboundKind.CUT))
    return rows


def _reason(record: RmdRecord, fault: Fault) -> str:
    """Why a message becomes a dead letter that the store refuses with this fault."""
    if record.machine.tombstone:
        return ENDED_IN_STORE
    return CLOSED_IN_STORE if record.machine.closed else f"the store refuses it: {fault.reason}"


def _sequence(move: Move, now: float) -> RmdRecord:
    """The sequence in the store: it acknowledges nothing, and ends when the sequence at the stage has ended."""
    request, buffer = move.request, move.buffer
    protocol = request.protocol if request is not None else Protocol()
    in_order_only = request is not None and request.machine.in_order_only
    machine = RMDSequence(buffer.sequence, protocol.rm, now, in_order_only=in_order_only)
    made = RmdRecord(
        machine=machine, protocol=protocol, acks_to=ANONYMOUS_ENDPOINT, created_at=now, service=buffer.service
    )
    if request is None:
        return made
    made.created_at, made.to, made.peer = request.created_at, request.to, request.peer
    made.identity, made.token = request.identity, request.token
    return made


def _buffer(move: Move, record: RmdRecord, policy: DestinationPolicy) -> InvokerRecord:
    machine = InvokerBuffer.for_policy(policy, record.protocol.rm, in_order_only=record.machine.in_order_only)
    return InvokerRecord(
        sequence=record.identifier,
        machine=machine,
        service=record.service,
        owner=record.owner,
        follows=move.buffer.follows,
    )
