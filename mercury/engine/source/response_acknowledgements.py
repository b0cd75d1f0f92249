"""Requesting acknowledgements of responses, so that what they take here becomes free."""

from __future__ import annotations

from mercury.engine.backlog_share import share
from mercury.engine.context import EngineContext
from mercury.statemachine.messages import AckRequested
from mercury.storage.api import Transaction
from mercury.storage.records import InvokerRecord


def ask_for_acknowledgements(
    context: EngineContext, tx: Transaction, buffer: InvokerRecord
) -> tuple[AckRequested, ...]:
    """What a request that comes again is answered with while too much is stored for it to be given to its handler.

    Responses on the back-channel are not sent again before their requests are. When the acknowledgement of the latest
    ones is lost, no other response asks for another: the request would wait for it for ever.
    """
    if buffer.response_bytes <= share(context.settings):
        return ()
    keys = [channel.key for channel in buffer.response_channels if channel.back_channel and not channel.plain]
    records = [record.machine for key in keys for record in tx.rms.peek(key)]
    return tuple(
        [AckRequested(each.identifier) for each in records if each.alive and each.outstanding and each.identifier]
    )
