"""Ends of one sequence, which an operator asks for: rows without a number that name it."""

from __future__ import annotations

from mercury.storage.api import Transaction
from mercury.storage.records import OutboundKind
from mercury.testing.contract.outbox import Outbox, ids


def test_the_end_of_one_sequence_waits_like_the_end_of_a_key_until_it_is_removed(outbox: Outbox) -> None:
    outbox.send("a")
    outbox.append("end", kind=OutboundKind.END, action="", payload=b"", sequence_id=outbox.record.id)
    outbox.append("gone", kind=OutboundKind.ABANDON, action="", payload=b"", sequence_id=outbox.record.id)
    outbox.append("key", kind=OutboundKind.ABANDON, action="", payload=b"")
    assert (outbox.waiting(), outbox.unsettled()) == (["end", "gone", "key"], ["a"])

    def work(tx: Transaction) -> list[str | None]:
        found = tx.rms.abandonments(outbox.key)
        tx.rms.discard([row for row in found if row.sequence_id == outbox.record.id])
        assert ids(tx.rms.abandonments(outbox.key)) == ["key"]
        return [row.sequence_id for row in found]

    assert outbox.locked(work) == [outbox.record.id, None]
    assert (outbox.waiting(), ids(outbox.take())) == (["end", "key"], ["a"]), "an end has no number to be taken by"
    assert outbox.locked(lambda tx: tx.rms.abandoned(outbox.key))
