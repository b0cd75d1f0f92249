"""Priorities of keys: what is sent first when more is due than one turn takes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mercury.client.channels import channel_to
from mercury.errors import ConfigurationError
from mercury.statemachine.policy import SourcePolicy

from .harness import Node, Pair
from .harness.link import Link


def prioritised(pair: Pair, key: str, priority: int) -> Link:
    link = pair.link(key=key)
    return Link(pair.client, replace(link._channel, priority=priority))


def test_the_messages_of_a_key_with_a_higher_priority_are_sent_first() -> None:
    pair = Pair()
    pair.client = Node("client", pair, sequence_batch=1)
    for key, priority in (("low", 0), ("middle", 4), ("high", 9)):
        prioritised(pair, key, priority).notes(key)
    pair.run()
    assert pair.server.handled == ["high", "middle", "low"]


def test_without_a_priority_keys_keep_their_turns() -> None:
    pair = Pair()
    pair.client = Node("client", pair, sequence_batch=1)
    for key in "abc":
        pair.link(key=key).notes(key)
    pair.run()
    assert pair.server.handled == ["a", "b", "c"]


@pytest.mark.parametrize("priority", [-1, 10])
def test_a_priority_that_there_is_not_is_refused(priority: int) -> None:
    with pytest.raises(ConfigurationError, match="priority"):
        channel_to(
            "http://server.example/",
            "key",
            SourcePolicy(),
            listen=None,
            responses=None,
            identity=None,
            new_id=str,
            priority=priority,
        )
