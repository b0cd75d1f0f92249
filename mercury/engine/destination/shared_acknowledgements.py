"""Which replies to the arrivals of one transaction carry which acknowledgements."""

from __future__ import annotations

from collections.abc import Sequence

from mercury.engine.destination.batch import Batch
from mercury.engine.destination.inbound_exchange import InboundExchange
from mercury.statemachine.acknowledging import Carrier, share
from mercury.statemachine.faults import Ranges
from mercury.storage.records import RmdRecord


def share_acknowledgements(batch: Batch, exchanges: Sequence[InboundExchange]) -> None:
    """Distribute the acknowledgements of one batch over the replies to its arrivals; see `share`."""
    if not any(exchange.acknowledge for exchange in exchanges):
        return
    listed: dict[str, Ranges] = {}
    carriers = [_carrier(batch, exchange, listed) for exchange in exchanges]
    for exchange, sequences in zip(exchanges, share(carriers), strict=True):
        exchange.acknowledge = dict.fromkeys(sequences)


def _carrier(batch: Batch, exchange: InboundExchange, listed: dict[str, Ranges]) -> Carrier:
    """What the reply to an arrival may acknowledge, without what its source would take for a fault.

    :param listed: the numbers that the acknowledgements of the batch list, by sequence, as far as they are known.
    """
    otherwise = (exchange.fault is not None and not exchange.accepted_in_part) or exchange.reply is not None
    # A peer that asks for the acknowledgement of another's sequence does not get it (SEC-01).
    requested = exchange.acknowledge.keys() & {request.identifier for request in exchange.envelope.ack_requests}
    header = exchange.envelope.sequence
    if not otherwise and header is not None and header.identifier in exchange.acknowledge:
        identifier = header.identifier
        if _reads_by_exchange(batch.rmds[identifier]) and identifier not in requested:
            if not _lists(batch, identifier, header.message_number, listed):
                del exchange.acknowledge[identifier]
            elif not exchange.waiting:
                requested.add(identifier)
    held = bool(exchange.waiting)
    return Carrier(tuple(exchange.acknowledge), frozenset(requested), otherwise=otherwise, held=held)


def _lists(batch: Batch, identifier: str, number: int, listed: dict[str, Ranges]) -> bool:
    if identifier not in listed:
        (acknowledgement,) = batch.acknowledgement(identifier)
        listed[identifier] = acknowledgement.ranges
    return any(low <= number <= high for low, high in listed[identifier])


def _reads_by_exchange(record: RmdRecord) -> bool:
    """Whether the source may be one of .NET that expects responses on connections (IOP-WCF-10).

    It faults its session if the reply to a message acknowledges, and not that message. After an empty reply it sends
    the message again, but counts it as lost.
    """
    channel = record.response_channel
    return not record.source_is_mercury and record.acks_to.anonymous and channel is not None and channel.back_channel
