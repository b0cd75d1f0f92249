"""More messages wait than the window allows: which ones are numbered and sent, and which do not wait for the window."""

from __future__ import annotations

import pytest

from mercury.statemachine.tables import RmsState
from mercury.wire.decode import decode
from mercury.wire.envelope import HttpMessage

from .foreign import RM11_SOAP12, Foreign, answer_to, brought
from .harness import Pair

TEXTS = [f"text {number}" for number in range(1, 41)]


class Crowd:
    """A client with 40 messages, a window of 16, and a foreign server that is slow to acknowledge."""

    def __init__(self, texts: int = 40) -> None:
        self.pair, self.foreign = Pair(), Foreign(RM11_SOAP12)
        self.pair.server.stop()
        self.link = self.pair.link(RM11_SOAP12, window=16)
        self.link.notes(*TEXTS[:texts])
        self.pair.turn()
        created = self.foreign.created("urn:theirs", self.pair.client.source().create_message_id)
        answer_to(self.pair.client, created, purpose="CreateSequence")
        self.pair.turn()

    def acknowledge(self, *ranges: tuple[int, int]) -> None:
        brought(self.pair.client, self.foreign.alone(self.foreign.acknowledgement("urn:theirs", ranges)))
        self.pair.turn()

    @property
    def sent(self) -> int:
        """The highest number that was sent."""
        return self.pair.client.source().machine.highest_sent

    @property
    def numbered(self) -> int:
        return self.pair.client.source().machine.last_number


@pytest.fixture
def crowd() -> Crowd:
    return Crowd()


def test_message_that_cannot_be_sent_gets_no_number(crowd: Crowd) -> None:
    assert (crowd.numbered, crowd.sent) == (16, 16)
    assert crowd.pair.client.store.due_rms(crowd.pair.now, 10) == []
    assert crowd.pair.client.rows() == 40


def test_a_full_window_opens_by_quarters(crowd: Crowd) -> None:
    crowd.acknowledge((1, 3))
    assert crowd.sent == 16, "three numbers are not worth a look"
    crowd.acknowledge((1, 4))
    assert (crowd.numbered, crowd.sent) == (20, 20)
    crowd.acknowledge((1, 20))
    assert (crowd.numbered, crowd.sent) == (36, 36)
    crowd.acknowledge((1, 21))
    assert crowd.sent == 36
    crowd.acknowledge((1, 36))
    assert crowd.sent == 40
    crowd.acknowledge((1, 40))
    assert crowd.pair.client.rows() == 0


def test_acknowledgements_with_gaps_open_it_as_well(crowd: Crowd) -> None:
    crowd.acknowledge((2, 3), (5, 5), (16, 16))
    assert crowd.sent == 20


def test_the_last_few_wait_for_no_quarter(crowd: Crowd) -> None:
    crowd.acknowledge((1, 14))
    crowd.acknowledge((1, 28))
    assert crowd.sent == 40, "12 were left, and the window had room for 14"


def test_one_more_message_is_sent_at_once_while_there_is_room() -> None:
    crowd = Crowd(texts=15)
    crowd.link.notes("one more")
    crowd.pair.turn()
    assert crowd.sent == 16
    crowd.link.notes("too many")
    crowd.pair.turn()
    assert crowd.numbered == 16
    crowd.acknowledge((1, 4))
    assert crowd.sent == 17


def test_of_each_quarter_one_asks_for_an_acknowledgement() -> None:
    pair, asking = Pair(), []

    def look(http: HttpMessage) -> HttpMessage:
        envelope = decode(http.body, http.content_type, http.soap_action)
        if envelope.ack_requests and envelope.sequence is not None:
            asking.append(envelope.sequence.message_number)
        return http

    pair.alter("message*", look, 100)
    pair.link(window=16).notes(*TEXTS[:16])
    pair.run()
    assert asking == [4, 8, 12, 16]


def test_an_end_waits_for_what_was_handed_over_before_it(crowd: Crowd) -> None:
    crowd.link.close()
    crowd.pair.turn()
    assert crowd.pair.client.source().machine.last_message is None
    crowd.acknowledge((1, 16))
    crowd.acknowledge((1, 32))
    crowd.acknowledge((1, 40))
    assert crowd.pair.client.source().machine.last_message == 40
    assert crowd.pair.client.source().machine.state is RmsState.ENDING


def test_an_abandonment_does_not_wait_for_room(crowd: Crowd) -> None:
    crowd.link.terminate()
    crowd.pair.turn()
    crowd.pair.turn()
    assert crowd.pair.client.source().machine.abandoned


def test_with_a_lost_window_the_rest_follows_in_order() -> None:
    pair = Pair()
    pair.lose("message*", 16)
    pair.link(window=16).notes(*TEXTS)
    pair.advance(30)
    assert pair.server.handled == TEXTS
