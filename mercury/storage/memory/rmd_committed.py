"""The committed destination sequences in memory, with indexes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import islice

from mercury.storage.records import RmdRecord


class CommittedRmd:
    """The committed destination sequences."""

    def __init__(self) -> None:
        self.records: dict[str, RmdRecord] = {}
        self.open = 0
        self.open_by_owner: Counter[str] = Counter()
        #: Tombstones of sequences that peers have made, and their number for each owner.
        self.ended = 0
        self.ended_by_owner: Counter[str] = Counter()
        self.by_create: dict[str, str] = {}
        #: Only the sequences that have a ``due`` time.
        self.times: dict[str, float] = {}
        #: By `RmdRecord.fetched_by`.
        self.fetched: dict[str, dict[str, None]] = {}

    def install(self, identifier: str, record: RmdRecord | None) -> None:
        old = self.records.pop(identifier, None)
        self.times.pop(identifier, None)
        if old is not None and record is not None and _counts_alike(old, record):
            self.records[identifier] = record
            if record.due is not None:
                self.times[identifier] = record.due
            return
        if old is not None:
            self._count(old, -1)
            self._index(old, present=False)
            if old.create_key is not None:
                self.by_create.pop(old.create_key, None)
        if record is None:
            return
        self.records[identifier] = record
        if record.create_key is not None:
            self.by_create[record.create_key] = identifier
        if record.due is not None:
            self.times[identifier] = record.due
        self._count(record, 1)
        self._index(record, present=True)

    def _index(self, record: RmdRecord, *, present: bool) -> None:
        name = record.fetched_by
        if name is None:
            return
        identifiers = self.fetched.setdefault(name, {})
        if present:
            identifiers[record.identifier] = None
        else:
            identifiers.pop(record.identifier, None)
        if not identifiers:
            del self.fetched[name]

    def _count(self, record: RmdRecord, by: int) -> None:
        if not record.machine.tombstone:
            self.open += by
            owners = self.open_by_owner
        elif record.create_message_id is not None:
            self.ended += by
            owners = self.ended_by_owner
        else:
            return
        owners[record.owner] += by
        if not owners[record.owner]:
            del owners[record.owner]

    def advance_overdue(self, now: float, longest: float) -> int:
        """Make sequences due whose acknowledgement is more than ``longest`` seconds ahead. Returns their number."""
        late = [
            record
            for record in self.records.values()
            if record.machine.ack_due is not None and record.machine.ack_due > now + longest and record.due != now
        ]
        for record in late:
            record = record.copy()
            record.due = now
            self.install(record.identifier, record)
        return len(late)

    def due(self, now: float, limit: int, hosts: Callable[[str | None], bool]) -> list[str]:
        due = [(at, identifier) for identifier, at in self.times.items() if at <= now]
        due.sort()
        hosted = (identifier for _, identifier in due if hosts(self.records[identifier].service))
        return list(islice(hosted, limit))

    def next_due(self, hosts: Callable[[str | None], bool] | None) -> float | None:
        if hosts is None:
            return min(self.times.values(), default=None)
        times = (at for identifier, at in self.times.items() if hosts(self.records[identifier].service))
        return min(times, default=None)


def _counts_alike(old: RmdRecord, new: RmdRecord) -> bool:
    """Whether no count and no index but that of times changes, as with most changes: the sequence stays open, and is
    not fetched."""
    return (
        not (old.machine.tombstone or new.machine.tombstone)
        and (old.identity, old.peer) == (new.identity, new.peer)
        # What `RmdRecord.create_key` is made of besides:
        and (old.create_message_id, old.acks_to.address, old.service, old.offered)
        == (new.create_message_id, new.acks_to.address, new.service, new.offered)
        and old.fetched_by is None
        and new.fetched_by is None
    )
