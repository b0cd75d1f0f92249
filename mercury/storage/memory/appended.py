"""The rows that a transaction on the store in memory has appended to source sequences."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mercury.errors import Conflict
from mercury.storage.memory.rms_committed import CommittedRms
from mercury.storage.records import OutboundMessage, SequenceKey


def placed(
    rows: Sequence[OutboundMessage], key: SequenceKey, next_position: Callable[[], int]
) -> list[OutboundMessage]:
    """The rows of a key that have no number, which get their places before the commit."""
    found = [row for row in rows if row.channel.key == key and row.number is None]
    for row in found:
        row.position = next_position()
    return found


def check(rows: Sequence[OutboundMessage], committed: CommittedRms) -> None:
    """
    :raises Conflict: a message with the MessageID of one exists.
    """
    seen: set[str] = set()
    for row in rows:
        if row.message_id in committed.by_message_id or row.message_id in seen:
            raise Conflict(f"a message {row.message_id} exists already")
        seen.add(row.message_id)


def install(
    rows: Sequence[OutboundMessage], committed: CommittedRms, next_position: Callable[[], int]
) -> list[SequenceKey]:
    """Commit the rows, but for those that have places, which are changed rows. Returns their keys."""
    keys = []
    for row in rows:
        if not row.position:
            row.position, key = next_position(), row.channel.key
            committed.install_row(key, committed.data(key), row.position, row)
            keys.append(key)
    return keys
