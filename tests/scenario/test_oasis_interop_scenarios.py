"""The interoperability scenarios of the OASIS committee WS-RX, with Mercury at both ends, and at each end alone.

The numbers are those of the committee's document: 1.1 one-way, acknowledged on connections; 1.2 a sequence without a
message; 1.3 a sequence that is closed with a message missing; 1.4 one-way, acknowledged at an address; 2.1 request and
response over an offered sequence; 2.2 without an offer; 2.3 with an offer that is declined (LIVE-06).
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from mercury.engine.exchange import ACCEPTED
from mercury.statemachine.protocol import Protocol, RmVersion
from mercury.testing import Flight
from mercury.wire.decode import decode
from mercury.wire.envelope import HttpMessage

from .dotnet import post, read
from .foreign import RM10_SOAP12, RM11_SOAP11, RM11_SOAP12, Foreign, answer_to
from .harness import ASK, Node, Pair, World, body, name_of

TEXTS = ("one", "two", "three")
PROTOCOLS = pytest.mark.parametrize("protocol", [RM11_SOAP12, RM11_SOAP11, RM10_SOAP12], ids=str)
RM11 = pytest.mark.parametrize("protocol", [RM11_SOAP12, RM11_SOAP11], ids=str)


# --- both ends -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scenario:
    """What Mercury's two ends are to do, and what is on the wire then."""

    number: str
    listens: bool
    offer: bool
    requests: bool
    #: Kinds of messages that are posted, in the order of their first appearance; LastMessage and CloseSequence are END.
    posted: tuple[str, ...]
    #: Kinds that come back on connections, besides the empty 202.
    replied: tuple[str, ...]


END = "end"
SCENARIOS = [
    Scenario(
        "1.1",
        listens=False,
        offer=False,
        requests=False,
        posted=("CreateSequence", "message", END, "TerminateSequence"),
        replied=("CreateSequenceResponse", "acknowledgement", "CloseSequenceResponse", "TerminateSequenceResponse"),
    ),
    Scenario(
        "1.4",
        listens=True,
        offer=False,
        requests=False,
        posted=(
            *("CreateSequence", "CreateSequenceResponse", "message", "acknowledgement"),
            *(END, "CloseSequenceResponse", "TerminateSequence", "TerminateSequenceResponse"),
        ),
        replied=(),
    ),
    Scenario(
        "2.1",
        listens=False,
        offer=True,
        requests=True,
        posted=("CreateSequence", "message", END, "TerminateSequence"),
        replied=("CreateSequenceResponse", "response", "CloseSequenceResponse", "TerminateSequenceResponse"),
    ),
    Scenario(
        "2.2",
        listens=False,
        offer=False,
        requests=True,
        posted=("CreateSequence", "message", END, "TerminateSequence"),
        replied=("CreateSequenceResponse", "bare message", "CloseSequenceResponse", "TerminateSequenceResponse"),
    ),
]


def kind(flight: Flight) -> str:
    name = flight.name.rstrip("0123456789 ")
    return END if name in ("LastMessage", "CloseSequence") else name


@PROTOCOLS
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.number)
def test_scenario_between_two_ends_of_mercury(scenario: Scenario, protocol: Protocol) -> None:
    # HTTP-04, RM-ACK-10, LIVE-06
    pair = Pair()
    posted: dict[str, None] = {}
    replied: dict[str, None] = {}
    launch = pair.launch

    def watch(flight: Flight) -> None:
        launch(flight)
        (replied if flight.is_reply else posted)[kind(flight)] = None

    pair.launch = watch  # type: ignore[method-assign]
    link = pair.link(protocol, listens=scenario.listens, offer=scenario.offer)
    (link.asks if scenario.requests else link.notes)(*TEXTS)
    link.close()
    pair.advance(30)
    gone = set() if protocol.rm is RmVersion.RM11 else {"CloseSequenceResponse", "TerminateSequenceResponse"}
    # 1.0 acknowledges its LastMessage
    extra = set() if protocol.rm is RmVersion.RM11 or scenario.listens else {"acknowledgement"}
    assert set(posted) == set(scenario.posted) - gone
    assert set(replied) - {"accepted"} == (set(scenario.replied) - gone) | extra
    assert pair.server.handled == list(TEXTS)
    assert pair.client.answers == ([(text, f"re {text}") for text in TEXTS] if scenario.requests else [])
    assert not any(record.machine.alive for record in pair.client.sources())
    assert all(record.machine.tombstone for record in pair.server.destinations())
    assert pair.client.letters() == pair.server.letters() == []
    pair.assert_sound()


# --- Mercury as the destination --------------------------------------------------------------------------------------


@PROTOCOLS
def test_scenario_1_2_as_destination(protocol: Protocol) -> None:
    # RM11-CLS-01: without a message there is no LastMsgNumber
    node, foreign = Node("server", World()), Foreign(protocol)
    identifier = foreign.open(node)
    if protocol.rm is RmVersion.RM11:
        closed = read(node.get(foreign.close(identifier)))
        assert [(each.ranges, each.final) for each in closed.acknowledgements] == [((), True)]
    ended = node.get(foreign.terminate(identifier))
    assert name_of(ended) == ("TerminateSequenceResponse" if protocol.rm is RmVersion.RM11 else "accepted")
    assert node.destination().machine.tombstone
    assert node.handled == []
    assert node.letters() == []


@RM11
def test_scenario_1_3_as_destination(protocol: Protocol) -> None:
    # RM11-CLS-02, RM11-ACK-08, RM11-SEQ-10: the second of three messages is missing
    node, foreign = Node("server", World()), Foreign(protocol)
    identifier = foreign.open(node)
    for number in (1, 3):
        accepted = read(node.get(foreign.note(identifier, number))).acknowledgements[0].ranges
    closed = read(node.get(foreign.close(identifier, 3)))
    assert [(each.ranges, each.final) for each in closed.acknowledgements] == [(accepted, True)]
    late = node.get(foreign.note(identifier, 2))
    assert name_of(late) == "fault SequenceClosed"
    assert [(each.ranges, each.final) for each in read(late).acknowledgements] == [(accepted, True)]
    ended = read(node.get(foreign.terminate(identifier, 3)))
    assert [(each.ranges, each.final) for each in ended.acknowledgements] == [(accepted, True)]
    node.world.run()
    assert [f"note {low}" for low, _ in accepted] == node.handled, "no more and no less than was acknowledged"


@PROTOCOLS
@pytest.mark.parametrize("offer", [None, "urn:known"], ids=["2.2", "2.3"])
def test_scenarios_2_2_and_2_3_as_destination(offer: str | None, protocol: Protocol) -> None:
    # RM-CS-07, LIVE-06: without a sequence for it, the response is an ordinary reply
    node, foreign = Node("server", World()), Foreign(protocol)
    if offer is not None:
        foreign.open(node, offer=offer)  # now it is known, and not accepted a second time
    creation = node.get(foreign.create(offer=offer, reply_to="anonymous"))
    assert b"Accept" not in creation.body
    identifier = creation.body.split(b"Identifier>", 1)[1].split(b"</", 1)[0].decode()
    answer = post(node, foreign.ask(identifier, 1, "one", message_id="urn:1", reply_to="anonymous"))
    assert answer.waiting
    reply = node.respond(answer.waiting)
    assert reply is not None
    envelope = read(reply)
    assert (envelope.relates_to, envelope.sequence) == ("urn:1", None)
    assert envelope.acknowledgements[0].ranges == ((1, 1),)


# --- Mercury as the source -------------------------------------------------------------------------------------------


class Source:
    """A client of Mercury's whose sequence a foreign destination has made."""

    def __init__(self, protocol: Protocol, *, requests: bool = False, offer: bool = True) -> None:
        self.pair, self.foreign = Pair(), Foreign(protocol)
        self.client = self.pair.client
        self.pair.server.stop()
        self.link = self.pair.link(protocol, listens=False, offer=offer)
        (self.link.asks if requests else self.link.notes)(*(TEXTS[:1] if requests else TEXTS))
        self.pair.turn()
        created = self.foreign.created("urn:theirs", self.client.source().create_message_id)
        answer_to(self.client, created, purpose="CreateSequence")
        self.pair.turn()

    def answer(self, name: str, reply: HttpMessage) -> None:
        flight = next(each for each in self.pair.wire if each.name == name)
        self.pair.wire.remove(flight)
        assert flight.exchange is not None
        flight.exchange.over = True
        self.client.answered(flight.exchange.outgoing, reply)
        self.pair.turn()

    def message_id(self, name: str) -> str:
        flight = next(each for each in self.pair.wire if each.name == name)
        return decode(flight.http.body, flight.http.content_type, flight.http.soap_action).message_id or ""


@RM11
def test_scenario_1_3_as_source(protocol: Protocol) -> None:
    # RM11-CLS-01, ST-S10, DA-05: it gives up waiting, and learns for certain what did not arrive
    source = Source(protocol)
    some = source.foreign.acknowledgement("urn:theirs", ((1, 1), (3, 3)))
    source.answer("message 1", source.foreign.alone(some))
    source.link.terminate()
    source.pair.turn()
    closing = next(each for each in source.pair.wire if each.name == "CloseSequence")
    assert b"LastMsgNumber>3<" in closing.http.body
    final = source.foreign.acknowledgement("urn:theirs", ((1, 1), (3, 3)), final=True)
    for name in ("CloseSequence", "TerminateSequence"):
        told = source.foreign.ended(f"{name}Response", "urn:theirs", source.message_id(name), final)
        source.answer(name, told)
    assert source.client.letters_by_text() == [("two", "not delivered")]
    assert not source.client.source().machine.alive
    source.pair.assert_sound()


@PROTOCOLS
@pytest.mark.parametrize("offer", [False, True], ids=["2.2", "2.3"])
def test_scenarios_2_2_and_2_3_as_source(offer: bool, protocol: Protocol) -> None:
    # LIVE-06, RM-CS-07: an ordinary reply is the response
    source = Source(protocol, requests=True, offer=offer)
    taken = source.foreign.acknowledgement("urn:theirs", ((1, 1),))
    reply = source.foreign.envelope(
        f"{ASK}Response", body("re one").decode(), headers=taken, relates_to=source.message_id("message 1")
    )
    source.answer("message 1", reply)
    source.pair.turn()
    assert source.client.answers == [("one", "re one")]
    assert not source.client.destinations() or all(not each.machine.received for each in source.client.destinations())
    source.link.close()
    source.pair.turn()
    if protocol.rm is RmVersion.RM10:
        source.answer("LastMessage", source.foreign.alone(source.foreign.acknowledgement("urn:theirs", ((1, 2),))))
        source.answer("TerminateSequence", ACCEPTED)
    else:
        final = source.foreign.acknowledgement("urn:theirs", ((1, 1),), final=True)
        for name in ("CloseSequence", "TerminateSequence"):
            told = source.foreign.ended(f"{name}Response", "urn:theirs", source.message_id(name), final)
            source.answer(name, told)
    assert not source.client.source().machine.alive
    assert source.client.letters() == []
    source.pair.assert_sound()


def test_scenario_1_2_as_source_needs_no_sequence() -> None:
    # Mercury asks for a sequence with the first message for it: the end of nothing says nothing.
    pair = Pair()
    pair.link().close()
    pair.advance(10)
    assert pair.seen == []
