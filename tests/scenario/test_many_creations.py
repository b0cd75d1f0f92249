"""Sequences that are created in one transaction: each has the outcome that it would have alone."""

from __future__ import annotations

import pytest

from mercury.wire.envelope import HttpMessage

from .foreign import Foreign
from .harness import Node, Pair, World, name_of

KEYS = tuple(f"till {number}" for number in range(12))


def identifier_in(reply: HttpMessage) -> str:
    return reply.body.split(b"Identifier>", 1)[1].split(b"</", 1)[0].decode()


def test_a_refused_creation_among_good_ones_is_the_only_one_without_a_sequence() -> None:
    node, foreign = Node("server", World(), allow=()), Foreign()
    posts = [foreign.create(), foreign.create("http://elsewhere.example/"), foreign.create()]
    first, refused, last = node.get_all(posts)
    assert [name_of(first), name_of(last)] == ["CreateSequenceResponse"] * 2
    assert name_of(refused).startswith("fault")
    assert len(node.destinations()) == 2
    for reply in (first, last):
        assert name_of(node.get(foreign.note(identifier_in(reply), 1))) == "acknowledgement"
    node.world.run()
    assert node.handled == ["note 1", "note 1"]


def test_creations_whose_transaction_fails_are_repeated_one_by_one_and_made_once() -> None:
    node, foreign = Node("server", World()), Foreign()
    posts = [foreign.create() for _ in range(3)]
    node.failing_commits.add(node.commits + 1)
    replies = node.get_all(posts)
    assert [name_of(reply) for reply in replies] == ["CreateSequenceResponse"] * 3
    again = node.get_all(posts)
    assert [identifier_in(reply) for reply in again] == [identifier_in(reply) for reply in replies]
    assert len(node.destinations()) == 3


@pytest.mark.parametrize("at", range(1, 9))
@pytest.mark.parametrize("side", ["client", "server"])
@pytest.mark.parametrize("how", ["before the commit", "after the commit"])
def test_crash_while_many_sequences_are_created_loses_and_repeats_no_message(side: str, at: int, how: str) -> None:
    two = Pair()
    node = two.nodes[side]
    for key in KEYS:
        two.link(key=key).notes(f"{key}: 1", f"{key}: 2", f"{key}: 3")
    crashes = node.crash_before_commit if how == "before the commit" else node.crash_after_commit
    crashes.add(node.commits + at)
    two.advance(1)
    if not node.up:
        node.start()
    two.advance(120)
    for key in KEYS:
        assert [text for text in two.server.handled if text.startswith(f"{key}:")] == [f"{key}: {n}" for n in (1, 2, 3)]
    two.assert_sound()
