"""The faults Mercury raises, in each situation of docs/protocol.md, section 8, and in both versions of SOAP."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mercury.engine.registry import Registry
from mercury.statemachine.faults import Fault
from mercury.statemachine.protocol import ALL_PROTOCOLS, MAX_MESSAGE_NUMBER, Protocol, RmVersion, SoapVersion
from mercury.wire.decode import decode
from mercury.wire.envelope import HttpMessage

from .foreign import RM10_SOAP11, RM10_SOAP12, RM11_SOAP11, RM11_SOAP12, Foreign, identifier_in
from .harness import ASK, DESTINATION, NOTE, Node, World, body, name_of

PROTOCOLS = pytest.mark.parametrize("protocol", ALL_PROTOCOLS, ids=str)
ALL_RM11 = [RM11_SOAP11, RM11_SOAP12]
ALL_RM10 = [RM10_SOAP11, RM10_SOAP12]


def at_server(protocol: Protocol, **settings: object) -> tuple[Node, Foreign]:
    return Node("server", World(), **settings), Foreign(protocol)


def assert_fault(
    reply: HttpMessage, protocol: Protocol, code: str, *, status: int, by_receiver: bool = False, headed: bool = True
) -> None:
    """``reply`` is this fault of WS-RM, in the form that its version of SOAP has for it.

    :param headed: SOAP 1.1 has it in a SequenceFault header block; otherwise it is the faultcode itself.
    """
    assert name_of(reply) == f"fault {code}"
    assert reply.status == status
    text = reply.body.decode()
    if protocol.soap is SoapVersion.SOAP12:
        assert "SequenceFault" not in text
        assert f"Value>soap:{'Receiver' if by_receiver else 'Sender'}<" in text
        assert f":{code}</soap:Value>" in text
        assert text.count("Subcode>") >= 2
        assert 'action="' in reply.content_type
    elif headed:
        assert f"<faultcode>soap:{'Server' if by_receiver else 'Client'}</faultcode>" in text
        assert f"FaultCode>wsrm:{code}<" in text
        assert text.index("SequenceFault") < text.index(":Body")
    else:
        assert "SequenceFault" not in text
        assert f":{code}</faultcode>" in text


@PROTOCOLS
def test_unknown_sequence(protocol: Protocol) -> None:
    # FLT-02
    node, foreign = at_server(protocol)
    reply = node.get(foreign.note("urn:nothing", 1, message_id="urn:question"))
    assert_fault(reply, protocol, "UnknownSequence", status=400 if protocol.soap is SoapVersion.SOAP12 else 500)
    assert identifier_in(reply) == "urn:nothing"
    assert b"RelatesTo>urn:question<" in reply.body


@PROTOCOLS
def test_sequence_terminated_with_what_was_accepted(protocol: Protocol) -> None:
    # FLT-01, RM-SEQ-05
    node, foreign = at_server(protocol)
    identifier = foreign.open(node)
    node.get(foreign.note(identifier, 1))
    node.get(foreign.terminate(identifier, 1))
    reply = node.get(foreign.note(identifier, 2))
    assert_fault(reply, protocol, "SequenceTerminated", status=400 if protocol.soap is SoapVersion.SOAP12 else 500)
    assert b'Lower="1" Upper="1"' in reply.body


@pytest.mark.parametrize("protocol", ALL_RM11, ids=str)
def test_sequence_terminated_when_nothing_had_been_accepted(protocol: Protocol) -> None:
    node, foreign = at_server(protocol)
    identifier = foreign.open(node)
    node.get(foreign.terminate(identifier))
    reply = node.get(foreign.note(identifier, 1))
    assert name_of(reply) == "fault SequenceTerminated"
    assert b"None/>" in reply.body
    assert b"Final/>" in reply.body


def test_a_late_duplicate_after_the_end_is_no_new_message() -> None:
    # Trace 9 of the state machines: the source takes the fault with the ranges for success.
    node, foreign = at_server(RM11_SOAP12)
    identifier = foreign.open(node)
    node.get(foreign.note(identifier, 1))
    node.get(foreign.terminate(identifier, 1))
    reply = node.get(foreign.note(identifier, 1))
    assert b'Lower="1" Upper="1"' in reply.body
    node.world.run()
    assert node.handled == ["note 1"]


@pytest.mark.parametrize("protocol", ALL_RM11, ids=str)
def test_sequence_closed_with_the_final_acknowledgement(protocol: Protocol) -> None:
    # FLT-07, RM11-SEQ-10
    node, foreign = at_server(protocol)
    identifier = foreign.open(node)
    node.get(foreign.note(identifier, 1))
    node.get(foreign.close(identifier, 2))
    reply = node.get(foreign.note(identifier, 2))
    assert_fault(reply, protocol, "SequenceClosed", status=400 if protocol.soap is SoapVersion.SOAP12 else 500)
    assert b"Final/>" in reply.body
    assert b'Lower="1" Upper="1"' in reply.body


@pytest.mark.parametrize("protocol", [*ALL_RM11, *ALL_RM10], ids=str)
def test_message_number_rollover_says_the_maximum(protocol: Protocol) -> None:
    # FLT-04, RM-SEQ-07
    node, foreign = at_server(protocol)
    identifier = foreign.open(node)
    reply = node.get(foreign.note(identifier, MAX_MESSAGE_NUMBER + 1))
    assert_fault(reply, protocol, "MessageNumberRollover", status=400 if protocol.soap is SoapVersion.SOAP12 else 500)
    assert identifier_in(reply) == identifier
    assert (str(MAX_MESSAGE_NUMBER).encode() in reply.body) is (protocol.rm is RmVersion.RM11)
    assert node.destination().machine.received.count == 0


@pytest.mark.parametrize("number", ["0", "-1", "one", ""])
def test_a_message_number_that_is_none_is_the_senders_fault(number: str) -> None:
    node, foreign = at_server(RM11_SOAP12)
    identifier = foreign.open(node)
    assert name_of(node.get(foreign.note(identifier, number))) == "fault Sender"


def test_the_highest_number_there_is_is_taken() -> None:
    # NS-17
    node, foreign = at_server(RM11_SOAP12)
    identifier = foreign.open(node)
    assert name_of(node.get(foreign.note(identifier, MAX_MESSAGE_NUMBER))) == "acknowledgement"


@PROTOCOLS
def test_create_sequence_refused_for_good(protocol: Protocol) -> None:
    # FLT-05, RM-CS-01, ST-D02
    node, foreign = at_server(protocol, allow=())
    reply = node.get(foreign.create("http://elsewhere.example/"))
    soap12 = protocol.soap is SoapVersion.SOAP12
    assert_fault(reply, protocol, "CreateSequenceRefused", status=400 if soap12 else 500, headed=False)
    assert b"ConnectionLimitReached" not in reply.body


@PROTOCOLS
def test_create_sequence_refused_for_now(protocol: Protocol) -> None:
    # RM-CS-14
    node, foreign = at_server(protocol, max_sequences=1)
    foreign.open(node)
    reply = node.get(foreign.create())
    assert_fault(reply, protocol, "CreateSequenceRefused", status=503, by_receiver=True, headed=False)
    assert b"ConnectionLimitReached" in reply.body


def test_sequences_that_are_requested_together_count_too() -> None:
    node, foreign = at_server(RM11_SOAP12, max_sequences=2)
    replies = node.get_all([foreign.create() for _ in range(4)])
    assert [name_of(reply) for reply in replies].count("CreateSequenceResponse") == 2
    assert [reply.status for reply in replies] == [200, 200, 503, 503]


@pytest.mark.parametrize("protocol", ALL_RM10, ids=str)
def test_last_message_number_exceeded(protocol: Protocol) -> None:
    # FLT-06, RM10-SEQ-09
    node, foreign = at_server(protocol)
    identifier = foreign.open(node)
    node.get(foreign.last_message(identifier, 2))
    reply = node.get(foreign.note(identifier, 3))
    soap12 = protocol.soap is SoapVersion.SOAP12
    assert_fault(reply, protocol, "LastMessageNumberExceeded", status=400 if soap12 else 500)
    assert name_of(node.get(foreign.note(identifier, 1))) == "acknowledgement", "the gap before it may still be filled"


def test_a_number_above_the_last_of_a_1_1_sequence_is_sequence_closed() -> None:
    node, foreign = at_server(RM11_SOAP12)
    identifier = foreign.open(node)
    node.get(foreign.close(identifier, 2))
    assert name_of(node.get(foreign.note(identifier, 3))) == "fault SequenceClosed"


@pytest.mark.parametrize("protocol", ALL_RM11, ids=str)
def test_wsrm_required_for_a_message_outside_any_sequence(protocol: Protocol) -> None:
    # FLT-08, ST-D16
    node, foreign = at_server(protocol)
    reply = node.get(foreign.envelope(NOTE, body("x").decode()))
    soap12 = protocol.soap is SoapVersion.SOAP12
    assert_fault(reply, protocol, "WSRMRequired", status=400 if soap12 else 500, headed=False)
    node.world.run()
    assert node.handled == []


def test_plain_soap_gets_a_plain_fault() -> None:
    node = Node("server", World())
    plain = HttpMessage(
        b'<s:Envelope xmlns:s="http://schemas.xmlsoap.org/soap/envelope/"><s:Body><x/></s:Body></s:Envelope>',
        "text/xml",
        '"urn:any"',
    )
    reply = node.get(plain)
    assert reply.status == 500
    assert b"WS-ReliableMessaging only" in reply.body


@PROTOCOLS
@pytest.mark.parametrize("name", ["UsesSequenceSTR", "UsesSequenceSSL"])
def test_must_understand_before_any_state_changes(protocol: Protocol, name: str) -> None:
    # FLT-15, RM11-CS-16
    node, foreign = at_server(protocol)
    identifier = foreign.open(node)
    block = f'<r:{name} s:mustUnderstand="1"/>'
    reply = node.get(foreign.note(identifier, 1, headers=block))
    assert name_of(reply) == "fault MustUnderstand"
    assert reply.status == 500
    assert (f":{name}".encode() in reply.body) is (protocol.soap is SoapVersion.SOAP12)
    assert node.destination().machine.received.count == 0
    assert name_of(node.get(foreign.note(identifier, 1, headers=block.replace('"1"', '"0"')))) == "acknowledgement"


@PROTOCOLS
def test_action_not_supported_and_not_acknowledged(protocol: Protocol) -> None:
    node, foreign = at_server(protocol)
    identifier = foreign.open(node)
    reply = node.get(foreign.envelope("urn:no:operation", "<x/>", headers=foreign.sequence(identifier, 1)))
    assert name_of(reply) == "fault ActionNotSupported"
    assert b"urn:no:operation" in reply.body
    assert node.destination().machine.received.count == 0


@PROTOCOLS
def test_an_action_of_ws_rm_that_there_is_not(protocol: Protocol) -> None:
    # ACT-12
    node, foreign = at_server(protocol)
    assert name_of(node.get(foreign.envelope(f"{foreign.rm}/Surprise", "<x/>"))) == "fault ActionNotSupported"
    assert name_of(node.get(foreign.envelope(f"{foreign.rm}/AckRequested"))) == "fault ActionNotSupported"


@pytest.mark.parametrize(
    ("content", "code"),
    [
        ("", "MissingSelection"),
        ("<m:Surprise/>", "UnsupportedSelection"),
        ("<m:Surprise/><m:Address>urn:x</m:Address>", "UnsupportedSelection"),
    ],
)
def test_make_connection_that_selects_nothing_that_is_understood(content: str, code: str) -> None:
    # MC-03, FLT-09, FLT-10
    node, foreign = at_server(RM11_SOAP12)
    mc = "http://docs.oasis-open.org/ws-rx/wsmc/200702"
    asked = foreign.envelope(f"{mc}/MakeConnection", f'<m:MakeConnection xmlns:m="{mc}">{content}</m:MakeConnection>')
    assert name_of(node.get(asked)) == f"fault {code}"


@PROTOCOLS
def test_create_sequence_without_a_message_id(protocol: Protocol) -> None:
    # RM-CS-02
    node, foreign = at_server(protocol)
    reply = node.get(foreign.create(message_id=""))
    assert name_of(reply) == "fault MessageAddressingHeaderRequired"
    assert node.destinations() == []


def test_a_request_without_a_message_id_could_never_be_answered() -> None:
    # WSA-02
    node, foreign = at_server(RM11_SOAP12)
    identifier = foreign.open(node, offer="urn:offered")
    assert name_of(node.get(foreign.ask(identifier, 1, message_id=""))) == "fault MessageAddressingHeaderRequired"
    assert name_of(node.get(foreign.note(identifier, 1, message_id=""))) == "acknowledgement"


@pytest.mark.parametrize("protocol", [RM11_SOAP12, RM11_SOAP11], ids=str)
def test_a_header_that_is_missing_is_named_by_a_prefix_that_is_bound(protocol: Protocol) -> None:
    # WSA-06
    node, foreign = at_server(protocol)
    identifier = foreign.open(node)
    for post in (foreign.create(message_id=""), foreign.ask(identifier, 1, message_id="")):
        reply = node.get(post)
        fault = decode(reply.body, reply.content_type, reply.soap_action).body
        assert isinstance(fault, Fault)
        assert fault.subject == f"{{{foreign.wsa}}}MessageID"
        assert b"ProblemHeaderQName" in reply.body


def test_a_store_that_is_busy_is_no_fault_of_the_message() -> None:
    node, foreign = at_server(RM11_SOAP12)
    identifier = foreign.open(node)
    node.failing_commits.add(node.commits + 1)
    reply = node.get(foreign.note(identifier, 1))
    assert (name_of(reply), reply.status) == ("fault Receiver", 503)
    assert name_of(node.get(foreign.note(identifier, 1))) == "acknowledgement"


def test_a_defect_with_one_message_is_reported_to_its_sender_only(monkeypatch: pytest.MonkeyPatch) -> None:
    node, foreign = at_server(RM11_SOAP12)
    one, two = foreign.open(node), foreign.open(node)
    operation = Registry.operation

    def broken(registry: Registry, service: str, action: str) -> object:
        if action == ASK:
            raise ZeroDivisionError("a defect")
        return operation(registry, service, action)

    monkeypatch.setattr(Registry, "operation", broken)
    replies = node.get_all([foreign.note(one, 1), foreign.ask(two, 1), foreign.note(one, 2)])
    assert [name_of(reply) for reply in replies] == ["acknowledgement", "fault Receiver", "acknowledgement"]
    assert replies[1].status == 500
    assert b"defect" not in replies[1].body


def test_a_fault_is_never_answered_with_a_fault() -> None:
    # FLT-14
    node, foreign = at_server(RM11_SOAP12)
    reply = node.get(foreign.fault("UnknownSequence", "urn:nothing"))
    assert (name_of(reply), reply.status) == ("accepted", 202)


def test_too_many_gaps_are_not_taken_and_the_first_missing_always_is() -> None:
    policy = replace(DESTINATION, max_ranges=2)
    node, foreign = at_server(RM11_SOAP12, policy=policy)
    identifier = foreign.open(node)
    for number in (2, 4):
        assert name_of(node.get(foreign.note(identifier, number))) == "acknowledgement"
    refused = node.get(foreign.note(identifier, 6))
    assert (name_of(refused), refused.status) == ("fault Receiver", 503)
    assert name_of(node.get(foreign.note(identifier, 3))) == "acknowledgement"
    assert name_of(node.get(foreign.note(identifier, 6))) == "acknowledgement"
    assert name_of(node.get(foreign.note(identifier, 1))) == "acknowledgement"
