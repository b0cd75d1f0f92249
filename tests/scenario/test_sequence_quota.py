"""The limit on open sequences: first unused ones make room for new ones, then those of the peer with the most."""

from __future__ import annotations

from mercury.engine.destination.quota import IN_USE, UNUSED
from mercury.engine.exchange import Arrival
from mercury.wire.envelope import HttpMessage

from .foreign import Foreign, identifier_in
from .harness import Node, name_of
from .harness.words import SERVICE
from .test_ownership_of_sequences import create, post, server

MADE, REFUSED = "CreateSequenceResponse", "fault CreateSequenceRefused"
FIRST, SECOND, NEWCOMER = "192.0.2.1", "192.0.2.2", "192.0.2.9"


def made_by(node: Node, foreign: Foreign, peer: str, count: int, *, used: bool) -> list[str]:
    """So many sequences of a peer, the oldest first; where they are used, a message of each was handled."""
    made = []
    for _ in range(count):
        node.world.advance(1)
        made.append(identifier_in(post(node, foreign.create(), peer=peer)))
        if used:
            assert name_of(post(node, foreign.note(made[-1], 1), peer=peer)) == "acknowledgement"
    return made


def filled(limit: int, *peers: str) -> tuple[Node, Foreign, dict[str, list[str]]]:
    """A server whose limit on all sequences is used up by these peers in equal parts: their sequences, oldest first.

    Each was used, and for a while now it is not.
    """
    node, foreign = server(max_sequences=limit, idle_sequence=3600), Foreign()
    made: dict[str, list[str]] = {peer: [] for peer in peers}
    for _ in range(limit // len(peers)):
        for peer in peers:
            made[peer] += made_by(node, foreign, peer, 1, used=True)
    node.world.advance(IN_USE)
    return node, foreign, made


def still_open(node: Node) -> set[str]:
    node.world.advance(1)
    return {each.identifier for each in node.destinations() if not each.machine.tombstone}


def test_peers_that_use_up_the_limit_keep_no_newcomer_out() -> None:
    node, foreign, made = filled(12, FIRST, SECOND)
    post(node, foreign.note(made[FIRST][0], 2), peer=FIRST)  # handled at once: it is in use, and holds nothing
    assert create(node, foreign, FIRST) == REFUSED
    assert create(node, foreign, NEWCOMER) == MADE
    left = still_open(node)
    gone = {sequence for sequences in made.values() for sequence in sequences} - left
    assert (len(left), gone) == (12, {made[FIRST][1]}), "the longest idle one of a peer that has most"
    node.world.advance(1)
    assert create(node, foreign, NEWCOMER) == MADE
    assert len(still_open(node)) == 12


def test_unused_sequences_of_a_peer_make_room_for_its_own_after_a_minute() -> None:
    """Other peers may have caused them: by requests to it whose responses it sends here."""
    node, foreign = server(max_sequences_per_peer=3, idle_sequence=3600), Foreign()
    used = made_by(node, foreign, FIRST, 1, used=True)
    unused = made_by(node, foreign, FIRST, 2, used=False)
    assert create(node, foreign, FIRST) == REFUSED
    node.world.advance(UNUSED)
    assert create(node, foreign, FIRST) == MADE
    left = still_open(node)
    assert (len(left), set(used) <= left, unused[0] in left) == (3, True, False)


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
        assert name_of(post(node, foreign.note(sequence, 3), peer=FIRST)) == "acknowledgement"
    node.world.advance(IN_USE + 1)
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
    waiting = [(FIRST, foreign.note(sequence, 3)) for sequence in made[FIRST]]
    assert together(node, *waiting, (NEWCOMER, foreign.create())) == ["acknowledgement"] * 2 + [REFUSED]
    assert still_open(node) == set(made[FIRST])


def test_message_that_comes_just_after_its_sequence_made_room_is_handled_if_it_is_acknowledged() -> None:
    node, foreign, made = filled(2, FIRST)
    node.handled.clear()
    answers = together(node, (NEWCOMER, foreign.create()), (FIRST, foreign.note(made[FIRST][0], 2, "late")))
    assert (answers[0] == MADE) == (made[FIRST][0] not in still_open(node)), "a message that was taken first keeps it"
    assert (answers[1] == "acknowledgement") == (node.handled == ["late"]), answers


# --- what nobody uses makes room first, what is in use makes none -----------------------------------------------------


def pressed(honest: int, others: int) -> tuple[Node, Foreign, list[str]]:
    """A server that is full: one peer uses most of the sequences, and other peers have two each and use none."""
    node, foreign = server(max_sequences=honest + 2 * others, idle_sequence=3600), Foreign()
    in_use = made_by(node, foreign, FIRST, honest, used=True)
    for number in range(others):
        made_by(node, foreign, f"192.0.2.{100 + number}", 2, used=False)
    return node, foreign, in_use


def test_peer_with_most_sequences_keeps_those_that_it_uses_however_many_others_come() -> None:
    node, foreign, in_use = pressed(12, 3)
    answers = [create(node, foreign, f"192.0.2.{200 + number}") for number in range(3)]
    assert answers == [REFUSED] * 3, "what the others have made is young yet, and the rest is in use"
    for sequence in in_use:
        assert name_of(post(node, foreign.note(sequence, 2), peer=FIRST)) == "acknowledgement"
    node.world.advance(UNUSED + 1)
    answers = [create(node, foreign, f"192.0.2.{200 + number}") for number in range(6)]
    assert answers == [MADE] * 6
    assert still_open(node) >= set(in_use)
    assert create(node, foreign, NEWCOMER) == REFUSED
    for sequence in in_use:
        assert name_of(post(node, foreign.note(sequence, 3), peer=FIRST)) == "acknowledgement"
    node.world.advance(1)
    assert len(node.handled) == 3 * 12


def test_sequence_that_was_never_used_makes_room_also_for_a_peer_that_has_many() -> None:
    node, foreign, in_use = pressed(6, 2)
    node.world.advance(UNUSED)
    assert create(node, foreign, FIRST) == MADE
    assert still_open(node) > set(in_use)


def test_of_sequences_that_were_never_used_those_of_the_peer_with_most_make_room_first() -> None:
    node, foreign = server(max_sequences=6, idle_sequence=3600), Foreign()
    few = made_by(node, foreign, FIRST, 2, used=False)
    many = made_by(node, foreign, SECOND, 4, used=False)
    node.world.advance(UNUSED + 1)
    assert create(node, foreign, NEWCOMER) == MADE
    assert {*few, *many} - still_open(node) == {many[0]}


def test_sequence_that_was_never_used_makes_room_before_one_that_was_used_an_hour_ago() -> None:
    node, foreign = server(max_sequences=2, idle_sequence=3600), Foreign()
    (used,) = made_by(node, foreign, FIRST, 1, used=True)
    node.world.advance(3600)
    (unused,) = made_by(node, foreign, SECOND, 1, used=False)
    node.world.advance(UNUSED + 1)
    assert create(node, foreign, NEWCOMER) == MADE
    assert used in still_open(node)
    assert unused not in still_open(node)
    assert create(node, foreign, "192.0.2.8") == MADE
    assert used not in still_open(node)


def test_store_is_not_searched_again_in_the_second_after_there_was_no_room() -> None:
    node, foreign, _ = pressed(2, 1)
    node.world.advance(UNUSED - 1.5)
    assert create(node, foreign, NEWCOMER) == REFUSED
    node.world.advance(0.9)
    assert create(node, foreign, NEWCOMER) == REFUSED, "a sequence is old enough now, but no maintenance has run"
    node.world.advance(0.2)
    assert create(node, foreign, NEWCOMER) == MADE
