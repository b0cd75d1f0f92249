"""The acknowledgement that a message of one direction carries of the sequence in the other direction."""

from __future__ import annotations

from mercury.engine import envelopes
from mercury.engine.context import EngineContext
from mercury.statemachine.messages import SequenceAcknowledgement
from mercury.storage.api import Transaction
from mercury.storage.records import RmsRecord


def of_pair(
    context: EngineContext, tx: Transaction, record: RmsRecord, *, ends: bool = False
) -> envelopes.Acknowledgements:
    """The acknowledgement of the sequence that is a source sequence's pair; empty = it has none.

    :param ends: the pair ends with this message, so this is the last acknowledgement: it has every stored number,
    consumed or not, because the source would give up the others. An earlier one has what the policy of its service
    says: what was acknowledged at delivery was delivered.
    """
    pair = record.offered if record.offer_accepted else record.channel.pair
    found = tx.rmd.read(pair) if pair else None
    if found is None or not found.machine.used:
        return ()
    machine = found.machine
    policy = context.application.policy(found.service)
    ranges = machine.accepted() if ends else machine.acknowledgement(policy).ranges
    return (SequenceAcknowledgement(found.identifier, ranges, buffer_remaining=machine.buffer_remaining(ranges)),)
