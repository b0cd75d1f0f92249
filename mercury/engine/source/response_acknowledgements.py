"""AckRequested for responses, so that their rows can be deleted."""

from __future__ import annotations

from mercury.engine.backlog_share import share
from mercury.engine.context import EngineContext
from mercury.statemachine.messages import AckRequested
from mercury.storage.api import Transaction
from mercury.storage.records import InvokerRecord


def acknowledgement_requests(
    context: EngineContext, tx: Transaction, buffer: InvokerRecord
) -> tuple[AckRequested, ...]:
    """The AckRequested headers for a repeated request that is held back by the limits on stored responses.

    Responses on the back-channel are repeated only with their requests. If the acknowledgement of the latest responses
    is lost, no other response would request one, and the held request would wait forever.
    """
    if buffer.response_bytes <= share(context.settings):
        return ()
    keys = [channel.key for channel in buffer.response_channels if channel.back_channel and not channel.plain]
    records = [record.machine for key in keys for record in tx.rms.peek(key)]
    return tuple(
        [AckRequested(each.identifier) for each in records if each.alive and each.outstanding and each.identifier]
    )
