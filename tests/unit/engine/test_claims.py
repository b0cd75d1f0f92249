"""ClaimKeeper: it queries the store no more often than needed, and never treats a lost claim as held."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from mercury.engine.claims import ClaimKeeper
from mercury.errors import Conflict
from mercury.storage.claims import Claim
from mercury.storage.memory import MemoryStore

NOW = 1_000_000.0
LEASE = 30.0


class CountingStore(MemoryStore):
    """Says how often it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def claim(self, resource: str, owner: str, now: float, lease: float) -> Claim | None:
        self.asked.append(resource)
        return super().claim(resource, owner, now, lease)

    def claim_all(self, resources: Collection[str], owner: str, now: float, lease: float) -> list[Claim]:
        self.asked.append(" + ".join(resources))
        return [claim for name in resources if (claim := MemoryStore.claim(self, name, owner, now, lease)) is not None]


@pytest.fixture
def store() -> CountingStore:
    return CountingStore()


@pytest.fixture
def keeper(store: CountingStore) -> ClaimKeeper:
    return ClaimKeeper(store, "me", LEASE)


def other(store: MemoryStore, now: float, resource: str = "rms 1") -> Claim | None:
    return store.claim(resource, "another", now, LEASE)


def taken(keeper: ClaimKeeper, now: float, resource: str = "rms 1") -> Claim:
    claim = keeper.take(resource, now)
    assert claim is not None
    return claim


def commit_under(store: MemoryStore, claim: Claim) -> None:
    with store.transaction() as tx:
        tx.guard(claim)


def test_a_claim_in_use_is_requested_once(keeper: ClaimKeeper, store: CountingStore) -> None:
    claims = {keeper.take("rms 1", NOW + seconds) for seconds in (0, 1, 5, 14.9)}
    assert len(claims) == 1
    assert store.asked == ["rms 1"]


def test_it_is_prolonged_when_half_of_its_lease_is_over(keeper: ClaimKeeper, store: CountingStore) -> None:
    first = taken(keeper, NOW)
    assert taken(keeper, NOW + LEASE / 2) == first
    assert store.asked == ["rms 1", "rms 1"]
    assert other(store, NOW + LEASE + 1) is None
    assert other(store, NOW + LEASE / 2 + LEASE + 1) is not None


def test_in_use_it_never_ends(keeper: ClaimKeeper, store: CountingStore) -> None:
    first = taken(keeper, NOW)
    for step in range(100):
        now = NOW + step * LEASE / 4
        assert keeper.take("rms 1", now) == first
        assert other(store, now) is None
    commit_under(store, first)


def test_claim_held_by_another_is_not_given(keeper: ClaimKeeper, store: CountingStore) -> None:
    theirs = other(store, NOW)
    assert keeper.take("rms 1", NOW) is None
    assert keeper.take("rms 1", NOW + 1) is None
    assert theirs is not None
    store.release(theirs)
    assert taken(keeper, NOW + 2).epoch > theirs.epoch


def test_a_claim_that_was_taken_over_is_noticed_when_it_is_prolonged(keeper: ClaimKeeper, store: CountingStore) -> None:
    mine = taken(keeper, NOW)
    theirs = other(store, NOW + LEASE + 1)
    assert theirs is not None
    assert keeper.take("rms 1", NOW + LEASE + 2) is None
    with pytest.raises(Conflict):
        commit_under(store, mine)
    commit_under(store, theirs)
    again = taken(keeper, NOW + 3 * LEASE)
    assert again.epoch > theirs.epoch


def test_after_a_conflict_the_store_is_queried_again(keeper: ClaimKeeper, store: CountingStore) -> None:
    """The clocks of two processes differ: another took over while this one thought that its lease held."""
    mine = taken(keeper, NOW)
    assert other(store, NOW + LEASE + 1) is not None
    assert keeper.take("rms 1", NOW + 1) == mine
    with pytest.raises(Conflict):
        commit_under(store, mine)
    keeper.lost(mine)
    assert keeper.take("rms 1", NOW + 2) is None
    assert store.asked.count("rms 1") == 3


def test_a_conflict_of_another_kind_leaves_the_claim(keeper: ClaimKeeper, store: CountingStore) -> None:
    mine = taken(keeper, NOW)
    keeper.lost(mine)
    assert taken(keeper, NOW + 1) == mine
    commit_under(store, mine)
    keeper.lost(Claim("never taken", "me", 1))


def test_claims_are_kept_apart(keeper: ClaimKeeper, store: CountingStore) -> None:
    first, second = taken(keeper, NOW, "rms 1"), taken(keeper, NOW, "invoker 1")
    keeper.lost(first)
    assert keeper.take("invoker 1", NOW + 1) == second
    assert store.asked == ["rms 1", "invoker 1"]


def test_an_orderly_end_gives_everything_back(keeper: ClaimKeeper, store: CountingStore) -> None:
    names = [f"rms {number}" for number in range(5)]
    claims = [taken(keeper, NOW, name) for name in names]
    keeper.release_all()
    assert all(other(store, NOW, name) is not None for name in names)
    for claim in claims:
        with pytest.raises(Conflict):
            commit_under(store, claim)
    keeper.release_all()


def test_an_orderly_end_takes_nothing_from_a_new_owner(keeper: ClaimKeeper, store: CountingStore) -> None:
    taken(keeper, NOW)
    theirs = other(store, NOW + LEASE + 1)
    keeper.release_all()
    assert theirs is not None
    commit_under(store, theirs)


def test_many_claims_are_all_kept_while_they_hold(keeper: ClaimKeeper, store: CountingStore) -> None:
    names = [f"rms {number}" for number in range(5000)]
    claims = {name: taken(keeper, NOW, name) for name in names}
    asked = len(store.asked)
    assert all(keeper.take(name, NOW + 1) == claims[name] for name in names)
    assert len(store.asked) == asked


def test_claims_that_are_over_are_forgotten_in_time(keeper: ClaimKeeper) -> None:
    """A process that has worked on a million sequences does not remember them all."""
    for number in range(20_000):
        taken(keeper, NOW + number, f"rms {number}")
    assert len(keeper._leases) <= 1024


def test_a_clock_that_is_set_back_does_not_keep_a_claim_from_being_prolonged(
    keeper: ClaimKeeper, store: CountingStore
) -> None:
    first = taken(keeper, NOW + 3600.0)
    assert taken(keeper, NOW) == first
    assert store.asked == ["rms 1", "rms 1"]
    assert other(store, NOW + LEASE + 1) is not None


def test_a_claim_that_is_held_is_prolonged_without_a_request(keeper: ClaimKeeper, store: CountingStore) -> None:
    claim = taken(keeper, NOW)
    with keeper.held(claim):
        for seconds in range(1, 3 * int(LEASE)):
            keeper.prolong(NOW + seconds)
        assert other(store, NOW + 3 * LEASE) is None
    asked = len(store.asked)
    keeper.prolong(NOW + 4 * LEASE)
    assert len(store.asked) == asked
    assert other(store, NOW + 4.5 * LEASE) is not None


def test_a_claim_that_was_lost_while_it_was_held_is_not_won_back_unseen(
    keeper: ClaimKeeper, store: CountingStore
) -> None:
    claim = taken(keeper, NOW)
    with keeper.held(claim):
        assert other(store, NOW + LEASE) is not None
        for seconds in (LEASE, 1.5 * LEASE, 3 * LEASE):
            keeper.prolong(NOW + seconds)
        with pytest.raises(Conflict):
            commit_under(store, claim)


def test_many_claims_are_one_question_about_those_that_it_does_not_have(
    keeper: ClaimKeeper, store: CountingStore
) -> None:
    held = taken(keeper, NOW)
    assert other(store, NOW, "rms 3") is not None
    found = keeper.take_all({name: name for name in ("rms 1", "rms 2", "rms 3")}, NOW + 1)
    assert sorted(found) == ["rms 1", "rms 2"]
    assert found["rms 1"] == held
    assert store.asked == ["rms 1", "rms 3", "rms 2 + rms 3"]
    assert keeper.current("rms 2", NOW + 1) == found["rms 2"]
    assert keeper.current("rms 3", NOW + 1) is None
