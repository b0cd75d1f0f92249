"""The last error of a source sequence, which operators find in its record."""

from __future__ import annotations

from collections.abc import Sequence

from mercury.engine.context import EngineContext
from mercury.statemachine.succession import NOTHING_TAKEN
from mercury.storage.records import RmsRecord


def note_last_error(context: EngineContext, record: RmsRecord, earlier: Sequence[RmsRecord]) -> None:
    """Store the last error of the endpoint in the record; clear it after a successful exchange.

    :param earlier: the earlier sequences of its key.
    """
    url = record.channel.endpoint
    error = context.endpoint_errors.get(url)
    if error is not None:
        record.last_error = error
    elif record.last_error is not None and record.last_error.startswith(f"{url}: "):
        record.last_error = None
    elif earlier and record.machine.acknowledged and record.last_error in (NOTHING_TAKEN, earlier[-1].last_error):
        record.last_error = None  # it was the error of an earlier sequence
