"""Counts the bytes of the messages of an invoker buffer that were in damaged rows, or whose rows are lost."""

from __future__ import annotations

from mercury.engine.delivery.run import DeliveryRun
from mercury.storage.api import Transaction


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
