"""The locked source sequences of one transaction by the names that arrivals have for them.

A transaction may have hundreds of sequences, and as many arrivals.
"""

from __future__ import annotations

from mercury.storage.records import RmsRecord


class SourcesByName:
    """A sequence gets its identifier while its transaction runs: it is added again then."""

    def __init__(self) -> None:
        self._by_id: dict[str, RmsRecord] = {}
        self._by_create: dict[str, RmsRecord] = {}
        self._by_identifier: dict[str, RmsRecord] = {}

    def add(self, *records: RmsRecord) -> None:
        """Add sequences, or note their identifiers."""
        for record in records:
            self._by_id.setdefault(record.id, record)
            self._by_create.setdefault(record.create_message_id, record)
            identifier = record.machine.identifier
            if identifier is not None and self.named(identifier) is None:
                self._by_identifier[identifier] = record

    def with_id(self, record_id: str) -> RmsRecord | None:
        return self._by_id.get(record_id)

    def created_by(self, message_id: str | None) -> RmsRecord | None:
        """The sequence whose CreateSequence has this MessageID now."""
        record = None if message_id is None else self._by_create.get(message_id)
        return record if record is not None and record.create_message_id == message_id else None

    def named(self, identifier: str) -> RmsRecord | None:
        """The sequence that has this identifier now."""
        record = self._by_identifier.get(identifier)
        return record if record is not None and record.machine.identifier == identifier else None
