"""Finds the messages of a stage whose rows are damaged so that they have lost their number or their sequence."""

from __future__ import annotations

from dataclasses import replace

from mercury.engine.lost_rows import lost_rows
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


def _may_miss(buffer: InvokerRecord, request: RmdRecord, part: BufferPart) -> bool:
    """Whether a number that has come to the stage has no row, as far as it was read."""
    if any(row.damaged for row in part.markers):  # also one that has the number of another message
        return True
    received, here = request.machine.received, buffer.machine.passed.copy()
    here.update((number, number) for number in sorted(part.messages))
    read_to = max(part.messages, default=received.highest)
    return any(True for low, high in received if low <= read_to for _ in here.gaps(low, min(high, read_to)))
