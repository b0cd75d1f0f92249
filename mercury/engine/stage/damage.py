"""Finds what the damaged rows of a stage were that have lost their number or their sequence: messages, and ends."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

from mercury.engine.lost_rows import lost_rows
from mercury.statemachine import events
from mercury.storage.api import Transaction
from mercury.storage.buffers import BufferPart
from mercury.storage.records import InboundKind, InboundMessage, InvokerRecord, RmdRecord


def misplaced(
    tx: Transaction, buffer: InvokerRecord, request: RmdRecord | None, part: BufferPart
) -> dict[int, InboundMessage]:
    """The damaged rows that hold the messages of a buffer which are not in their places, by the messages' numbers.

    A number whose row is not found at all gets an empty one. Usually there is none, and no row is read to find that.

    :param request: the sequence at the stage; it and the buffer are read in the transaction that has read ``part``.
    :param part: what was read of the buffer.
    """
    if request is None or not _may_miss(buffer, request, part):
        return {}
    rows, missing = lost_rows(tx, buffer, request)
    # A row without a buffer may belong to any sequence: those that name this one come first.
    found = iter(sorted((row for row in rows if row.action), key=lambda row: row.sequence != buffer.sequence))
    empty = InboundMessage(sequence=buffer.sequence, number=0, damaged=True)
    return dict.fromkeys(missing, empty) | dict(zip(missing, found, strict=False))


def in_place(row: InboundMessage, sequence: str, number: int) -> InboundMessage:
    """A misplaced row as the message that it was: still damaged."""
    return replace(row, sequence=sequence, number=number, kind=InboundKind.MESSAGE)


def is_over(request: RmdRecord | None) -> bool:
    """Whether no other message of the sequence can come.

    :param request: the sequence at the stage; ``None`` = the stage has forgotten it, long after its end.
    """
    return request is None or request.machine.complete or request.machine.tombstone


def what_they_say(markers: Iterable[InboundMessage], request: RmdRecord | None) -> Iterator[events.InvokerInput]:
    """What its markers tell a buffer of the end; those that are damaged or lost are replaced by what its sequence
    says."""
    for marker in markers:
        if not marker.damaged:
            yield events.LastKnown(marker.number) if marker.kind is InboundKind.END else events.Cut()
    if request is not None and request.machine.last_number is not None:
        yield events.LastKnown(request.machine.last_number)
    if is_over(request) and (request is None or not request.machine.complete):
        yield events.Cut()


def without_a_place(tx: Transaction, sequence: str) -> list[InboundMessage]:
    """The damaged markers of a buffer that look like messages without a number."""
    return [row for row in tx.invoker.damaged(sequence) if row.sequence == sequence and not row.action]


def end_row(buffer: InvokerRecord, request: RmdRecord | None) -> InboundMessage:
    """A marker that tells the end of a sequence that is over."""
    last = request.machine.last_number if request is not None and request.machine.complete else None
    if last is None:
        return InboundMessage(sequence=buffer.sequence, number=0, kind=InboundKind.CUT)
    return InboundMessage(sequence=buffer.sequence, number=last, kind=InboundKind.END)


def restore_ends(tx: Transaction, sequences: Collection[str], *, complete: bool) -> None:
    """Tell the ends of sequences again whose markers have lost their sequence: nothing would move them, and the
    sequences that follow would wait for ever.

    :param sequences: some that are not moved to their end.
    :param complete: these are all: then the rows of the markers are of no use any more, and are removed.
    """
    buffers, requests = tx.invoker.read_many(sequences), tx.rmd.read_many(sequences)
    for name, buffer in buffers.items():
        if is_over(requests.get(name)) and not tx.invoker.markers(name) and not tx.invoker.numbers(name):
            tx.invoker.add([end_row(buffer, requests.get(name))])
    left = [row for row in tx.invoker.damaged("") if not row.action] if buffers and complete else []
    if left:
        tx.invoker.save_delivered(next(iter(buffers.values())), consumed=(), markers=left)


def _may_miss(buffer: InvokerRecord, request: RmdRecord, part: BufferPart) -> bool:
    """Whether a number that has come to the stage has no row, as far as it was read."""
    if any(row.damaged for row in part.markers):  # also one that has the number of another message
        return True
    received, here = request.machine.received, buffer.machine.passed.copy()
    here.update((number, number) for number in sorted(part.messages))
    read_to = max(part.messages, default=received.highest)
    return any(True for low, high in received if low <= read_to for _ in here.gaps(low, min(high, read_to)))
