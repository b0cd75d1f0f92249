"""Finds the keys of the source sequences that arrivals may change, so that these can be locked.

One statement for each kind of identifier reads the rows for all arrivals.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from mercury.engine.batches import related_names
from mercury.engine.channels import fetched_key
from mercury.engine.destination.inbound_exchange import InboundExchange
from mercury.engine.destination.selection import source_sequences
from mercury.engine.exchange import Purpose
from mercury.statemachine.faults import Fault
from mercury.statemachine.messages import (
    CloseSequence,
    CloseSequenceResponse,
    CreateSequence,
    MakeConnection,
    TerminateSequence,
    TerminateSequenceResponse,
)
from mercury.storage.api import Transaction
from mercury.storage.records import RmdRecord, SequenceKey
from mercury.wire.envelope import Envelope, Payload


class SourceKeys:
    """The keys of the source sequences that arrivals may change.

    :param rmds: the destination sequences that the arrivals name, locked.
    """

    def __init__(self, tx: Transaction, rmds: Mapping[str, RmdRecord], now: float) -> None:
        self._tx = tx
        self._rmds = rmds
        self._now = now

    def of(self, exchanges: Collection[InboundExchange]) -> dict[SequenceKey, None]:
        """In the order of the arrivals, each once."""
        rms = self._tx.rms
        named = [
            (each, [*self._identifiers(each)], [*_answered_creates(each)], [*_answered_rows(each)])
            for each in exchanges
        ]
        by_identifier = rms.keys_by_identifier({name for _, names, _, _ in named for name in names})
        by_create = rms.keys_by_create({name for _, _, names, _ in named for name in names})
        rows = rms.rows({name for _, _, _, names in named for name in names})
        keys: list[SequenceKey | None] = []
        for exchange, identifiers, creates, answered in named:
            keys += [by_identifier.get(name) for name in identifiers]
            keys += [by_create.get(name) for name in creates]
            keys += [rows[name].channel.key for name in answered if name in rows]
            keys += self._others(exchange)
        return dict.fromkeys(key for key in keys if key is not None)

    def _identifiers(self, exchange: InboundExchange) -> Iterable[str]:
        """The identifiers of source sequences that an arrival names."""
        for acknowledgement in exchange.envelope.acknowledgements:
            yield acknowledgement.identifier
        match exchange.envelope.body:
            case CloseSequenceResponse(identifier=identifier) | TerminateSequenceResponse(identifier=identifier):
                yield identifier
            case CloseSequence(identifier=identifier) | TerminateSequence(identifier=identifier):
                if identifier not in self._rmds:
                    yield identifier
            case Fault(identifier=named) if named:
                yield named

    def _others(self, exchange: InboundExchange) -> Iterable[SequenceKey | None]:
        """The keys of the request that an arrival answers, of responses that end with their request sequence, and of
        messages to be fetched."""
        request = exchange.arrival.request
        if request is not None:
            yield request.key
        match exchange.envelope.body:
            case CloseSequence(identifier=identifier) | TerminateSequence(identifier=identifier):
                yield self._fetched(identifier)
            case CreateSequence(follows=follows):
                yield self._fetched(follows)
            case MakeConnection():
                yield from source_sequences(self._tx, exchange, self._now)
            case Fault(identifier=identifier):
                yield self._fetched(identifier)
                yield self._fetched(request.rmd if request is not None else None)

    def _fetched(self, identifier: str | None) -> SequenceKey | None:
        """The key of the responses that the source of a destination sequence fetches."""
        record = self._rmds.get(identifier or "")
        return fetched_key(record) if record is not None and record.service is not None else None


def _answered_creates(exchange: InboundExchange) -> Iterable[str]:
    """The CreateSequence that an arrival may answer."""
    if exchange.envelope.relates_to is not None and _may_answer_create(exchange.envelope):
        yield exchange.envelope.relates_to


def _answered_rows(exchange: InboundExchange) -> Iterable[str]:
    """The messages of this side that an arrival relates to, if their key is not known already."""
    if not _answers_its_request(exchange):
        yield from related_names(exchange.envelope)


def _may_answer_create(envelope: Envelope) -> bool:
    """Whether a reply may be about a CreateSequence: a message of a sequence is not."""
    return envelope.sequence is None or not isinstance(envelope.body, Payload)


def _answers_its_request(exchange: InboundExchange) -> bool:
    """Whether an arrival came on the connection of the request that it relates to: then the key is that of the
    request."""
    request = exchange.arrival.request
    if request is None or request.purpose is not Purpose.MESSAGE or request.key is None:
        return False
    return request.envelope.message_id == exchange.envelope.relates_to
