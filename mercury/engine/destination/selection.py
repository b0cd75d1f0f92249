"""What a MakeConnection selects (MC-02): by the address of a client, by a sequence, or by both.

It looks at a few sequences only, those that have waited longest; what it asks the store is answered by an index.
"""

from __future__ import annotations

from collections.abc import Iterable

from mercury.engine.destination.inbound_exchange import InboundExchange
from mercury.engine.destination.ownership import may_fetch
from mercury.statemachine.messages import MakeConnection
from mercury.storage.api import Transaction
from mercury.storage.records import RmdRecord, RmsRecord, SequenceKey

#: Sequences of each kind that one MakeConnection looks at.
LOOKED_AT = 4
#: No message is due later than that: with such a time, the clock was set back.
LONGEST = 3600.0


def received_sequences(tx: Transaction, exchange: InboundExchange) -> Iterable[str]:
    """The received sequences with an acknowledgement to fetch; to be locked."""
    body = _selection(exchange)
    if body is None:
        return []
    if body.identifier is not None:
        return [body.identifier]
    return tx.rmd.fetchable(body.address or "", exchange.arrival.identity, LOOKED_AT)


def source_sequences(tx: Transaction, exchange: InboundExchange, now: float) -> Iterable[SequenceKey | None]:
    """The keys of sequences with something to fetch; to be locked."""
    body = _selection(exchange)
    if body is None:
        return
    if body.identifier is not None:
        yield tx.rms.key_of(body.identifier)
        pair = tx.rmd.read(body.identifier)
        if pair is not None and pair.response_channel is not None:
            yield pair.response_channel.key
        return
    for at, key in tx.rms.fetchable(body.address or "", exchange.arrival.identity, LOOKED_AT):
        if is_time(at, now):
            yield key


def selects_received(exchange: InboundExchange, record: RmdRecord) -> bool:
    """Whether a received sequence has an acknowledgement that is selected."""
    body = _selection(exchange)
    if body is None or record.fetched_by is None or not may_fetch(exchange.arrival, record.identity):
        return False
    return body.address in (None, record.acks_to.address) and body.identifier in (None, record.identifier)


def selects_source(exchange: InboundExchange, record: RmsRecord) -> bool:
    """Whether what waits of a source sequence is selected."""
    body, channel = _selection(exchange), record.channel
    if body is None or record.fetch_due is None or not may_fetch(exchange.arrival, channel.identity):
        return False
    by_address = body.address in (None, channel.endpoint)
    return by_address and body.identifier in (None, record.machine.identifier, channel.pair)


def is_time(at: float, now: float) -> bool:
    """Whether there may be something to fetch now."""
    return at <= now or at > now + LONGEST


def _selection(exchange: InboundExchange) -> MakeConnection | None:
    """What is selected; ``None`` = this is no MakeConnection, or nothing that one may select."""
    body = exchange.envelope.body
    if not isinstance(body, MakeConnection) or exchange.arrival.request is not None:
        return None
    if body.unsupported or (body.address is None and body.identifier is None):
        return None
    return body
