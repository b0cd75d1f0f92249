"""The responses that a transaction will store, known before it locks the source sequences of their requests.

Callbacks are called before these locks, so that no worker waits for them. What is expected here is only what follows
from the arrival, the locked destination sequence, and the requests as committed. The reception then handles the
arrivals as always, under all locks, and `ArrivalRun.settle` compares: where it did not store what was expected, the
transaction fails, and is repeated without delivery.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from mercury.engine.application import FUTURE
from mercury.engine.batches import related_names
from mercury.engine.destination.batch import Batch
from mercury.engine.destination.batched import payload_of, singles
from mercury.engine.destination.inbound_exchange import InboundExchange
from mercury.engine.destination.messages import stored_row
from mercury.engine.destination.ownership import may_answer
from mercury.storage.records import InboundMessage, OutboundMessage, RmdRecord
from mercury.wire.envelope import MessageBatch, Payload


def is_response(exchange: InboundExchange) -> bool:
    """Whether an arrival is a message of a sequence, or a batch of them, on a connection of this side."""
    envelope = exchange.envelope
    on_connection = exchange.arrival.request is not None and not envelope.parts
    return on_connection and envelope.sequence is not None and isinstance(envelope.body, (Payload, MessageBatch))


def expected_responses(
    batch: Batch, exchanges: Sequence[InboundExchange], sequences: Collection[str]
) -> list[InboundMessage]:
    """The rows of the next responses of these sequences, each up to the first that needs more than a callback."""
    found = [
        (exchange, record)
        for exchange in exchanges
        if (header := exchange.envelope.sequence) is not None
        and header.identifier in sequences
        and is_response(exchange)
        and (record := batch.rmd(exchange, header.identifier)) is not None
        and record.service is None
    ]
    requests = batch.tx.rms.rows({name for exchange, _ in found for name in related_names(exchange.envelope)})
    rows: dict[str, list[InboundMessage]] = {}
    for exchange, record in found:
        of_sequence = rows.setdefault(record.identifier, [])
        for number, single in _messages(exchange, record):
            following = record.machine.received.first_missing() + len(of_sequence)
            if number < following:
                continue  # a repeated one
            request = _request(single, record, requests)
            if number > following or request is None:
                break
            named = (single.envelope.action, single.envelope.relates_to, request.correlation)
            single.expected = stored_row(batch, single, record, payload_of(single), number, *named)
            of_sequence.append(single.expected)
    return [row for of_sequence in rows.values() for row in of_sequence]


def _messages(exchange: InboundExchange, record: RmdRecord) -> Iterator[tuple[int, InboundExchange]]:
    """The messages of an arrival, with their numbers."""
    header, body = exchange.envelope.sequence, exchange.envelope.body
    assert header is not None
    if isinstance(body, Payload):
        if not header.last:
            yield header.message_number, exchange
    elif isinstance(body, MessageBatch) and record.takes_batches:
        yield from singles(exchange, header, body)


def _request(
    single: InboundExchange, record: RmdRecord, requests: Mapping[str, OutboundMessage]
) -> OutboundMessage | None:
    """The request that a response answers, if it waits for it, has a callback, and went to this peer."""
    request = requests.get(single.envelope.relates_to or "")
    if request is None or not request.expects_response:
        return None
    if not request.callback or request.callback.startswith(FUTURE):
        return None
    return request if may_answer(single.arrival, request, None, record) else None
