"""A request is acknowledged, and its response can no longer come: the waiting future fails."""

from __future__ import annotations

from concurrent.futures import Future

import pytest

from mercury.errors import SequenceFailed
from mercury.statemachine.protocol import ALL_PROTOCOLS, Protocol

from .foreign import Foreign, answer_to, brought
from .harness import Pair

PROTOCOLS = pytest.mark.parametrize("protocol", ALL_PROTOCOLS, ids=str)
LISTENS = pytest.mark.parametrize("listens", [True, False], ids=["listening", "anonymous"])
LOST = "no response will come: its sequence ended before a response came"


class Busy:
    """A client whose request is acknowledged, at a server whose handler does not get it done."""

    def __init__(self, protocol: Protocol | None = None, *, listens: bool) -> None:
        self.pair = Pair()
        self.pair.server.on_call = lambda _context, _text: 1 / 0
        self.client, self.server = self.pair.client, self.pair.server
        self.link = self.pair.link(protocol, listens=listens)
        self.future: Future[bytes] = self.link.ask("one")
        self.pair.advance(2)
        assert self.client.source().machine.acknowledged.count == 1
        assert not self.future.done()

    def server_forgets(self) -> None:
        """Its store was in memory, and it starts anew."""
        self.server.stop()
        self.server.forget()
        self.server.on_call = None
        self.server.start()

    def assert_lost(self) -> None:
        assert self.future.done()
        with pytest.raises(SequenceFailed, match=LOST):
            self.future.result(0)
        assert self.client.letters_by_text() == [("one", "unknown")]
        assert self.link.wait(0).settled
        assert self.link.pending == 0
        self.pair.assert_sound()


@PROTOCOLS
def test_a_server_that_forgot_the_sequence_forgot_the_request(protocol: Protocol) -> None:
    busy = Busy(protocol, listens=False)
    busy.server_forgets()
    busy.pair.advance(60)
    busy.assert_lost()
    assert busy.pair.count("fault UnknownSequence") == 1


@PROTOCOLS
def test_a_client_that_listens_learns_it_with_its_next_message(protocol: Protocol) -> None:
    busy = Busy(protocol, listens=True)
    busy.server_forgets()
    (later,) = busy.link.notes("two")
    busy.pair.advance(60)
    assert busy.future.done()
    assert sorted(busy.client.letters_by_text()) == [("one", "unknown"), ("two", "unknown")]
    assert later in [message_id for message_id, _ in busy.client.reported.dead_lettered]
    assert busy.link.wait(0).settled
    busy.pair.assert_sound()


@LISTENS
def test_the_next_request_under_the_key_is_answered(listens: bool) -> None:
    busy = Busy(listens=listens)
    busy.server_forgets()
    if listens:
        busy.link.notes("two")
    busy.pair.advance(60)
    again = busy.link.ask("again")
    busy.pair.advance(60)
    assert again.result(0).endswith(b">re again</t:entry>")


def test_requests_of_a_sequence_ended_by_the_peer_may_still_be_answered_to_a_listening_client() -> None:
    # The end of a sequence stops nothing at its destination: the response has a sequence of its own.
    busy = Busy(listens=True)
    identifier = busy.client.source().machine.identifier or ""
    terminate = Foreign().terminate(identifier, message_id="urn:end", reply_to="anonymous")
    brought(busy.client, terminate)
    assert not busy.client.source().machine.alive
    assert not busy.future.done()
    assert busy.client.letters_by_text() == []
    busy.server.on_call = None
    busy.pair.advance(60)
    assert busy.future.result(0).endswith(b">re one</t:entry>")


def test_without_an_address_the_end_by_the_peer_is_the_end_of_the_responses() -> None:
    # RM-TRM-05
    busy = Busy(listens=False)
    identifier = busy.client.source().machine.identifier or ""
    busy.pair.now += 10  # the request is repeated
    busy.client.turn()
    answer_to(busy.client, Foreign().terminate(identifier, reply_to="anonymous"), purpose="message")
    busy.assert_lost()


def test_an_abandoned_request_without_an_address_is_given_up_with_its_sequence() -> None:
    busy = Busy(listens=False)
    busy.link.terminate()
    busy.pair.advance(60)
    busy.assert_lost()


def test_a_sequence_that_fails_leaves_no_acknowledged_request_behind() -> None:
    # One request is acknowledged and not answered, another is not even acknowledged.
    busy = Busy(listens=False)
    busy.pair.lose("message 2", 100)
    second = busy.link.ask("two")
    busy.pair.advance(1)
    busy.server_forgets()
    busy.pair.advance(60)
    assert sorted(busy.client.letters_by_text()) == [("one", "unknown"), ("two", "unknown")]
    for future in (busy.future, second):
        with pytest.raises(SequenceFailed):
            future.result(0)
    assert busy.link.wait(0).settled


def test_a_response_that_is_stored_is_consumed_whatever_becomes_of_the_sequence() -> None:
    pair = Pair()
    link = pair.link(listens=False)
    stuck = [True]
    pair.client.on_call = lambda _context, _text: 1 / 0 if stuck[0] else None
    link.asks("one")
    pair.advance(2)
    assert pair.client.answers == []
    pair.server.stop()
    pair.server.forget()
    pair.server.start()
    link.notes("two")
    pair.advance(20)
    assert [text for text, _ in pair.client.letters_by_text()] == ["two"]
    stuck[0] = False
    pair.advance(20)
    assert pair.client.answers == [("one", "re one")]
    assert link.pending == 0
