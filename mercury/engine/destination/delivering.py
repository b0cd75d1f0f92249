"""Delivery of messages in the transaction that receives them, as the reception needs it (decision 92)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from mercury.engine.destination.batch import Batch
from mercury.engine.destination.dispatch import is_message, take
from mercury.engine.destination.expected_responses import expected_responses, is_response
from mercury.engine.destination.inbound_exchange import InboundExchange
from mercury.storage.api import Transaction
from mercury.storage.claims import Claim
from mercury.storage.records import InboundMessage, InvokerRecord, RmdRecord, SequenceKey


class DeliveryOnArrival(Protocol):
    """Delivers messages in the transaction that receives them; see `ArrivalRun`."""

    #: The locked buffers.
    buffers: dict[str, InvokerRecord]
    #: The messages of the arrivals that were delivered, so that they are not stored.
    not_stored: list[InboundMessage]

    @property
    def claims(self) -> Mapping[str, Claim]: ...

    @property
    def keys(self) -> Iterable[SequenceKey]: ...

    @property
    def delivered(self) -> Iterable[str]: ...

    def begin(self, tx: Transaction, requests: Mapping[str, RmdRecord]) -> Collection[str]: ...

    def deliver(
        self, tx: Transaction, rows: list[InboundMessage], responses: Sequence[InboundMessage]
    ) -> list[InboundMessage]: ...

    def settle(self, tx: Transaction, rows: list[InboundMessage]) -> list[InboundMessage]: ...

    def respond(self, tx: Transaction) -> None: ...


#: Reserves the buffers of these sequences, each with its service, for one transaction; ``None`` = it only stores.
Reserve = Callable[[Mapping[str, str | None], float], AbstractContextManager[DeliveryOnArrival | None]]


@contextmanager
def reserve_nothing(_sequences: Mapping[str, str | None], _now: float) -> Iterator[None]:
    """`Reserve` where nothing is delivered on arrival."""
    yield None


def messages_of(exchanges: Sequence[InboundExchange]) -> dict[str, str | None]:
    """The sequences of the messages that have arrived, with their services; ``None`` = of responses."""
    return {
        header.identifier: exchange.arrival.service if is_message(exchange) else None
        for exchange in exchanges
        if (header := exchange.envelope.sequence) is not None and (is_message(exchange) or is_response(exchange))
    }


def deliver(batch: Batch, exchanges: Sequence[InboundExchange], delivery: DeliveryOnArrival) -> None:
    """Take the messages of sequences from which can be delivered now, and deliver them; call back for responses.

    Source sequences are not locked meanwhile: their worker never waits for a handler or a callback. So responses are
    taken later, and settled then.
    """
    sequences = delivery.begin(batch.tx, batch.rmds)
    batch.adopt_buffers(delivery.buffers)
    for exchange in exchanges:
        header = exchange.envelope.sequence
        if header is not None and header.identifier in sequences and is_message(exchange):
            take(batch, exchange)
    batch.rows = delivery.deliver(batch.tx, batch.rows, expected_responses(batch, exchanges, sequences))
    for name in delivery.delivered:
        batch.change_rmd(batch.rmds[name])  # also if everything that arrived for it is refused
