"""The gauges of an in-memory store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from heapq import nsmallest
from itertools import islice

from mercury.storage.gauges import Gauges, Waits
from mercury.storage.letters import Direction
from mercury.storage.memory.committed import Committed
from mercury.storage.memory.rms_committed import is_in_time
from mercury.storage.records import OutboundKind, OutboundMessage


def read(committed: Committed, holders: Iterable[str], most: int) -> Gauges:
    """As `GaugeSource.gauges`; the caller holds the mutex.

    :param holders: the owner of each claim that is held.
    """
    rows = [row for data in committed.rms.keys.values() for row in data.rows.values()]
    outbound = nsmallest(most, rows, key=lambda row: row.position)
    buffers = committed.invoker.buffers.values()
    received = [(row.received_at, buffer.record.service or "") for buffer in buffers for row in buffer.rows.values()]
    inbound = nsmallest(most, received)
    waiting: Counter[tuple[Waits, str]] = Counter()
    unacknowledged = []
    for row in outbound:
        waits = _waits(row)
        if waits is not None:
            waiting[waits, row.channel.endpoint] += 1
        if waits in (Waits.TRANSMISSION, Waits.ACKNOWLEDGEMENT) and is_in_time(row):
            unacknowledged.append(row.created_at)
    for _, service in inbound:
        waiting[Waits.DELIVERY, service] += 1
    letters = list(islice(reversed(committed.dead_letters.values()), most))
    open_destinations = [each.machine for each in committed.rmd.records.values() if not each.machine.tombstone]
    records = (record for data in committed.rms.keys.values() for record in data.records)
    return Gauges(
        waiting=waiting,
        uncounted={
            Direction.OUTBOUND: len(rows) - len(outbound),
            Direction.INBOUND: len(received) - len(inbound),
        },
        oldest_unacknowledged=min(unacknowledged, default=None),
        oldest_undelivered=min((at for at, _ in inbound), default=None),
        open_sources=sum(record.ended_at is None for record in records),
        open_destinations=len(open_destinations),
        gaps=sum(machine.received.first_missing() <= machine.received.highest for machine in open_destinations),
        dead_letters=Counter((letter.direction, letter.reason) for letter in letters),
        letters_uncounted=len(committed.dead_letters) - len(letters),
        claims=tuple(many for _, many in Counter(holders).most_common()),
    )


def _waits(row: OutboundMessage) -> Waits | None:
    """What a row waits for; ``None`` = it is no message, or is only retained."""
    if row.kind is not OutboundKind.MESSAGE or row.retained:
        return None
    if not row.acknowledged:
        return Waits.ACKNOWLEDGEMENT if row.attempts else Waits.TRANSMISSION
    return Waits.RESPONSE if row.expects_response and not row.answered else None
