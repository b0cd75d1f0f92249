"""What an invoker buffer has lost with damaged rows: the bytes of messages, and the marker of its end."""

from __future__ import annotations

from mercury.engine.delivery.run import DeliveryRun
from mercury.statemachine.tables import InvokerState
from mercury.storage.api import Transaction
from mercury.storage.records import InboundKind, InboundMessage


def lost_bytes(tx: Transaction, run: DeliveryRun) -> int:
    """Waiting bytes by the counters minus the bytes of the rows: lost or damaged bytes must not count forever.

    Negative if damaged rows are larger than the original. Reads the whole buffer, after `DeliveryRun.request`.
    """
    request, sequence = run.request, run.record.sequence
    if request is None:
        return 0
    numbers = (number for number in tx.invoker.numbers(sequence).numbers() if number in request.machine.received)
    rows = tx.invoker.messages(sequence, list(numbers))
    return request.received_bytes - run.consumed_before - sum(row.size for row in rows.values())


def lost_cut(tx: Transaction, run: DeliveryRun) -> list[InboundMessage]:
    """The marker that the sequence of a buffer has ended incomplete, if the buffer has not got it and has no row of it.

    Without it the buffer would wait for ever for the numbers that are missing, and the sequences that follow for it.
    """
    request, machine, sequence = run.request, run.record.machine, run.record.sequence
    if request is None or not request.machine.tombstone or request.machine.complete:
        return []
    if machine.cut or machine.state is InvokerState.DONE:
        return []
    if any(row.kind is InboundKind.CUT and not row.damaged for row in tx.invoker.markers(sequence)):
        return []
    return [InboundMessage(sequence=sequence, number=0, kind=InboundKind.CUT)]
