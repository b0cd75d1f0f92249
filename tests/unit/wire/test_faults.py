"""Each fault of docs/protocol.md, section 8: as Mercury writes it in each protocol, and as other products write it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mercury.statemachine.faults import (
    ABOUT_A_SEQUENCE,
    OF_ADDRESSING,
    OF_MAKE_CONNECTION,
    OF_RM,
    Fault,
    FaultCode,
    Subcode,
)
from mercury.statemachine.messages import ANONYMOUS_ENDPOINT, SequenceAcknowledgement
from mercury.statemachine.protocol import (
    ALL_PROTOCOLS,
    MAX_MESSAGE_NUMBER,
    AddressingVersion,
    Protocol,
    RmVersion,
    SoapVersion,
)
from mercury.wire import Envelope, decode, encode, fault_action, fault_status

from .samples import MC, NETRM, REPLY, REQUEST, RM10, RM11, SEQUENCE, SOAP11, SOAP12, WSA10, WSA200408, refusal, soap
from .schemas import assert_valid

SOAP_CODES = (FaultCode.SENDER, FaultCode.RECEIVER, FaultCode.MUST_UNDERSTAND, FaultCode.VERSION_MISMATCH)
RM10_SOAP11 = Protocol(SoapVersion.SOAP11, AddressingVersion.WSA200408, RmVersion.RM10)
RM11_SOAP11 = Protocol(SoapVersion.SOAP11, AddressingVersion.WSA10, RmVersion.RM11)

#: One of each code, with all that its detail can hold (the columns "Code" and "Detail" of docs/protocol.md, section 8).
FAULTS = (
    Fault(code=FaultCode.SEQUENCE_TERMINATED, reason="ended", identifier=SEQUENCE, sender=False),
    Fault(code=FaultCode.SEQUENCE_TERMINATED, reason="broke the rules", identifier=SEQUENCE),
    Fault(code=FaultCode.UNKNOWN_SEQUENCE, reason="unknown <here> & now", identifier=SEQUENCE),
    Fault(code=FaultCode.INVALID_ACKNOWLEDGEMENT, reason="wrong", identifier=SEQUENCE, ranges=((1, 99), (7, 3))),
    Fault(code=FaultCode.INVALID_ACKNOWLEDGEMENT, reason="wrong", identifier=SEQUENCE),
    Fault(
        code=FaultCode.MESSAGE_NUMBER_ROLLOVER,
        reason="over",
        identifier=SEQUENCE,
        max_message_number=MAX_MESSAGE_NUMBER,
    ),
    Fault(code=FaultCode.CREATE_SEQUENCE_REFUSED, reason="no"),
    Fault(code=FaultCode.CREATE_SEQUENCE_REFUSED, reason="later", sender=False, busy=True),
    Fault(code=FaultCode.LAST_MESSAGE_NUMBER_EXCEEDED, reason="after the last", identifier=SEQUENCE),
    Fault(code=FaultCode.SEQUENCE_CLOSED, reason="closed", identifier=SEQUENCE),
    Fault(code=FaultCode.INVALID_SECURITY, reason="not secure"),
    Fault(code=FaultCode.WSRM_REQUIRED, reason="reliably, please"),
    Fault(code=FaultCode.UNSUPPORTED_SELECTION, reason="what?", sender=False, subject="{urn:x}Filter"),
    Fault(code=FaultCode.UNSUPPORTED_SELECTION, reason="what now?", sender=False, subject="Filter"),
    Fault(code=FaultCode.MISSING_SELECTION, reason="which?", sender=False),
    *(
        Fault(
            code=FaultCode.INVALID_ADDRESSING_HEADER,
            reason=subcode.value,
            subcode=subcode,
            subject=f"{{{WSA10}}}ReplyTo",
        )
        for subcode in Subcode
    ),
    Fault(code=FaultCode.ADDRESSING_HEADER_REQUIRED, reason="missing", subject=f"{{{WSA10}}}MessageID"),
    Fault(code=FaultCode.DESTINATION_UNREACHABLE, reason="nobody here", subject="http://dest.example/nowhere"),
    Fault(code=FaultCode.ACTION_NOT_SUPPORTED, reason="not mine", subject="urn:app:op"),
    Fault(code=FaultCode.ENDPOINT_UNAVAILABLE, reason="not now", sender=False, subject="http://dest.example/svc"),
    Fault(code=FaultCode.MUST_UNDERSTAND, reason="not understood", subject="{urn:h}Header"),
    Fault(code=FaultCode.MUST_UNDERSTAND, reason="not understood either", subject="Header"),
    Fault(code=FaultCode.VERSION_MISMATCH, reason="which SOAP?"),
    Fault(code=FaultCode.SENDER, reason="you"),
    Fault(code=FaultCode.RECEIVER, reason="me", sender=False),
)

#: Codes that only one generation of WS-RM has (RM10-SCH-09, RM11-SCH-10).
FOREIGN = {
    RmVersion.RM10: {FaultCode.SEQUENCE_CLOSED, FaultCode.WSRM_REQUIRED},
    RmVersion.RM11: {FaultCode.LAST_MESSAGE_NUMBER_EXCEEDED},
}

CASES = [
    pytest.param(protocol, fault, id=f"{protocol}: {fault.reason}") for protocol in ALL_PROTOCOLS for fault in FAULTS
]


def reply(protocol: Protocol, fault: Fault) -> Envelope:
    return Envelope(
        soap=protocol.soap,
        addressing=protocol.addressing,
        rm=protocol.rm,
        action=fault_action(fault.code, protocol.soap, protocol.addressing, protocol.rm),
        to=ANONYMOUS_ENDPOINT,
        message_id=REPLY,
        relates_to=REQUEST,
        body=fault,
    )


def as_it_arrives(protocol: Protocol, fault: Fault) -> Fault:
    """What the versions cannot carry is lost, and only that."""
    if fault.code in FOREIGN[protocol.rm]:
        return Fault(code=FaultCode.SENDER, reason=fault.reason)
    if protocol.rm is RmVersion.RM10:
        fault = replace(fault, max_message_number=None)  # FLT-04: 1.1 only
    if protocol.addressing is AddressingVersion.WSA200408 and fault.code in OF_ADDRESSING:
        fault = replace(fault, subcode=None, subject=None)  # 2004/08 has no finer codes and no elements for them
    if protocol.soap is SoapVersion.SOAP11:
        if fault.code is FaultCode.MUST_UNDERSTAND:
            fault = replace(fault, subject=None)  # NotUnderstood is of SOAP 1.2
        if fault.code in OF_MAKE_CONNECTION or fault.code is FaultCode.ENDPOINT_UNAVAILABLE:
            fault = replace(fault, sender=True)  # the one code that there is says nothing about who is to blame
    return fault


def test_there_is_a_case_for_every_code() -> None:
    assert {fault.code for fault in FAULTS} == set(FaultCode)


@pytest.mark.parametrize(("protocol", "fault"), CASES)
def test_every_fault_is_valid_and_comes_back(protocol: Protocol, fault: Fault) -> None:
    # RM10-SCH-08, RM11-SCH-09, MC-SCH-03; FLT-11: whatever the text
    envelope = reply(protocol, fault)
    written = encode(envelope)
    assert_valid(written.body)
    again = decode(written.body, written.content_type, written.soap_action)
    arrives = as_it_arrives(protocol, fault)
    assert again.body == arrives
    # NS-18: only what belongs to WS-RM says something about its version.
    assert again == replace(envelope, body=arrives, rm=protocol.rm if arrives.code in OF_RM else None)


@pytest.mark.parametrize("protocol", [RM10_SOAP11, RM11_SOAP11], ids=str)
@pytest.mark.parametrize("code", [code for code in FaultCode if code in OF_RM])
def test_soap_11_uses_the_sequence_fault_header_for_faults_about_a_sequence(
    protocol: Protocol, code: FaultCode
) -> None:
    # Section 8: CreateSequenceRefused and WSRMRequired are the faultcode themselves, without the header.
    if code in FOREIGN[protocol.rm]:
        return
    written = encode(reply(protocol, Fault(code=code, reason="r", identifier=SEQUENCE))).body
    assert (b"SequenceFault>" in written) == (code in ABOUT_A_SEQUENCE)
    if code in ABOUT_A_SEQUENCE:
        assert b"<faultcode>soap:Client</faultcode>" in written
        assert f"<wsrm:FaultCode>wsrm:{code.value}</wsrm:FaultCode>".encode() in written
        assert b"<detail>" not in written
        assert (b"<wsrm:Detail>" in written) == (protocol.rm is RmVersion.RM11)  # RM10-SCH-08 has none
    else:
        uri = RM10 if protocol.rm is RmVersion.RM10 else RM11
        assert f'<faultcode xmlns:n="{uri}">n:{code.value}</faultcode>'.encode() in written


def test_soap_12_never_uses_the_sequence_fault_header() -> None:
    for fault in FAULTS:
        assert b"SequenceFault>" not in encode(reply(Protocol(), fault)).body


@pytest.mark.parametrize(
    ("code", "outer"),
    [
        (FaultCode.SEQUENCE_TERMINATED, "Receiver"),
        (FaultCode.CREATE_SEQUENCE_REFUSED, "Receiver"),
        (FaultCode.UNKNOWN_SEQUENCE, "Sender"),
        (FaultCode.SEQUENCE_CLOSED, "Sender"),
        (FaultCode.UNSUPPORTED_SELECTION, "Receiver"),
        (FaultCode.MISSING_SELECTION, "Receiver"),
        (FaultCode.ENDPOINT_UNAVAILABLE, "Receiver"),
        (FaultCode.DESTINATION_UNREACHABLE, "Sender"),
        (FaultCode.RECEIVER, "Receiver"),
        (FaultCode.MUST_UNDERSTAND, "MustUnderstand"),
        (FaultCode.VERSION_MISMATCH, "VersionMismatch"),
    ],
)
def test_the_code_is_that_of_the_table_where_the_table_leaves_no_choice(code: FaultCode, outer: str) -> None:
    # FLT-01 to FLT-10: sender=False only counts where it may be either.
    written = encode(reply(Protocol(), Fault(code=code, reason="r", sender=False))).body
    assert f"<soap:Value>soap:{outer}</soap:Value>".encode() in written


def test_a_busy_refusal_is_written_as_dotnet_writes_it() -> None:
    # RM-CS-14, NS-13
    busy = Fault(code=FaultCode.CREATE_SEQUENCE_REFUSED, reason="later", busy=True)
    limit = f'xmlns:n="{NETRM}">n:ConnectionLimitReached</soap:Value></soap:Subcode></soap:Subcode>'
    assert limit.encode() in encode(reply(Protocol(), busy)).body
    # SOAP 1.1 has one code only, so the detail says it.
    marked = f'<detail><netrm:ConnectionLimitReached xmlns:netrm="{NETRM}"/></detail>'
    assert marked.encode() in encode(reply(RM11_SOAP11, busy)).body


def test_soap_11_tells_about_the_header_in_the_header_and_about_the_body_in_the_body() -> None:
    selection = Fault(code=FaultCode.UNSUPPORTED_SELECTION, reason="what?", subject="{urn:x}Filter")
    written = encode(reply(RM11_SOAP11, selection)).body
    assert b"<detail><wsmc:UnsupportedElement" in written
    assert b"FaultDetail" not in written
    missing = Fault(code=FaultCode.ADDRESSING_HEADER_REQUIRED, reason="r", subject="{urn:x}Header")
    written = encode(reply(RM11_SOAP11, missing)).body
    assert b"<wsa:FaultDetail><wsa:ProblemHeaderQName" in written
    assert b"<detail>" not in written
    assert b"FaultDetail" not in encode(reply(RM11_SOAP11, replace(missing, subject=None))).body


@pytest.mark.parametrize(
    ("code", "element"),
    [
        (FaultCode.ACTION_NOT_SUPPORTED, "<wsa:ProblemAction><wsa:Action>urn:x</wsa:Action></wsa:ProblemAction>"),
        (FaultCode.DESTINATION_UNREACHABLE, "<wsa:ProblemIRI>urn:x</wsa:ProblemIRI>"),
        (FaultCode.ENDPOINT_UNAVAILABLE, "<wsa:ProblemIRI>urn:x</wsa:ProblemIRI>"),
    ],
)
def test_ws_addressing_has_an_element_for_each_problem(code: FaultCode, element: str) -> None:
    # WSA-06
    assert element.encode() in encode(reply(Protocol(), Fault(code=code, reason="r", subject="urn:x"))).body


def test_a_version_mismatch_names_the_versions_there_are() -> None:
    written = encode(reply(Protocol(), Fault(code=FaultCode.VERSION_MISMATCH, reason="r"))).body
    assert written.index(SOAP12.encode(), 100) < written.index(SOAP11.encode())
    assert written.count(b"<soap:SupportedEnvelope ") == 2


def test_a_fault_may_carry_an_acknowledgement() -> None:
    # RM11-SEQ-10: SequenceClosed comes with the final acknowledgement.
    closed = reply(Protocol(), Fault(code=FaultCode.SEQUENCE_CLOSED, reason="closed", identifier=SEQUENCE))
    final = SequenceAcknowledgement(SEQUENCE, ((1, 3),), final=True)
    envelope = replace(closed, acknowledgements=(final,))
    assert decode(encode(envelope).body, "") == envelope


@pytest.mark.parametrize(
    ("code", "addressing", "rm", "action"),
    [
        (FaultCode.UNKNOWN_SEQUENCE, AddressingVersion.WSA10, RmVersion.RM11, f"{RM11}/fault"),
        (FaultCode.UNKNOWN_SEQUENCE, AddressingVersion.WSA10, RmVersion.RM10, f"{WSA10}/soap/fault"),
        (FaultCode.UNKNOWN_SEQUENCE, AddressingVersion.WSA200408, RmVersion.RM10, f"{WSA200408}/fault"),
        (FaultCode.MISSING_SELECTION, AddressingVersion.WSA10, RmVersion.RM11, f"{MC}/fault"),
        (FaultCode.MISSING_SELECTION, AddressingVersion.WSA10, None, f"{MC}/fault"),
        (FaultCode.ACTION_NOT_SUPPORTED, AddressingVersion.WSA10, RmVersion.RM11, f"{WSA10}/fault"),
        (FaultCode.ACTION_NOT_SUPPORTED, AddressingVersion.WSA200408, RmVersion.RM10, f"{WSA200408}/fault"),
        (FaultCode.MUST_UNDERSTAND, AddressingVersion.WSA10, RmVersion.RM11, f"{WSA10}/soap/fault"),
        (FaultCode.RECEIVER, AddressingVersion.WSA200408, None, f"{WSA200408}/fault"),
        (FaultCode.SENDER, None, None, ""),
    ],
)
@pytest.mark.parametrize("version", SoapVersion)
def test_the_action_of_a_fault(
    version: SoapVersion, code: FaultCode, addressing: AddressingVersion | None, rm: RmVersion | None, action: str
) -> None:
    # ACT-09, ACT-10, WSA-07
    assert fault_action(code, version, addressing, rm) == action


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.reason)
def test_the_status_of_a_fault(fault: Fault) -> None:
    # HTTP-03; what is busy asks to come again.
    if fault.busy:
        assert fault_status(fault, SoapVersion.SOAP11) == fault_status(fault, SoapVersion.SOAP12) == 503
        return
    assert fault_status(fault, SoapVersion.SOAP11) == 500
    sender = b"<soap:Value>soap:Sender<" in encode(reply(Protocol(), fault)).body
    assert fault_status(fault, SoapVersion.SOAP12) == (400 if sender else 500)


# How others write them.


def test_metro_sets_the_faultcode_and_the_header() -> None:
    # IOP-METRO-05
    # FLT-12: the header wins.
    code = "<wsrm:FaultCode>wsrm:SequenceClosed</wsrm:FaultCode>"
    header = f"<wsa:Action>urn:a</wsa:Action><wsrm:SequenceFault>{code}</wsrm:SequenceFault>"
    body = "<s:Fault><faultcode>wsrm:UnknownSequence</faultcode><faultstring>x</faultstring></s:Fault>"
    assert decode(soap(header, body, ns=SOAP11), "").body == Fault(code=FaultCode.SEQUENCE_CLOSED, reason="x")


def test_dotnet_declares_the_prefix_of_a_subcode_on_the_value() -> None:
    # FLT-13
    value = f'<s:Value xmlns:a="{RM11}">a:UnknownSequence</s:Value>'
    body = (
        f"<s:Fault><s:Code><s:Value>s:Receiver</s:Value><s:Subcode>{value}</s:Subcode></s:Code>"
        '<s:Reason><s:Text xml:lang="de">unbekannt</s:Text><s:Text xml:lang="en-US">unknown</s:Text></s:Reason>'
        "</s:Fault>"
    )
    envelope = decode(soap(body=body), "")
    assert envelope.body == Fault(code=FaultCode.UNKNOWN_SEQUENCE, reason="unknown", sender=False)
    assert envelope.rm is RmVersion.RM11


def about(first: str, second: str, block: str) -> bytes:
    """A fault of SOAP 1.1 with an identifier in its header block, and in its detail one in a block."""
    header = (
        "<wsa:Action>urn:a</wsa:Action><wsrm:SequenceFault><wsrm:FaultCode>wsrm:UnknownSequence</wsrm:FaultCode>"
        f"<wsrm:Detail><wsrm:Identifier>{first}</wsrm:Identifier></wsrm:Detail></wsrm:SequenceFault>"
    )
    body = f"<s:Fault><faultcode>s:Client</faultcode><detail>{block.format(second)}</detail></s:Fault>"
    return soap(header, body, ns=SOAP11)


@pytest.mark.parametrize(
    "block",
    [
        "<wsrm:Identifier>{}</wsrm:Identifier>",
        "<wsrm:SequenceAcknowledgement><wsrm:Identifier>{}</wsrm:Identifier></wsrm:SequenceAcknowledgement>",
    ],
)
def test_a_fault_that_names_one_sequence_twice_is_about_it_and_one_that_names_two_is_refused(block: str) -> None:
    fault = decode(about("urn:s", " urn:s ", block), "").body
    assert isinstance(fault, Fault)
    assert (fault.code, fault.identifier) == (FaultCode.UNKNOWN_SEQUENCE, "urn:s")
    assert refusal(about("urn:s", "urn:other", block)).fault.reason == "the fault names two sequences"


@pytest.mark.parametrize(
    ("faultcode", "code", "sender"),
    [
        ("s:Client", FaultCode.SENDER, True),
        ("s:Server", FaultCode.RECEIVER, False),
        ("Server", FaultCode.RECEIVER, False),
        ("s:Server.userException", FaultCode.RECEIVER, False),
        (" s:MustUnderstand ", FaultCode.MUST_UNDERSTAND, True),
        ("s:VersionMismatch", FaultCode.VERSION_MISMATCH, True),
        ("wsrm:SomethingNew", FaultCode.SENDER, True),
        ("wsa:ActionNotSupported", FaultCode.ACTION_NOT_SUPPORTED, True),
        ("nowhere:Declared", FaultCode.SENDER, True),
        ("", FaultCode.SENDER, True),
    ],
)
def test_codes_that_are_not_ours_count_by_whom_they_blame(faultcode: str, code: FaultCode, sender: bool) -> None:
    body = f"<s:Fault><faultcode>{faultcode}</faultcode><faultstring> why </faultstring></s:Fault>"
    assert decode(soap(body=body, ns=SOAP11), "").body == Fault(code=code, reason="why", sender=sender)


def test_soap_11_has_room_for_the_finest_code_of_ws_addressing_only() -> None:
    body = "<s:Fault><faultcode>wsa:InvalidCardinality</faultcode><faultstring>x</faultstring></s:Fault>"
    problem = "<wsa:ProblemHeaderQName>wsa:To</wsa:ProblemHeaderQName>"
    header = f"<wsa:Action>urn:a</wsa:Action><wsa:FaultDetail>{problem}</wsa:FaultDetail>"
    assert decode(soap(header, body, ns=SOAP11), "").body == Fault(
        code=FaultCode.INVALID_ADDRESSING_HEADER,
        subcode=Subcode.INVALID_CARDINALITY,
        reason="x",
        subject=f"{{{WSA10}}}To",
    )


@pytest.mark.parametrize("body", ["<s:Fault/>", "<s:Fault><s:Code/></s:Fault>", "<s:Fault><faultcode/></s:Fault>"])
def test_a_fault_that_says_nothing_is_still_a_fault(body: str) -> None:
    assert decode(soap(body=body), "").body == Fault(code=FaultCode.SENDER, reason="Sender")


def test_a_fault_of_another_soap_version_is_not_a_fault_of_this_message() -> None:
    body = f'<f:Fault xmlns:f="{SOAP11}"><faultcode>f:Client</faultcode><faultstring/></f:Fault>'
    payload = decode(soap(body=body, ns=SOAP12), "").body
    assert not isinstance(payload, Fault)
