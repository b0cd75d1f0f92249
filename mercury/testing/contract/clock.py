"""After a clock was set back, work that was planned too far ahead becomes due; long pauses stay as they are."""

from __future__ import annotations

import pytest

from mercury.storage.api import StorageManager, Topic
from mercury.storage.claims import ACTIVE_MEMBER
from mercury.storage.maintenance import Pauses
from mercury.testing.contract.builders import KEY, NOW, buffer, inbound, rmd_record, rms_record

HOUR = 3600.0
LONGEST = Pauses(lease=30.0, redelivery=60.0, acknowledgement=60.0)


def test_a_sequence_that_was_planned_in_the_future_is_due(store: StorageManager) -> None:
    with store.transaction() as tx:
        tx.rms.insert(rms_record(due=NOW + HOUR + 60, planned_at=NOW + HOUR))
    notified: list[frozenset[Topic]] = []
    store.listen(notified.append)
    assert store.due_rms(NOW, 10) == []
    assert store.advance_overdue(NOW, LONGEST) == 1
    assert store.due_rms(NOW, 10) == [KEY]
    assert frozenset(Topic) in notified
    assert store.advance_overdue(NOW, LONGEST) == 0


def test_sequence_with_a_long_pause_stays_as_it_is(store: StorageManager) -> None:
    with store.transaction() as tx:
        tx.rms.insert(rms_record(due=NOW + 24 * HOUR, planned_at=NOW))
    assert store.advance_overdue(NOW, LONGEST) == 0
    assert store.due_rms(NOW + 23 * HOUR, 10) == []


@pytest.mark.parametrize(("ahead", "found"), [(60.0, 0), (61.0, 1)])
def test_acknowledgement_planned_beyond_the_longest_delay_is_due(
    store: StorageManager, ahead: float, found: int
) -> None:
    record = rmd_record(due=NOW + ahead)
    record.machine.ack_due = NOW + ahead
    with store.transaction() as tx:
        tx.rmd.insert(record)
    assert store.advance_overdue(NOW, LONGEST) == found
    assert store.due_rmd(NOW, 10) == [record.identifier][:found]


@pytest.mark.parametrize(("ahead", "found"), [(60.0, 0), (61.0, 1)])
def test_failed_message_planned_beyond_the_longest_pause_is_due(
    store: StorageManager, ahead: float, found: int
) -> None:
    record = buffer(retry_at=NOW + ahead)
    with store.transaction() as tx:
        tx.rmd.insert(rmd_record(record.sequence))
        tx.invoker.insert(record)
        tx.invoker.add([inbound(1)])
    assert store.advance_overdue(NOW, LONGEST) == found
    assert list(store.due_invoker(NOW, 10)) == [record.sequence][:found]


def test_a_claim_of_a_clock_that_was_ahead_ends_with_its_lease(store: StorageManager) -> None:
    """Its owner may have crashed: other workers must not wait an hour for the claim."""
    held = store.claim("rms 1", "gone", NOW + HOUR, 30.0)
    usual = store.claim("rms 2", "here", NOW, 30.0)
    assert held is not None
    assert usual is not None
    assert store.advance_overdue(NOW, LONGEST) == 1
    with store.transaction() as tx:
        tx.guard(held)  # the claim is valid until another owner takes it
    assert store.claim("rms 1", "me", NOW + 29.0, 30.0) is None
    assert store.claim("rms 1", "me", NOW + 31.0, 30.0) is not None
    assert store.claim("rms 2", "me", NOW + 31.0, 30.0) is not None


def test_the_active_member_keeps_a_lease_that_is_longer_than_those_of_sequences(store: StorageManager) -> None:
    """The setting ``role_lease`` is its own: with another one a standby would take over from a member that works."""
    assert store.claim(ACTIVE_MEMBER, "me", NOW, 10 * LONGEST.lease) is not None
    assert store.advance_overdue(NOW, LONGEST) == 0
    assert store.claim(ACTIVE_MEMBER, "a standby", NOW + 9 * LONGEST.lease, LONGEST.lease) is None
