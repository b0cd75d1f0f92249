"""A destination has the store that its first CreateSequenceResponse states; a sequence is made at no other one."""

from __future__ import annotations

import pytest

from mercury.engine.events import StoreRefused
from mercury.engine.source.peer_store import is_made_there, store_of
from mercury.statemachine.protocol import ALL_PROTOCOLS, Protocol
from mercury.statemachine.rms import RMSSequence
from mercury.storage.peer_stores import PeerStore
from mercury.storage.records import Channel, RmsRecord, Role, SequenceKey

from .harness import Pair


def pair(store: str | None = "s1") -> Pair:
    two = Pair()
    become(two, store)
    return two


def become(two: Pair, store: str | None) -> None:
    """Let another store answer in the place of the server's."""
    two.server.engine._context.store_id = store


def known(two: Pair) -> PeerStore | None:
    with two.client.store.transaction() as tx:
        return tx.peer_stores.get(two.server.service_url)


def stores(two: Pair) -> dict[str, str | None]:
    """The store of each sequence, by key."""
    with two.client.store.transaction() as tx:
        return {record.channel.key.name: record.store for record in tx.rms.all()}


@pytest.mark.parametrize("protocol", ALL_PROTOCOLS, ids=str)
def test_sequence_keeps_the_store_that_its_destination_states(protocol: Protocol) -> None:
    two = pair()
    two.link(protocol, key="a").notes("one")
    two.advance(5)
    assert two.server.handled == ["one"]
    assert stores(two) == {"a": "s1"}
    found = known(two)
    assert found is not None
    assert found.store == "s1"


def test_sequence_of_another_key_is_not_made_at_another_store() -> None:
    two = pair()
    two.link(key="a").notes("one")
    two.advance(5)
    become(two, "s2")
    two.link(key="b").notes("two")
    two.advance(5)
    assert two.server.handled == ["one"]
    assert stores(two) == {"a": "s1", "b": "s1"}
    refusals = [event for event in two.client.events if isinstance(event, StoreRefused)]
    assert [(each.expected, each.found) for each in refusals] == [("s1", "s2")], "it is told once"
    become(two, "s1")
    two.advance(60)
    assert two.server.handled == ["one", "two"], "it is asked again until the right store answers"
    two.assert_sound()


def test_two_members_that_create_at_once_do_not_give_a_destination_two_stores() -> None:
    two = pair()
    context, url = two.client.engine._context, two.server.service_url
    first, second = (
        RmsRecord(
            id=name,
            channel=Channel(key=SequenceKey(url, name)),
            machine=RMSSequence.start(Protocol().rm, 0.0),
            created_at=0.0,
            create_message_id=name,
        )
        for name in ("a", "b")
    )
    with two.client.store.transaction() as tx:
        assert store_of(tx, first.channel) is None
        assert is_made_there(tx, context, first, "s1", url, 0.0)
        assert not is_made_there(tx, context, second, "s2", url, 0.0)
        assert (first.store, second.store) == ("s1", "s1")
        assert is_made_there(tx, context, second, "s1", url, 0.0)


def test_destination_that_states_no_store_is_not_checked() -> None:
    two = pair(None)
    two.link(key="a").notes("one")
    two.advance(5)
    assert stores(two) == {"a": None}
    assert known(two) is None
    become(two, "s1")
    two.link(key="b").notes("two")
    two.advance(5)
    become(two, None)
    two.link(key="c").notes("three")
    two.advance(5)
    assert two.server.handled == ["one", "two", "three"]


def test_responses_have_no_store_that_is_checked() -> None:
    two = pair()
    channel = Channel(key=SequenceKey("http://client/responses", "x"), role=Role.RESPONSE)
    with two.server.store.transaction() as tx:
        tx.peer_stores.agree(channel.endpoint, "s1", 0.0)
        assert store_of(tx, channel) is None
