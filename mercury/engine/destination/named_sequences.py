"""The destination sequences that an arrival names or may change: they are locked before it is handled."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mercury.engine.destination.inbound_exchange import InboundExchange
from mercury.engine.destination.quota import Creation, idle_sequences
from mercury.engine.destination.selection import received_sequences
from mercury.statemachine.faults import Fault, FaultCode
from mercury.statemachine.messages import (
    CloseSequence,
    CloseSequenceResponse,
    CreateSequence,
    MakeConnection,
    TerminateSequence,
    TerminateSequenceResponse,
)


def named_sequences(
    batch: Creation, exchange: InboundExchange, created: Mapping[str, str], creates: int
) -> Iterable[str | None]:
    """The identifiers that an arrival names, and those of sequences that may end to make room for a new one.

    :param created: the sequences that repeated CreateSequence messages of the batch have made, by create key.
    :param creates: the number of CreateSequence messages in the batch.
    """
    envelope, request = exchange.envelope, exchange.arrival.request
    if envelope.sequence is not None:
        yield envelope.sequence.identifier
    yield from (requested.identifier for requested in envelope.ack_requests)
    match envelope.body:
        case CreateSequence(follows=follows):
            yield follows
            known = created.get(exchange.create_key or "")
            yield known
            if known is None:
                yield from idle_sequences(batch, exchange.arrival.owner, creates)
                batch.tombstone_quota.make_room(exchange.arrival.owner, creates)
        case CloseSequence(identifier=identifier) | TerminateSequence(identifier=identifier):
            yield identifier
        case CloseSequenceResponse(identifier=identifier) | TerminateSequenceResponse(identifier=identifier):
            # The answer to an end that this side began as destination comes as the reply, or to the service.
            own = request.rmd == identifier if request is not None else exchange.arrival.service is not None
            yield identifier if own else None
        case MakeConnection():
            yield from received_sequences(batch.tx, exchange)
        case Fault(code=code, identifier=identifier):
            yield request.rmd if request is not None else None
            yield identifier if code is FaultCode.SEQUENCE_TERMINATED else None  # of a received sequence: FLT-01
    if request is not None and not exchange.only_acknowledges:
        yield request.pair
