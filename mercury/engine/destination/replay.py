"""Refuses copies of messages with WS-Security: an attacker may have recorded them (WS-Security 1.1, section 11)."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from mercury.engine.context import EngineContext
from mercury.engine.destination.inbound_exchange import InboundExchange
from mercury.engine.message_security import NOT_ACCEPTED
from mercury.storage.api import Transaction

log = logging.getLogger("mercury.security")


def holds_up_copies(context: EngineContext, exchanges: Sequence[InboundExchange]) -> bool:
    """Whether copies of these arrivals at another process may wait for their transaction (`first_copies`), so that no
    handler is called in it."""
    return context.others and any(each.envelope.verified is not None for each in exchanges)


def first_copies(
    context: EngineContext, tx: Transaction, exchanges: Sequence[InboundExchange], now: float
) -> list[InboundExchange]:
    """Those of the arrivals that are not copies; the others get a fault. The log has one line about them in a minute.

    They are recorded in the transaction that handles them, and before it locks a row. So a message whose transaction
    was rolled back may come again, and of two copies in two processes one waits for the other.
    """
    digests = {
        exchange.envelope.verified.digest: exchange.envelope.verified.expires
        for exchange in exchanges
        if exchange.envelope.verified is not None
    }
    seen = set(tx.replay.add(digests)) if digests else set()
    first = []
    for exchange in exchanges:
        verified = exchange.envelope.verified
        if verified is not None and verified.digest in seen:
            if context.copies_log.allow("", now):
                about = {"message_id": exchange.envelope.message_id}
                log.warning("a copy of a message is refused; further ones within a minute are not logged", extra=about)
            exchange.fault = NOT_ACCEPTED
            continue
        if verified is not None:
            seen.add(verified.digest)
        first.append(exchange)
    return first
