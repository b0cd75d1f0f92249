"""Identifiers that peers give to source sequences of this side: which of them other sequences have already."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mercury.statemachine.messages import CreateSequence, CreateSequenceResponse
from mercury.storage.api import Transaction
from mercury.storage.records import RmdRecord
from mercury.wire.envelope import Envelope


class GivenIdentifiers:
    """Those of one transaction's arrivals, read together."""

    def __init__(self) -> None:
        self._taken: frozenset[str] = frozenset()
        self._destinations: dict[str, RmdRecord] = {}

    def read(self, tx: Transaction, envelopes: Sequence[Envelope], rmds: Mapping[str, RmdRecord]) -> None:
        """Read what the store has of the identifiers that arrivals give.

        :param rmds: the destination sequences that the arrivals name, locked.
        """
        bodies = [each.body for each in envelopes if isinstance(each.body, (CreateSequence, CreateSequenceResponse))]
        if not bodies:
            return
        offers = [body.offer.identifier for body in bodies if isinstance(body, CreateSequence) and body.offer]
        created = [body.identifier for body in bodies if isinstance(body, CreateSequenceResponse)]
        found = tx.rms.keys_by_identifier([*offers, *created]) if offers or created else {}
        # The keys of sequences that are forgotten since may be found too.
        self._taken = frozenset(name for name in found if tx.rms.key_of(name) is not None)
        unread = [name for name in offers if name not in rmds]
        self._destinations = tx.rmd.read_many(unread) if unread else {}

    def taken(self, identifier: str) -> bool:
        """Whether a source sequence has an identifier that an arrival gives."""
        return identifier in self._taken

    def destination(self, identifier: str) -> RmdRecord | None:
        """The destination sequence with an identifier that an arrival offers; those that are locked are left out."""
        return self._destinations.get(identifier)
