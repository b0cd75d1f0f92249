"""The active member: a process whose claim on being active is lost changes nothing in the store."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import pytest

from mercury.errors import NotActive
from mercury.storage.api import StorageManager
from mercury.storage.claims import ACTIVE_MEMBER, NEVER_ACTIVE, Claim
from mercury.storage.maintenance import Pauses
from mercury.testing.contract.builders import KEY, NOW, rmd_record, row
from mercury.testing.contract.ending import ending

LEASE = 5.0
PAUSES = Pauses(acknowledgement=1.0, redelivery=1.0, lease=LEASE)


def active(store: StorageManager, owner: str, now: float = NOW) -> Claim:
    taken = store.claim(ACTIVE_MEMBER, owner, now, LEASE)
    assert taken is not None
    return taken


def send(store: StorageManager, message_id: str) -> None:
    with store.transaction() as tx:
        tx.rms.append(row(message_id))


def backlog(store: StorageManager) -> int:
    with store.transaction() as tx:
        return tx.rms.backlog(KEY)


def test_the_active_member_writes_and_a_standby_does_not(store: StorageManager) -> None:
    store.guard_all(NEVER_ACTIVE)
    with ending(store.transaction(), NotActive) as tx:
        tx.rms.append(row("a"))
    assert backlog(store) == 0, "a standby may read"
    store.guard_all(active(store, "me"))
    send(store, "b")
    assert backlog(store) == 1
    store.guard_all(None)
    send(store, "c")
    assert backlog(store) == 2


def test_the_active_member_is_named_until_it_gives_its_claim_back(store: StorageManager) -> None:
    assert store.active_member(NOW) is None
    claim = active(store, "me")
    assert store.active_member(NOW + 1) == (claim, LEASE - 1)
    assert store.active_member(NOW + LEASE + 1) == (claim, -1), "it is named although its lease is over"
    store.release(claim)
    assert store.active_member(NOW) is None


@pytest.mark.parametrize("writes", ["a message", "a sequence", "a row for update"])
def test_a_member_that_has_lost_its_claim_commits_nothing(store: StorageManager, writes: str) -> None:
    with store.transaction() as tx:
        tx.rmd.insert(rmd_record("known"))
    store.guard_all(active(store, "me"))
    happened: list[str] = []
    with ending(store.transaction(), NotActive) as tx:
        active(store, "another", NOW + LEASE + 1)
        if writes == "a message":
            tx.rms.append(row("a"))
        elif writes == "a sequence":
            tx.rmd.insert(rmd_record("new"))
        else:
            tx.rmd.lock(["known"])
        tx.after_commit(lambda: happened.append("after the commit"))
    assert happened == []
    with store.transaction() as tx:
        assert tx.rmd.read("new") is None
        assert tx.rms.backlog(KEY) == 0


def test_a_transaction_keeps_the_claim_that_it_began_under(store: StorageManager) -> None:
    """What a member began before it lost its claim must not commit under the claim that it takes later."""
    first = active(store, "me")
    store.guard_all(first)
    with ending(store.transaction(), NotActive) as tx:
        tx.rms.append(row("a"))
        store.release(first)
        again = active(store, "me again")
        store.guard_all(again)
    assert again != first
    send(store, "b")
    assert backlog(store) == 1


def test_a_lease_that_nobody_has_taken_over_still_holds(store: StorageManager) -> None:
    store.guard_all(active(store, "me"))
    assert active(store, "me", NOW + 10 * LEASE) == store.claim(ACTIVE_MEMBER, "me", NOW + 20 * LEASE, LEASE)
    send(store, "a")
    assert backlog(store) == 1


CHANGES: Mapping[str, Callable[[StorageManager, Claim], object]] = MappingProxyType(
    {
        "claim": lambda store, _: store.claim("rms 2", "me", NOW, LEASE),
        "claim_all": lambda store, _: store.claim_all(["rms 2"], "me", NOW, LEASE),
        "release": lambda store, claim: store.release(claim),
        "sweep": lambda store, _: store.sweep(kept_before=NOW, idle_before=NOW, limit=10),
        "remove_attachments": lambda store, _: store.remove_attachments(10),
        "advance_overdue": lambda store, _: store.advance_overdue(NOW, PAUSES),
    }
)


@pytest.mark.parametrize("change", CHANGES)
def test_no_other_change_of_a_member_that_has_lost_its_claim_is_made(store: StorageManager, change: str) -> None:
    held = store.claim("rms 1", "me", NOW, LEASE)
    assert held is not None
    store.guard_all(active(store, "me"))
    CHANGES[change](store, held)
    active(store, "another", NOW + LEASE + 1)
    with pytest.raises(NotActive):
        CHANGES[change](store, held)


def test_claims_of_a_member_that_has_lost_its_own_are_as_they_were(store: StorageManager) -> None:
    store.guard_all(NEVER_ACTIVE)
    with pytest.raises(NotActive):
        store.claim("rms 1", "me", NOW, LEASE)
    store.guard_all(None)
    assert store.claim("rms 1", "another", NOW, LEASE) is not None


def test_the_claim_on_being_active_is_taken_and_released_without_it(store: StorageManager) -> None:
    store.guard_all(NEVER_ACTIVE)
    held = active(store, "me")
    assert store.claim(ACTIVE_MEMBER, "another", NOW, LEASE) is None
    store.release(held)
    assert active(store, "another").epoch > held.epoch
