"""Claims: one worker at a time holds a claim, and a transaction under a lost claim is rolled back."""

from __future__ import annotations

from concurrent.futures import Future

import pytest

from mercury.errors import Conflict
from mercury.storage.api import StorageManager, Topic
from mercury.storage.claims import Claim, WorkFilter
from mercury.testing.contract.builders import KEY, NOW, rmd_record, row
from mercury.testing.contract.ending import ending
from mercury.testing.contract.outbox import Outbox, ids, number_in
from mercury.testing.contract.threads import Threads, result

LEASE = 30.0


def claim(store: StorageManager, owner: str, now: float = NOW, resource: str = "rms 1") -> Claim:
    taken = store.claim(resource, owner, now, LEASE)
    assert taken is not None
    return taken


def commit_under(store: StorageManager, held: Claim, message_id: str = "a") -> None:
    with store.transaction() as tx:
        tx.guard(held)
        tx.rms.append(row(message_id))


def backlog(store: StorageManager) -> int:
    with store.transaction() as tx:
        return tx.rms.backlog(KEY)


# --- taking ----------------------------------------------------------------------------------------------------------


def test_a_claim_belongs_to_one_owner_until_its_lease_is_over(store: StorageManager) -> None:
    held = claim(store, "me")
    assert (held.resource, held.owner) == ("rms 1", "me")
    assert store.claim("rms 1", "another", NOW, LEASE) is None
    assert store.claim("rms 1", "another", NOW + LEASE - 0.5, LEASE) is None
    taken = claim(store, "another", NOW + LEASE + 0.5)
    assert taken.owner == "another"
    assert store.claim("rms 1", "me", NOW + LEASE + 1, LEASE) is None


def test_claims_on_different_sequences_are_independent(store: StorageManager) -> None:
    first = claim(store, "me", resource="rms 1")
    second = claim(store, "another", resource="rms 2")
    assert store.claim("rms 2", "me", NOW, LEASE) is None
    store.release(first)
    commit_under(store, second)


def test_claims_are_taken_together_except_those_of_others(store: StorageManager) -> None:
    mine, theirs = claim(store, "me", resource="rms 1"), claim(store, "another", resource="rms 2")
    taken = store.claim_all(["rms 3", "rms 2", "rms 1"], "me", NOW + 1, LEASE)
    assert sorted(each.resource for each in taken) == ["rms 1", "rms 3"]
    assert mine in taken, "it is prolonged"
    assert store.claim("rms 1", "another", NOW + LEASE + 0.5, LEASE) is None
    (over,) = store.claim_all(["rms 2"], "me", NOW + LEASE + 1, LEASE)
    assert over.epoch > theirs.epoch
    assert store.claim_all([], "me", NOW, LEASE) == []


def test_a_transaction_under_two_claims_is_rolled_back_if_either_is_lost(store: StorageManager) -> None:
    first, second = store.claim_all(["rms 1", "rms 2"], "me", NOW, LEASE)
    claim(store, "another", NOW + LEASE + 1, resource=second.resource)
    with pytest.raises(Conflict), store.transaction() as tx:
        tx.guard(first)
        tx.guard(second)
        tx.rms.append(row("a"))
    assert backlog(store) == 0


def test_the_epoch_grows_with_every_take_over(store: StorageManager) -> None:
    epochs = []
    for turn in range(5):
        owner = ("me", "another")[turn % 2]
        epochs.append(claim(store, owner, NOW + turn * (LEASE + 1)).epoch)
    assert epochs == sorted(set(epochs))


def test_the_epoch_grows_after_a_release_too(store: StorageManager) -> None:
    """Otherwise a transaction that began before the release could commit after it."""
    first = claim(store, "me")
    store.release(first)
    second = claim(store, "another")
    store.release(second)
    third = claim(store, "me")
    assert first.epoch < second.epoch < third.epoch


def test_the_owner_prolongs_its_claim_and_keeps_the_epoch(store: StorageManager) -> None:
    held = claim(store, "me")
    assert claim(store, "me", NOW + 20) == held
    assert store.claim("rms 1", "another", NOW + LEASE + 1, LEASE) is None
    assert claim(store, "another", NOW + 20 + LEASE + 1).epoch > held.epoch


def test_expired_claim_can_be_prolonged_until_another_owner_takes_it(store: StorageManager) -> None:
    held = claim(store, "me")
    late = claim(store, "me", NOW + 10 * LEASE)
    commit_under(store, late)
    assert late.owner == held.owner
    assert store.claim("rms 1", "another", NOW + 10 * LEASE + 1, LEASE) is None


def test_a_released_claim_can_be_taken_at_once(store: StorageManager) -> None:
    store.release(claim(store, "me"))
    assert claim(store, "another").owner == "another"


def test_release_of_a_lost_claim_leaves_it_to_the_new_owner(store: StorageManager) -> None:
    old = claim(store, "me")
    new = claim(store, "another", NOW + LEASE + 1)
    store.release(old)
    commit_under(store, new)
    assert store.claim("rms 1", "me", NOW + LEASE + 2, LEASE) is None
    store.release(new)
    store.release(new)
    store.release(Claim("never claimed", "me", 1))


def test_of_many_that_claim_at_once_one_gets_it(store: StorageManager, threads: Threads) -> None:
    def take(owner: str) -> list[Claim]:
        taken = (store.claim(f"rms {number}", owner, NOW, LEASE) for number in range(20))
        return [each for each in taken if each is not None]

    futures: list[Future[list[Claim]]] = [threads.start(lambda n=n: take(f"owner {n}")) for n in range(8)]  # type: ignore[misc]
    taken = [each.resource for future in futures for each in result(future)]
    assert sorted(taken) == sorted(f"rms {number}" for number in range(20))


# --- finding work ----------------------------------------------------------------------------------------------------


def test_one_query_says_when_the_work_of_each_kind_is_due(store: StorageManager) -> None:
    assert store.work_due(NOW) == {}
    with store.transaction() as tx:
        tx.rmd.insert(rmd_record(service="orders", due=NOW + 5))
    assert store.work_due(NOW, WorkFilter("me")) == {Topic.RMD: NOW + 5}
    assert store.work_due(NOW, WorkFilter("me", frozenset({"another service"}))) == {}
    Outbox(store).append("a")
    found = store.work_due(NOW)
    assert set(found) == {Topic.RMD, Topic.RMS}
    assert found[Topic.RMS] <= NOW


def test_work_of_another_owner_is_not_due_before_its_lease_is_over(store: StorageManager) -> None:
    Outbox(store).append("a")
    claim(store, "another", resource=f"rms {KEY.digest}")
    assert store.work_due(NOW, WorkFilter("me")) == {}
    assert set(store.work_due(NOW, WorkFilter("another"))) == {Topic.RMS}
    assert set(store.work_due(NOW + LEASE + 1, WorkFilter("me"))) == {Topic.RMS}


# --- committing under a claim ----------------------------------------------------------------------------------------


def test_work_under_a_valid_claim_is_committed(store: StorageManager) -> None:
    held = claim(store, "me")
    commit_under(store, held, "a")
    claim(store, "me", NOW + 20)
    commit_under(store, held, "b")
    assert backlog(store) == 2


@pytest.mark.parametrize("others", [0, 1], ids=["alone", "beside another"])
@pytest.mark.parametrize("how", ["taken over", "released", "released and taken again", "never held"])
def test_transaction_under_a_lost_claim_is_rolled_back(store: StorageManager, how: str, others: int) -> None:
    happened: list[str] = []
    held = claim(store, "me")
    beside = [claim(store, "me", resource=f"rms other {number}") for number in range(others)]
    outbox = Outbox(store)
    outbox.append("a")
    if how == "never held":
        held = Claim(held.resource, "me", held.epoch + 1)
    with ending(store.transaction(), Conflict) as tx:
        for each in (held, *beside):
            tx.guard(each)
        if how == "taken over":
            claim(store, "another", NOW + LEASE + 1)
        elif how != "never held":
            store.release(held)
        if how == "released and taken again":
            claim(store, "me")
        tx.after_commit(lambda: happened.append("after the commit"))
        tx.rms.lock([KEY])
        assert ids(number_in(tx, outbox)) == ["a"]
        tx.rms.append(row("b"))
    assert happened == []
    assert outbox.waiting() == ["a"]
    assert outbox.unsettled() == []


def test_the_new_owner_commits_and_the_old_one_does_not(store: StorageManager) -> None:
    old = claim(store, "me")
    new = claim(store, "another", NOW + LEASE + 1)
    commit_under(store, new, "a")
    with pytest.raises(Conflict):
        commit_under(store, old, "b")
    commit_under(store, new, "c")
    assert backlog(store) == 2


def test_a_transaction_under_two_claims_needs_both(store: StorageManager) -> None:
    first, second = claim(store, "me", resource="rms 1"), claim(store, "me", resource="rms 2")
    with store.transaction() as tx:
        tx.guard(first)
        tx.guard(second)
        tx.rms.append(row("a"))
    store.release(first)
    with ending(store.transaction(), Conflict) as tx:
        tx.guard(first)
        tx.guard(second)
        tx.rms.append(row("b"))
    assert backlog(store) == 1


def test_a_transaction_without_a_guard_needs_no_claim(store: StorageManager) -> None:
    """An application that sends a message has no claim."""
    claim(store, "another")
    with store.transaction() as tx:
        tx.rms.append(row("a"))
    assert backlog(store) == 1


def test_rollback_under_a_lost_claim_raises_no_conflict(store: StorageManager) -> None:
    held = claim(store, "me")
    with ending(store.transaction(), ZeroDivisionError) as tx:
        tx.guard(held)
        store.release(held)
        raise ZeroDivisionError
