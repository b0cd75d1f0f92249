"""What is stored of responses, as far as one process can tell."""

from __future__ import annotations

from mercury.engine.stored import StoredResponses


def test_stored_bytes_count_for_their_peer_and_for_all_until_they_are_read_again() -> None:
    stored = StoredResponses(10)
    stored.add("a", 60)
    stored.add("b", 30)
    assert stored.few("a", 60, 90)
    assert not stored.few("a", 59, 90)
    assert not stored.few("c", 0, 89)
    stored.know("a", 5, 40)
    assert stored.few("a", 5, 40)
    assert not stored.few("a", 4, 40)


def test_only_the_latest_peers_are_known() -> None:
    stored = StoredResponses(2)
    for owner in ("a", "b", "c"):
        stored.add(owner, 10)
    assert stored.few("a", 0, 30)
    assert not stored.few("b", 0, 30)
