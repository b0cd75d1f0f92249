"""Closes or terminates received sequences, for operators."""

from __future__ import annotations

from mercury.errors import SequenceEnded, SequenceError
from mercury.statemachine.events import DestinationEnd
from mercury.statemachine.protocol import RmVersion
from mercury.storage.api import StorageManager, Transaction
from mercury.storage.records import RmdRecord

#: Due at once by every clock: that of the process which runs on the store may differ from the caller's.
AT_ONCE = 0.0


def end_at_destination(store: StorageManager, identifier: str, end: DestinationEnd) -> None:
    """Let this side end a sequence that a service receives. A process that runs on the store does it, also after a
    restart; this call only stores the request.

    :raises SequenceEnded: the sequence has ended, or is closed already.
    :raises SequenceError: no service receives such a sequence, or its version of WS-RM has no CloseSequence.
    :raises StorageError: the store failed.
    """
    with store.transaction() as tx:
        request_end(tx, identifier, end)


def request_end(tx: Transaction, identifier: str, end: DestinationEnd) -> None:
    """`end_at_destination` as a part of a transaction."""
    record = _received(tx, identifier)
    machine = record.machine
    if machine.tombstone:
        raise SequenceEnded(f"the sequence {identifier} has ended")
    if end is DestinationEnd.CLOSE:
        if machine.rm is RmVersion.RM10:
            raise SequenceError("WS-RM 1.0 has no CloseSequence: the sequence can be terminated")
        if machine.closed:
            raise SequenceEnded(f"the sequence {identifier} is closed already")
    machine.end_itself(end, AT_ONCE)
    record.due = AT_ONCE
    tx.rmd.save(record)


def _received(tx: Transaction, identifier: str) -> RmdRecord:
    record = tx.rmd.lock([identifier]).get(identifier)
    if record is None:
        raise SequenceError(f"no sequence that is received here has the identifier {identifier}")
    if record.service is None:
        # Its end would lose responses; the requests that wait for them would fail.
        raise SequenceError(f"the sequence {identifier} carries responses to this side: its sender ends it")
    return record
