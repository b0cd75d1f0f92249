"""The transfer that is cut when the bytes of many peers exceed a limit."""

from __future__ import annotations

from mercury.service.shares import Share, Shares

LIMIT = 64_000
SMALL, HUGE = 1000, 4000


def taken(shares: Shares, network: str, size: int, *, begun: float = 0.0, unsent: int = 0) -> Share:
    share = Share(network, begun, lambda: None, lambda: unsent)
    assert shares.grow(share, size, 100.0)
    return share


def test_of_the_only_huge_shares_of_their_networks_the_slowest_makes_room_for_a_smaller_one() -> None:
    shares = Shares(LIMIT)
    fast, slow, young = (
        taken(shares, "fast", 16_000),
        taken(shares, "slow", 16_000, unsent=8_000),
        taken(shares, "young", 16_000, begun=90.0),
    )
    taken(shares, "new", HUGE)
    assert (fast.lost, slow.lost, young.lost) == (False, True, False)


def test_huge_share_makes_no_room_for_one_that_is_as_large() -> None:
    shares = Shares(LIMIT)
    for network in ("a", "b", "c"):
        taken(shares, network, 16_000)
    assert not shares.grow(Share("new", 0.0), 16_000, 100.0)


def test_shares_that_are_not_huge_make_no_room_and_leave_a_quarter_to_small_ones() -> None:
    shares = Shares(LIMIT)
    large = [taken(shares, f"large {number}", HUGE) for number in range(12)]
    assert not shares.grow(Share("new", 0.0), SMALL + 1, 100.0)
    for number in range(16):
        taken(shares, f"small {number}", SMALL)
    assert not shares.grow(Share("new", 0.0), SMALL, 100.0)
    assert not any(share.lost for share in large)


def test_share_that_grows_out_of_the_small_ones_counts_with_the_large_ones() -> None:
    shares = Shares(LIMIT)
    taken(shares, "large", 47_500)
    growing = Share("growing", 0.0)
    assert shares.grow(growing, SMALL, 100.0)
    other = Share("large", 0.0)
    assert not shares.grow(other, 2000, 100.0)
    shares.drop(growing)
    assert shares.grow(growing, SMALL, 100.0)


def test_single_share_may_have_all() -> None:
    shares = Shares(LIMIT)
    taken(shares, "only", LIMIT)
    assert not shares.may_have("only", 1)
    assert shares.may_have("new", SMALL)
