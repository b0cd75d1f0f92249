"""The selection of a MakeConnection (MC-02): by the address of a client, by a sequence, or by both.

Only the few sequences that have waited longest are considered, and each query uses an index.
"""

from __future__ import annotations

from collections.abc import Iterable

from mercury.engine.destination.inbound_exchange import InboundExchange
from mercury.engine.destination.ownership import may_fetch
from mercury.statemachine.messages import MakeConnection
from mercury.storage.api import Transaction
from mercury.storage.records import RmdRecord, RmsRecord, SequenceKey

#: The most sequences of each kind that are considered for one MakeConnection.
MAX_CANDIDATES = 4
#: The longest time in seconds that a message may be due ahead; a later due time means that the clock was set back.
LONGEST = 3600.0


def received_sequences(tx: Transaction, exchange: InboundExchange) -> Iterable[str]:
    """The received sequences with an acknowledgement to fetch; the caller locks them."""
    body = _selection(exchange)
    if body is None:
        return []
    if body.identifier is not None:
        return [body.identifier]
    return tx.rmd.fetchable(body.address or "", exchange.arrival.identity, MAX_CANDIDATES)


def source_sequences(tx: Transaction, exchange: InboundExchange, now: float) -> Iterable[SequenceKey | None]:
    """The keys of sequences with a message to fetch; the caller locks them."""
    body = _selection(exchange)
    if body is None:
        return
    if body.identifier is not None:
        yield tx.rms.key_of(body.identifier)
        pair = tx.rmd.read(body.identifier)
        if pair is not None and pair.response_channel is not None:
            yield pair.response_channel.key
        return
    for at, key in tx.rms.fetchable(body.address or "", exchange.arrival.identity, MAX_CANDIDATES):
        if is_time(at, now):
            yield key


def selects_received(exchange: InboundExchange, record: RmdRecord) -> bool:
    """Whether the acknowledgement of a received sequence is selected."""
    body = _selection(exchange)
    if body is None or record.fetched_by is None or not may_fetch(exchange.arrival, record.identity):
        return False
    return body.address in (None, record.acks_to.address) and body.identifier in (None, record.identifier)


def selects_source(exchange: InboundExchange, record: RmsRecord) -> bool:
    """Whether the messages of a source sequence are selected."""
    body, channel = _selection(exchange), record.channel
    if body is None or record.fetch_due is None or not may_fetch(exchange.arrival, channel.identity):
        return False
    by_address = body.address in (None, channel.endpoint)
    return by_address and body.identifier in (None, record.machine.identifier, channel.pair)


def is_time(at: float, now: float) -> bool:
    """Whether a message that is due at ``at`` may be fetched now."""
    return at <= now or at > now + LONGEST


def _selection(exchange: InboundExchange) -> MakeConnection | None:
    """The valid MakeConnection request; ``None`` = the arrival is not one, or it selects nothing valid."""
    body = exchange.envelope.body
    if not isinstance(body, MakeConnection) or exchange.arrival.request is not None:
        return None
    if body.unsupported or (body.address is None and body.identifier is None):
        return None
    return body
