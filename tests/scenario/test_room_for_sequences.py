"""Who makes room when as many sequences are open as may be: whoever has by far the most of them."""

from __future__ import annotations

from mercury.engine.exchange import Arrival
from mercury.wire.envelope import HttpMessage

from .foreign import Foreign, identifier_in
from .harness import Node, name_of
from .harness.words import SERVICE
from .test_ownership_of_sequences import create, post, server

MADE, REFUSED = "CreateSequenceResponse", "fault CreateSequenceRefused"
FIRST, SECOND, NEWCOMER = "192.0.2.1", "192.0.2.2", "192.0.2.9"


def filled(limit: int, *peers: str) -> tuple[Node, Foreign, dict[str, list[str]]]:
    """A server whose limit on all sequences is used up by these peers in equal parts: their sequences, oldest first."""
    node, foreign = server(max_sequences=limit, idle_sequence=3600), Foreign()
    made: dict[str, list[str]] = {peer: [] for peer in peers}
    for _ in range(limit // len(peers)):
        for peer in peers:
            node.world.advance(1)
            made[peer].append(identifier_in(post(node, foreign.create(), peer=peer)))
    return node, foreign, made


def still_open(node: Node) -> set[str]:
    node.world.advance(1)
    return {each.identifier for each in node.destinations() if not each.machine.tombstone}


def test_peers_that_use_up_the_limit_keep_no_newcomer_out() -> None:
    node, foreign, made = filled(12, FIRST, SECOND)
    post(node, foreign.note(made[FIRST][0], 1), peer=FIRST)  # handled at once: it is in use, and holds nothing
    assert create(node, foreign, FIRST) == REFUSED
    assert create(node, foreign, NEWCOMER) == MADE
    left = still_open(node)
    gone = {sequence for sequences in made.values() for sequence in sequences} - left
    assert (len(left), gone) == (12, {made[FIRST][1]}), "the longest idle one of a peer that has most"
    assert create(node, foreign, NEWCOMER) == MADE
    assert len(still_open(node)) == 12


def test_newcomer_takes_no_more_than_half_of_what_the_one_with_most_has() -> None:
    node, foreign, _ = filled(12, FIRST, SECOND)
    answers = []
    for _ in range(4):
        answers.append(create(node, foreign, NEWCOMER))
        node.world.advance(1)
    assert answers == [MADE, MADE, REFUSED, REFUSED]


def test_newcomers_that_come_together_are_taken_together() -> None:
    node, foreign, _ = filled(12, FIRST)
    replies = node.get_all([foreign.create() for _ in range(5)])
    assert [name_of(reply) for reply in replies] == [MADE] * 4 + [REFUSED]
    assert len(still_open(node)) == 12


def test_room_is_made_though_what_made_it_before_has_not_ended_yet() -> None:
    node, foreign, _ = filled(12, FIRST)
    assert [create(node, foreign, f"192.0.2.{number}") for number in range(10, 15)] == [MADE] * 5
    assert len(still_open(node)) == 12


def test_sequence_with_messages_that_wait_makes_no_room_until_it_is_idle_for_long() -> None:
    node, foreign, made = filled(4, FIRST)
    for sequence in made[FIRST][:3]:
        assert name_of(post(node, foreign.note(sequence, 2), peer=FIRST)) == "acknowledgement"
    assert create(node, foreign, "192.0.2.8") == MADE
    assert still_open(node) >= set(made[FIRST][:3])
    assert create(node, foreign, NEWCOMER) == REFUSED
    node.world.advance(3600)
    assert create(node, foreign, NEWCOMER) == MADE


def test_peers_with_about_as_many_sequences_take_none_from_each_other() -> None:
    node, foreign, made = filled(3, FIRST, SECOND, "192.0.2.3")
    assert create(node, foreign, NEWCOMER) == REFUSED
    assert still_open(node) == {sequence for sequences in made.values() for sequence in sequences}


def together(node: Node, *come: tuple[str, HttpMessage]) -> list[str]:
    """What these peers post is handled in one transaction; returns the names of the answers."""
    arrivals = [Arrival(http=http, service=SERVICE, url=node.service_url, peer=peer) for peer, http in come]
    answers = node.receive(arrivals)
    assert answers is not None
    return [name_of(answer.http) for answer in answers]


def test_sequence_whose_message_comes_in_the_same_moment_makes_no_room() -> None:
    node, foreign, made = filled(2, FIRST)
    waiting = [(FIRST, foreign.note(sequence, 2)) for sequence in made[FIRST]]
    assert together(node, *waiting, (NEWCOMER, foreign.create())) == ["acknowledgement"] * 2 + [REFUSED]
    assert still_open(node) == set(made[FIRST])


def test_message_that_comes_just_after_its_sequence_made_room_is_handled_if_it_is_acknowledged() -> None:
    node, foreign, made = filled(2, FIRST)
    answers = together(node, (NEWCOMER, foreign.create()), (FIRST, foreign.note(made[FIRST][0], 1, "late")))
    assert answers[0] == MADE
    assert made[FIRST][0] not in still_open(node)
    assert (answers[1] == "acknowledgement") == (node.handled == ["late"]), answers
