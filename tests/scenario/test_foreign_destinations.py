"""Destinations that nobody here wrote: what they were seen to do with a source's messages (LIVE rules)."""

from __future__ import annotations

import pytest

from mercury.engine.exchange import ACCEPTED
from mercury.statemachine.protocol import Protocol
from mercury.statemachine.tables import RmsState

from .foreign import RM10_SOAP11, RM10_SOAP12, RM11_SOAP12, Foreign, answer_to, brought
from .harness import Link, Pair

OLD = pytest.mark.parametrize("protocol", [RM10_SOAP11, RM10_SOAP12], ids=str)


class Theirs:
    """A client with a sequence at a scripted destination."""

    def __init__(self, protocol: Protocol = RM11_SOAP12, *texts: str, **changes: object) -> None:
        self.pair, self.foreign = Pair(), Foreign(protocol)
        self.pair.server.stop()
        self.link: Link = self.pair.link(protocol, **changes)
        self.link.notes(*texts)
        self.pair.turn()
        created = self.foreign.created("urn:theirs", self.pair.client.source().create_message_id)
        answer_to(self.pair.client, created, purpose="CreateSequence")
        self.pair.turn()

    def acknowledge(self, *ranges: tuple[int, int], final: bool = False, extra: str = "") -> None:
        """An acknowledgement comes, on a connection of its own."""
        block = self.foreign.acknowledgement("urn:theirs", ranges, final=final, extra=extra)
        brought(self.pair.client, self.foreign.alone(block))
        self.pair.turn()

    def pass_by(self, seconds: float) -> None:
        """Time passes; the destination takes every connection and says nothing."""
        self.pair.advance(seconds)


# --- LastMessage and TerminateSequence -------------------------------------------------------------------------------


@OLD
def test_a_bare_last_message_leaves_when_everything_before_it_is_acknowledged(protocol: Protocol) -> None:
    # LIVE-03: Metro closes the sequence at its arrival, and refuses what it overtook for ever.
    theirs = Theirs(protocol, "one", "two", "three")
    theirs.link.close()
    theirs.pass_by(0.5)
    assert "LastMessage" not in theirs.pair.seen
    theirs.acknowledge((1, 1), (3, 3))
    theirs.pass_by(0.1)
    assert "LastMessage" not in theirs.pair.seen
    theirs.acknowledge((1, 3))
    theirs.pass_by(0.1)
    assert theirs.pair.count("LastMessage") == 1
    theirs.acknowledge((1, 4))
    assert theirs.pair.client.source().machine.state is RmsState.ENDING


def test_a_repeated_terminate_sequence_that_is_accepted_without_a_word_settles_the_end() -> None:
    # LIVE-08: the answer to the first one was lost, and the destination has forgotten the sequence.
    theirs = Theirs(RM11_SOAP12, "one", close=False)
    theirs.link.close()
    theirs.acknowledge((1, 1))
    answer_to(theirs.pair.client, ACCEPTED, purpose="TerminateSequence")
    assert not theirs.link.wait(0), "to the first one the answer may still come, to ReplyTo"
    theirs.pair.now += 1
    theirs.pair.turn()
    answer_to(theirs.pair.client, ACCEPTED, purpose="TerminateSequence")
    assert theirs.link.wait(0)
    assert theirs.pair.count("TerminateSequence") == 2
    assert theirs.pair.client.source().machine.state is RmsState.ENDED
