"""WS-ReliableMessaging and WS-MakeConnection: unusual elements that are accepted, and elements that are refused."""

from __future__ import annotations

import re

import pytest

from mercury.statemachine.faults import Fault, FaultCode
from mercury.statemachine.messages import (
    AckRequested,
    CreateSequence,
    CreateSequenceResponse,
    EndpointReference,
    IncompleteSequenceBehavior,
    MakeConnection,
    SequenceAcknowledgement,
    SequenceHeader,
)
from mercury.statemachine.protocol import MAX_MESSAGE_NUMBER, RmVersion
from mercury.wire import Payload, decode

from .samples import MC, NETRM, RM10, RM11, SOAP11, WSA10, WSA200408, refusal, soap

ACTION = "<wsa:Action>urn:a</wsa:Action>"
IDENTIFIER = "<wsrm:Identifier>urn:s</wsrm:Identifier>"


def sequence(*children: str) -> str:
    return f"{ACTION}<wsrm:Sequence>{''.join(children)}</wsrm:Sequence>"


def number(text: str) -> str:
    return f"<wsrm:MessageNumber>{text}</wsrm:MessageNumber>"


# Header blocks of WS-RM.


def test_a_sequence_header_is_read_whatever_surrounds_its_values() -> None:
    # ACT-11, SCH-01 to SCH-03, RM11-SCH-12
    children = (
        '<x:Ext xmlns:x="urn:x">later</x:Ext>',
        number("\n +0042 "),
        "<wsrm:Identifier x='1'>\n uuid:WLS2:store:1 </wsrm:Identifier>",
    )
    assert decode(soap(sequence(*children)), "").sequence == SequenceHeader("uuid:WLS2:store:1", 42)
    last = sequence(IDENTIFIER, number("1"), "<wsrm:LastMessage>\n</wsrm:LastMessage>")
    assert decode(soap(last, rm=RM10), "").sequence == SequenceHeader("urn:s", 1, last=True)
    assert decode(soap(last), "").sequence == SequenceHeader("urn:s", 1)  # 1.1 has no LastMessage


@pytest.mark.parametrize("rm", [RM10, RM11])
@pytest.mark.parametrize("action", ["", "urn:a"])
def test_a_message_of_a_sequence_without_ws_addressing_is_refused(rm: str, action: str) -> None:
    # POL-06: HTTP may name no action, and a message without action is not for the application.
    header = sequence(IDENTIFIER, number("1")).removeprefix(ACTION)
    fault = refusal(soap(header, "<a/>", rm=rm), "", action).fault
    assert (fault.code, fault.subject) == (FaultCode.ADDRESSING_HEADER_REQUIRED, f"{{{WSA10}}}Action")


@pytest.mark.parametrize("text", ["0", "-1", "", "one", "1.0", "1_000", "\u0661", "0x1", "1 2"])
def test_a_message_number_is_a_number_from_1(text: str) -> None:
    # RM-SEQ-07
    fault = refusal(soap(sequence(IDENTIFIER, number(text)))).fault
    assert (fault.code, fault.busy) == (FaultCode.SENDER, False)


@pytest.mark.parametrize("text", [str(2**63), str(2**64), "9" * 5000])
def test_a_message_number_that_is_too_large_is_a_rollover(text: str) -> None:
    # RM-SEQ-07, RM-SEQ-12
    assert refusal(soap(sequence(IDENTIFIER, number(text)))).fault == Fault(
        code=FaultCode.MESSAGE_NUMBER_ROLLOVER,
        reason="the message number is above the highest there is",
        identifier="urn:s",
        max_message_number=MAX_MESSAGE_NUMBER,
    )
    accepted = decode(soap(sequence(IDENTIFIER, number(f"{MAX_MESSAGE_NUMBER}"))), "").sequence
    assert accepted == SequenceHeader("urn:s", MAX_MESSAGE_NUMBER)


@pytest.mark.parametrize(
    "header",
    [
        sequence(number("1")),
        sequence("<wsrm:Identifier> </wsrm:Identifier>", number("1")),
        sequence(IDENTIFIER, IDENTIFIER, number("1")),
        sequence(IDENTIFIER, number("1"), number("2")),
        sequence(IDENTIFIER, number("1")) + sequence(IDENTIFIER, number("2")).removeprefix(ACTION),
    ],
)
def test_a_sequence_header_that_leaves_a_choice_is_refused(header: str) -> None:
    # RM-SEQ-03
    assert refusal(soap(header)).fault.code is FaultCode.SENDER


def acknowledgement(*children: str, rm: str = RM11) -> bytes:
    blocks = "".join((IDENTIFIER, *children))
    return soap(f"{ACTION}<wsrm:SequenceAcknowledgement>{blocks}</wsrm:SequenceAcknowledgement>", "<a/>", rm=rm)


RANGE = "wsrm:AcknowledgementRange"


def span(low: object, high: object) -> str:
    return f'<{RANGE} Lower="{low}" Upper="{high}"/>'


def remaining(number: int) -> str:
    return f'<n:BufferRemaining xmlns:n="{NETRM}">{number}</n:BufferRemaining>'


@pytest.mark.parametrize(
    ("children", "rm", "expected"),
    [
        ((span(4, 6), span(1, 2)), RM11, {"ranges": ((1, 2), (4, 6))}),  # RM-ACK-02: in any order
        ((span(1, 2), span(3, 3), span(2, 5)), RM11, {"ranges": ((1, 5),)}),
        ((span(3, 4), span(1, 2), span(6, 6)), RM11, {"ranges": ((1, 4), (6, 6))}),
        ((f"<{RANGE} Upper=' 3' Lower=' 1 ' x='y'> </{RANGE}>",), RM11, {"ranges": ((1, 3),)}),
        ((span(1, MAX_MESSAGE_NUMBER),), RM11, {"ranges": ((1, MAX_MESSAGE_NUMBER),)}),
        (("<wsrm:None> </wsrm:None>",), RM11, {}),  # SCH-03
        (("<wsrm:None/>", "<wsrm:Final/>"), RM11, {"final": True}),
        ((span(1, 2), "<wsrm:None/>"), RM11, {"ranges": ((1, 2),)}),  # RM11-SCH-02: every CXF writes both
        ((), RM11, {}),  # lists nothing, so it says nothing
        ((span(0, 0),), RM10, {}),  # RM-ACK-04
        ((span(0, 0), span(1, 2)), RM10, {"ranges": ((1, 2),)}),
        ((span(1, 2), "<wsrm:Final/>"), RM10, {"ranges": ((1, 2),)}),  # 1.0 has no Final
        (("<wsrm:Nack> 7 </wsrm:Nack>", "<wsrm:Nack>3</wsrm:Nack>"), RM11, {"nacks": (7, 3)}),
        ((f"<wsrm:Nack>{MAX_MESSAGE_NUMBER}</wsrm:Nack>",), RM11, {"nacks": (MAX_MESSAGE_NUMBER,)}),
        ((span(1, 1), remaining(0)), RM11, {"ranges": ((1, 1),), "buffer_remaining": 0}),  # FC-01
        ((span(1, 1), remaining(2**31 - 1)), RM11, {"ranges": ((1, 1),), "buffer_remaining": 2**31 - 1}),
        ((span(1, 1), remaining(-1)), RM11, {"ranges": ((1, 1),)}),
        ((span(1, 1), remaining(2**31)), RM11, {"ranges": ((1, 1),)}),
        ((span(1, 1), '<x:New xmlns:x="urn:x"/>'), RM11, {"ranges": ((1, 1),)}),  # SCH-01
    ],
)  # fmt: skip
def test_an_acknowledgement_is_read(children: tuple[str, ...], rm: str, expected: dict[str, object]) -> None:
    envelope = decode(acknowledgement(*children, rm=rm), "")
    assert envelope.acknowledgements == (SequenceAcknowledgement("urn:s", **expected),)  # type: ignore[arg-type]
    assert envelope.problems == ()


@pytest.mark.parametrize("other", ["urn:s", "urn:other", ""])
@pytest.mark.parametrize("rm", [RM10, RM11])
def test_an_acknowledgement_that_names_two_sequences_is_refused(rm: str, other: str) -> None:
    # Its ranges would be those of the last one.
    again = IDENTIFIER.replace("urn:s", other)
    for children in ((span(1, 2), again), (again, span(1, 2))):
        fault = refusal(acknowledgement(*children, rm=rm)).fault
        assert (fault.code, fault.reason) == (
            FaultCode.SENDER,
            "more than one Identifier in SequenceAcknowledgement",
        )


@pytest.mark.parametrize(
    ("children", "rm", "ranges"),
    [
        ((span(3, 1),), RM11, ((3, 1),)),
        ((span(1, 2), span(9, 8)), RM11, ((1, 2), (9, 8))),
        ((span(0, 0),), RM11, ((0, 0),)),  # RM-ACK-04: in 1.0 only
        ((span(0, 3),), RM10, ((0, 3),)),
        ((span(1, 2**63),), RM11, ((1, 2**63),)),
        ((span(2**64 - 1, 2**64),), RM11, ()),
        ((span(2**64, 2**64 - 1),), RM11, ()),
        ((span(1, 10**30),), RM11, ()),
        ((span("a", "b"),), RM11, ()),
        (("<wsrm:AcknowledgementRange Lower='1'/>",), RM11, ()),
        ((span(1, 2), "<wsrm:Nack>3</wsrm:Nack>"), RM11, ((1, 2),)),
        (("<wsrm:None/>", "<wsrm:Nack>3</wsrm:Nack>"), RM11, ()),
        (("<wsrm:Final/>", "<wsrm:Nack>3</wsrm:Nack>"), RM11, ()),
        (("<wsrm:Nack>0</wsrm:Nack>",), RM11, ()),
        (("<wsrm:Nack/>",), RM10, ()),
    ],
)
def test_a_bad_acknowledgement_does_not_spoil_the_message_it_rides_on(
    children: tuple[str, ...], rm: str, ranges: tuple[tuple[int, int], ...]
) -> None:
    # RM-ACK-03, RM-ACK-09
    envelope = decode(acknowledgement(*children, rm=rm), "")
    assert envelope.acknowledgements == ()
    assert envelope.body == Payload(b"<a/>", "a")
    [problem] = envelope.problems
    assert (problem.code, problem.identifier) == (FaultCode.INVALID_ACKNOWLEDGEMENT, "urn:s")
    assert problem.ranges == ranges


def test_several_piggybacked_headers_are_distinguished() -> None:
    # RM-ACK-07, RM-ACK-09, RM10-SCH-03
    header = (
        f"{ACTION}<wsrm:AckRequested><wsrm:MaxMessageNumberUsed>x</wsrm:MaxMessageNumberUsed>{IDENTIFIER}</wsrm:AckRequested>"
        "<wsrm:AckRequested/><wsrm:SequenceAcknowledgement/>"
        f"<wsrm:SequenceAcknowledgement>{IDENTIFIER}{span(1, 1)}</wsrm:SequenceAcknowledgement>"
    )
    envelope = decode(soap(header, rm=RM10), "")
    assert envelope.ack_requests == (AckRequested("urn:s"),)
    assert envelope.acknowledgements == (SequenceAcknowledgement("urn:s", ((1, 1),)),)
    assert [problem.code for problem in envelope.problems] == [FaultCode.INVALID_ACKNOWLEDGEMENT, FaultCode.SENDER]


# Messages of WS-RM.


def create(inside: str = "", rm: str = RM11) -> bytes:
    acks_to = "<wsrm:AcksTo><wsa:Address>urn:acks</wsa:Address></wsrm:AcksTo>"
    return soap(body=f"<wsrm:CreateSequence>{inside}{acks_to}</wsrm:CreateSequence>", rm=rm)


@pytest.mark.parametrize(
    ("text", "expires"),
    [
        ("PT0S", None),  # RM-CS-11
        ("P0Y0M0DT0H0M0.0S", None),
        (" PT1H ", 3600.0),
        ("P1Y2M3DT4H5M6.5S", 365 * 86400 + 2 * 30 * 86400 + 3 * 86400 + 4 * 3600 + 5 * 60 + 6.5),
        ("P101Y", None),
        ("PT999999999999999S", None),
    ],
)
def test_how_long_a_sequence_lives(text: str, expires: float | None) -> None:
    body = decode(create(f"<wsrm:Expires>{text}</wsrm:Expires>"), "").body
    assert isinstance(body, CreateSequence)
    assert body.expires == expires


@pytest.mark.parametrize(
    "text", ["", "1", "P", "PT", "P1", "PT1", "-PT1H", "P1H", "PT1H1Y", "PT1.5H", f"PT{'9' * 99}S"]
)
def test_invalid_duration_is_refused(text: str) -> None:
    assert "Expires" in refusal(create(f"<wsrm:Expires>{text}</wsrm:Expires>")).fault.reason


@pytest.mark.parametrize(
    ("inside", "reason"),
    [
        ("<wsrm:Offer><wsrm:Endpoint><wsa:Address>urn:e</wsa:Address></wsrm:Endpoint></wsrm:Offer>", "Identifier"),
        (f"<wsrm:Offer>{IDENTIFIER}</wsrm:Offer>", "Endpoint"),
        ("<wsrm:Expires>PT1S</wsrm:Expires><wsrm:Expires>PT1S</wsrm:Expires>", "more than one Expires"),
        ("<wsrm:AcksTo><wsa:Address>urn:other</wsa:Address></wsrm:AcksTo>", "more than one AcksTo"),
    ],
)
def test_a_create_sequence_that_is_not_complete_is_refused(inside: str, reason: str) -> None:
    # RM11-SCH-04, RM11-SCH-05
    assert reason in refusal(create(inside)).fault.reason
    assert "AcksTo" in refusal(soap(body="<wsrm:CreateSequence/>")).fault.reason


def test_create_sequence_ignores_what_it_does_not_know() -> None:
    # SCH-01, SCH-02
    body = decode(
        create('<x:New xmlns:x="urn:x"/><m:Follows xmlns:m="urn:mercury:rm"> urn:before </m:Follows>'), ""
    ).body
    assert body == CreateSequence(acks_to=EndpointReference("urn:acks"), follows="urn:before")


def response(inside: str) -> bytes:
    return soap(body=f"<wsrm:CreateSequenceResponse>{IDENTIFIER}{inside}</wsrm:CreateSequenceResponse>")


def test_cxf_refuses_an_offer_by_accepting_to_nowhere() -> None:
    # RM-CS-06
    for address in (f"{WSA10}/none", f"{WSA200408}/role/none"):
        inside = f"<wsrm:Accept><wsrm:AcksTo><wsa:Address>{address}</wsa:Address></wsrm:AcksTo></wsrm:Accept>"
        assert decode(response(inside), "").body == CreateSequenceResponse(identifier="urn:s")
    assert "Accept" in refusal(response("<wsrm:Accept/>")).fault.reason


def test_incomplete_sequence_behavior_is_one_of_three() -> None:
    # RM11-SCH-07
    name = "IncompleteSequenceBehavior"
    assert decode(response(f"<wsrm:{name}> DiscardEntireSequence </wsrm:{name}>"), "").body == CreateSequenceResponse(
        identifier="urn:s", incomplete_behavior=IncompleteSequenceBehavior.DISCARD_ENTIRE_SEQUENCE
    )
    assert name in refusal(response(f"<wsrm:{name}>Explode</wsrm:{name}>")).fault.reason


@pytest.mark.parametrize("name", ["CloseSequence", "TerminateSequence"])
def test_a_last_message_number_of_0_says_nothing(name: str) -> None:
    # IOP-CXF-09: the operator of a CXF service ends a sequence whose last message has not come.
    body = f"<wsrm:{name}>{IDENTIFIER}<wsrm:LastMsgNumber> 0 </wsrm:LastMsgNumber></wsrm:{name}>"
    assert decode(soap(body=body), "").body == decode(soap(body=re.sub("<wsrm:Last.*Number>", "", body)), "").body


@pytest.mark.parametrize("text", ["-1", "x", "", str(2**63)])
@pytest.mark.parametrize("name", ["CloseSequence", "TerminateSequence"])
def test_a_last_message_number_that_is_none_is_refused(name: str, text: str) -> None:
    body = f"<wsrm:{name}>{IDENTIFIER}<wsrm:LastMsgNumber>{text}</wsrm:LastMsgNumber></wsrm:{name}>"
    assert "LastMsgNumber" in refusal(soap(body=body)).fault.reason


@pytest.mark.parametrize(
    "name", ["CloseSequence", "CloseSequenceResponse", "TerminateSequence", "TerminateSequenceResponse"]
)
def test_a_message_about_a_sequence_names_it(name: str) -> None:
    assert refusal(soap(body=f"<wsrm:{name}/>")).fault.reason == f"{name} without Identifier"


@pytest.mark.parametrize("name", ["CloseSequence", "CloseSequenceResponse", "TerminateSequenceResponse", "New"])
def test_an_element_that_ws_rm_10_does_not_have_is_not_read(name: str) -> None:
    # ACT-12 is the engine's to answer.
    envelope = decode(soap(body=f"<wsrm:{name}/>", rm=RM10), "")
    assert isinstance(envelope.body, Payload)
    assert (envelope.body.name, envelope.rm) == (f"{{{RM10}}}{name}", RmVersion.RM10)


@pytest.mark.parametrize(
    ("inside", "expected"),
    [
        ("", MakeConnection()),  # MC-03: MissingSelection is for the engine to say
        ("<wsmc:Address> urn:a </wsmc:Address>", MakeConnection(address="urn:a")),
        (f"{IDENTIFIER}<wsmc:Address>urn:a</wsmc:Address>", MakeConnection(address="urn:a", identifier="urn:s")),
        ('<f:Filter xmlns:f="urn:f"/><f:Filter xmlns:f="urn:f"/>', MakeConnection(unsupported=("{urn:f}Filter",))),
        (f"<wsmc:New/>{IDENTIFIER}", MakeConnection(identifier="urn:s", unsupported=(f"{{{MC}}}New",))),
    ],
)
def test_make_connection_selects_by_address_or_identifier(inside: str, expected: MakeConnection) -> None:
    # MC-SCH-01
    envelope = decode(soap(body=f"<wsmc:MakeConnection>{inside}</wsmc:MakeConnection>"), "")
    assert envelope.body == expected
    assert envelope.rm is (None if expected.identifier is None else RmVersion.RM11)


def test_make_connection_selects_one_sequence() -> None:
    other = f'<o:Identifier xmlns:o="{RM10}">urn:s</o:Identifier>'
    body = f"<wsmc:MakeConnection>{IDENTIFIER}{other}</wsmc:MakeConnection>"
    assert "more than one Identifier" in refusal(soap(body=body)).fault.reason


@pytest.mark.parametrize(("text", "pending"), [("true", True), (" 0 ", False), ("maybe", None)])
def test_more_may_be_waiting(text: str, pending: bool | None) -> None:
    # MC-04, MC-SCH-02
    assert decode(soap(f'{ACTION}<wsmc:MessagePending pending="{text}"/>'), "").message_pending is pending


# Application faults.


def test_a_fault_on_a_sequence_is_a_message_of_it() -> None:
    body = "<s:Fault><faultcode>s:Client</faultcode><faultstring>no</faultstring></s:Fault>"
    envelope = decode(soap(sequence(IDENTIFIER, number("1")), body, ns=SOAP11), "")
    xml = body.replace("<s:Fault>", f'<s:Fault xmlns:s="{SOAP11}">').encode()
    assert envelope.body == Payload(xml, f"{{{SOAP11}}}Fault", is_fault=True)
