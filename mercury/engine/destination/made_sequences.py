"""The destination sequences of one transaction by the CreateSequence that has made them, and how many of them are new.

A transaction may make hundreds of sequences.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from mercury.storage.records import RmdRecord


class MadeSequences:
    """Those that are locked or new."""

    def __init__(self) -> None:
        self._by_key: dict[str | None, RmdRecord] = {}
        self._new: Counter[str] = Counter()

    def read(self, records: Iterable[RmdRecord]) -> None:
        """Add sequences that exist already."""
        for record in records:
            self._by_key.setdefault(record.create_key, record)

    def add(self, record: RmdRecord) -> None:
        """Add a new sequence."""
        self._by_key[record.create_key] = record
        self._new[record.owner] += 1

    def by(self, create_key: str | None) -> RmdRecord | None:
        """The sequence that an equal CreateSequence has made (`RmdRecord.create_key`)."""
        return None if create_key is None else self._by_key.get(create_key)

    def count(self, owner: str | None) -> int:
        """How many sequences are new: of an owner, or (``None``) of all."""
        return self._new.total() if owner is None else self._new[owner]
