"""Finds damaged rows of an invoker buffer whose number or sequence is lost, and the messages that were in them."""

from __future__ import annotations

from itertools import count, takewhile

from mercury.statemachine.ranges import RangeSet
from mercury.storage.api import Transaction
from mercury.storage.records import InboundMessage, InvokerRecord, RmdRecord


def lost_rows(
    tx: Transaction, record: InvokerRecord, request: RmdRecord | None
) -> tuple[list[InboundMessage], list[int]]:
    """The misplaced rows, and the numbers of the messages that are lost with them.

    A message that was received and not passed, but has no row here, was in one of these rows; its source does not send
    it again. A damaged row that still has the number of a received message is not misplaced: it is dropped in order,
    with a fault to its sender.

    :param request: must be read before the buffer, so that every message that it counts as received has a row.
    """
    sequence, machine = record.sequence, record.machine
    received = RangeSet() if request is None else request.machine.received
    here = tx.invoker.numbers(sequence)
    damaged = tx.invoker.damaged(sequence)
    expected = tx.invoker.messages(sequence, [row.number for row in damaged if row.number in received])
    over = machine.passed.copy()
    for low, high in machine.in_progress:
        over.discard(low, high)
    misplaced = [row for row in damaged if row != expected.get(row.number) or row.number in over]
    here.update(machine.passed.as_tuples())
    if machine.in_order:
        # In ascending order, as they would be delivered.
        missing = list(takewhile(lambda number: number in received and number not in here, count(machine.next)))
    else:
        missing = [number for low, high in received for gap in here.gaps(low, high) for number in range(*_span(gap))]
    return misplaced, missing


def _span(gap: tuple[int, int]) -> tuple[int, int]:
    return gap[0], gap[1] + 1
