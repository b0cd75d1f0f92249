"""The acknowledgement that a message of one direction carries of the sequence in the other direction."""

from __future__ import annotations

from dataclasses import replace

from mercury.engine import envelopes
from mercury.engine.context import EngineContext
from mercury.storage.api import Transaction
from mercury.storage.records import RmsRecord


def of_pair(
    context: EngineContext, tx: Transaction, record: RmsRecord, *, ends: bool = False
) -> envelopes.Acknowledgements:
    """The acknowledgement of the sequence that is a source sequence's pair; empty = it has none.

    That of the requests goes with their responses only if AcksTo is the same endpoint: another one would get it in
    addition to AcksTo, or instead of the connections of an anonymous AcksTo (RM-ACK-10).

    :param ends: the pair ends with this message, so this is the last acknowledgement: it has every stored number,
    consumed or not, because the source would give up the others. An earlier one has what the policy of its service
    says: what was acknowledged at delivery was delivered.
    """
    pair = record.offered if record.offer_accepted else record.channel.pair
    found = tx.rmd.read(pair) if pair else None
    if found is None or not found.machine.used:
        return ()
    if record.channel.pair and (found.acks_to.address != record.channel.to or found.acks_to.parameters):
        return ()
    machine = found.machine
    said = machine.acknowledgement(context.application.policy(found.service))
    ranges = machine.accepted() if ends else said.ranges
    return (replace(said, ranges=ranges, buffer_remaining=machine.buffer_remaining(ranges)),)
