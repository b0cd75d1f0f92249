"""Sending in a transaction: messages are sent after its commit, in order, and not after a rollback."""

from __future__ import annotations

import pytest

from mercury.errors import Conflict, Overloaded, TransientStorageError
from mercury.statemachine.protocol import ALL_PROTOCOLS

from .harness import Crash, Pair


def test_nothing_is_sent_before_the_commit() -> None:
    # Invariant 1
    pair = Pair()
    link = pair.link()
    with pair.client.watched.transaction() as tx:
        link.notes("one", tx=tx)
        pair.advance(10)
        assert pair.seen == []
    pair.advance(1)
    assert pair.server.handled == ["one"]


@pytest.mark.parametrize("error", [RuntimeError("no"), Crash("gone")], ids=["an error", "a crash"])
def test_a_rolled_back_send_leaves_nothing(error: BaseException) -> None:
    pair = Pair()
    link = pair.link()
    with pytest.raises(type(error)), pair.client.watched.transaction() as tx:
        link.notes("one", tx=tx)
        link.asks("two", tx=tx)
        link.close(tx=tx)
        raise error
    pair.advance(10)
    assert pair.seen == []
    assert pair.client.rows() == 0


def test_a_send_whose_commit_fails_is_not_sent_and_may_be_repeated() -> None:
    pair = Pair()
    link = pair.link()
    pair.client.failing_commits.add(pair.client.commits + 1)
    with pytest.raises(TransientStorageError):
        link.notes("one")
    link.notes("one")
    pair.advance(1)
    assert pair.server.handled == ["one"]


@pytest.mark.parametrize("protocol", ALL_PROTOCOLS, ids=str)
def test_messages_of_one_transaction_stay_adjacent_and_ordered(protocol) -> None:
    # RM-SEQ-01
    # decision 4: the order is that of the commits, not that of the calls.
    pair = Pair()
    link = pair.link(protocol)
    with pair.client.watched.transaction() as slow:
        link.notes("slow 1", tx=slow)
        link.notes("quick 1", "quick 2")
        with pair.client.watched.transaction() as other:
            link.notes("other 1", "other 2", tx=other)
        link.notes("slow 2", tx=slow)
    link.close()
    pair.advance(5)
    assert pair.server.handled == ["quick 1", "quick 2", "other 1", "other 2", "slow 1", "slow 2"]


def test_messages_of_several_keys_and_endpoints_commit_together_or_not_at_all() -> None:
    pair = Pair()
    one, two = pair.link(key="one"), pair.link(key="two")
    with pytest.raises(RuntimeError), pair.client.watched.transaction() as tx:
        one.notes("a", tx=tx)
        two.notes("b", tx=tx)
        raise RuntimeError
    with pair.client.watched.transaction() as tx:
        one.notes("c", tx=tx)
        two.notes("d", tx=tx)
    pair.advance(1)
    assert sorted(pair.server.handled) == ["c", "d"]


def test_the_end_takes_its_place_among_what_its_transaction_sends() -> None:
    pair = Pair()
    link = pair.link(offer=False)
    with pair.client.watched.transaction() as tx:
        link.notes("one", tx=tx)
        link.close(tx=tx)
        link.notes("two", tx=tx)
    pair.advance(5)
    assert pair.server.handled == ["one", "two"]
    assert pair.count("CreateSequence") == 2
    assert pair.count("TerminateSequence") == 1


def test_a_savepoint_that_is_left_with_an_error_takes_back_just_what_was_sent_in_it() -> None:
    pair = Pair()
    link = pair.link()
    with pair.client.watched.transaction() as tx:
        link.notes("one", tx=tx)
        with pytest.raises(RuntimeError), tx.savepoint():
            link.notes("two", tx=tx)
            raise RuntimeError
        link.notes("three", tx=tx)
    pair.advance(1)
    assert pair.server.handled == ["one", "three"]


def test_a_message_id_is_used_once() -> None:
    pair = Pair()
    link = pair.link()
    pair.client.ids.new = lambda: "urn:always:the:same"  # type: ignore[method-assign]
    link.notes("one")
    with pytest.raises(Conflict):
        link.notes("two")


def test_above_the_backlog_the_transaction_goes_on_without_the_message() -> None:
    pair = Pair()
    pair.client.settings = pair.client.settings.__class__(max_outbound_backlog=1)
    link, other = pair.link(), pair.link(key="other")
    link.notes("one")
    with pair.client.watched.transaction() as tx:
        with pytest.raises(Overloaded):
            link.notes("two", tx=tx)
        other.notes("three", tx=tx)
    pair.advance(1)
    assert sorted(pair.server.handled) == ["one", "three"]


@pytest.mark.parametrize("listens", [True, False], ids=["listening", "anonymous"])
@pytest.mark.parametrize("protocol", ALL_PROTOCOLS, ids=str)
def test_the_network_is_never_used_inside_a_transaction(protocol, listens: bool) -> None:
    # Invariant 3: the harness looks at every post, and at both sides at every flight.
    pair = Pair()
    launch = pair.launch

    def watched(flight) -> None:
        assert not pair.client.watched.open
        assert not pair.server.watched.open
        launch(flight)

    pair.launch = watched  # type: ignore[method-assign]
    link = pair.link(protocol, listens=listens)
    link.asks("one", "two")
    link.notes("three")
    link.close()
    pair.advance(5)
    pair.assert_ended()
