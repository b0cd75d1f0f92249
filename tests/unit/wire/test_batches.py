"""The wire form of batches: what is read, what is refused, and the bytes of the bodies."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mercury.statemachine.faults import FaultCode
from mercury.statemachine.messages import BatchLimits, CreateSequence, CreateSequenceResponse, SequenceHeader
from mercury.statemachine.messages import EndpointReference as Reference
from mercury.statemachine.protocol import ALL_PROTOCOLS, MAX_MESSAGE_NUMBER, Protocol, RmVersion
from mercury.wire import ns
from mercury.wire.batch import MAX_HEADER_BYTES
from mercury.wire.decode import decode
from mercury.wire.encode import encode
from mercury.wire.envelope import EMPTY, BatchedMessage, Body, Envelope, HttpMessage, MessageBatch, Payload, Undecodable
from mercury.wire.scan import DEFAULT_LIMITS, Limits

PROTOCOLS = pytest.mark.parametrize("protocol", ALL_PROTOCOLS, ids=str)
ONE = BatchedMessage("urn:m:1", "urn:a", Payload(b"<a/>", "a"))
TWO = BatchedMessage("urn:m:2", "urn:b", Payload(b"<b>2</b>", "b"), "urn:request")


def envelope(body: Body, protocol: Protocol | None = None, number: int = 7) -> Envelope:
    protocol = protocol or Protocol()
    return Envelope(
        soap=protocol.soap,
        addressing=protocol.addressing,
        rm=protocol.rm,
        action=ns.BATCH_ACTION,
        to=Reference("http://server/orders"),
        message_id="urn:m:batch",
        sequence=SequenceHeader("urn:sequence", number),
        body=body,
    )


def read(http: HttpMessage, limits: Limits = DEFAULT_LIMITS) -> Envelope:
    return decode(http.body, http.content_type, http.soap_action, limits=limits)


def refusal(http: HttpMessage, limits: Limits = DEFAULT_LIMITS) -> Undecodable:
    with pytest.raises(Undecodable) as caught:
        read(http, limits)
    return caught.value


def altered(old: bytes, new: bytes, *messages: BatchedMessage) -> HttpMessage:
    http = encode(envelope(MessageBatch(messages or (ONE, TWO))))
    assert old in http.body
    return replace(http, body=http.body.replace(old, new))


@PROTOCOLS
def test_batch_that_is_written_and_read_is_the_same(protocol: Protocol) -> None:
    sent = envelope(MessageBatch((ONE, TWO, replace(ONE, payload=EMPTY), replace(TWO, action='urn:"<&'))), protocol)
    assert read(encode(sent)) == sent


def test_action_that_is_most_frequent_is_written_once() -> None:
    written = encode(envelope(MessageBatch((ONE, TWO, ONE, ONE)))).body
    assert written.count(b"urn:a") == 1
    assert written.count(b"urn:b") == 1


@pytest.mark.parametrize(
    "xml",
    [
        b'<m:a xmlns:m="urn:x"><m:b xmlns:soap="urn:s"/></m:a>',
        b'<a xmlns="urn:x" m1="wsa:x">m: m1:a &#109;: wsrm:</a>',
        b"<a><!-- soap:x --><![CDATA[m:]]>\t\r\n</a>",
        b'<a xmlns:m="urn:mercury:rm"><m:Batch><m:Message/></m:Batch></a>',
    ],
)
def test_body_keeps_its_bytes(xml: bytes) -> None:
    sent = MessageBatch((ONE, replace(ONE, payload=Payload(xml)), TWO))
    body = read(encode(envelope(sent))).body
    assert isinstance(body, MessageBatch)
    assert body.messages[1].payload.xml == xml


def test_application_fault_in_a_batch_is_one() -> None:
    for protocol in ALL_PROTOCOLS:
        xml = f'<f:Fault xmlns:f="{ns.SOAP_NS[protocol.soap]}"/>'.encode()
        body = read(encode(envelope(MessageBatch((ONE, replace(ONE, payload=Payload(xml)))), protocol))).body
        assert isinstance(body, MessageBatch)
        assert [message.payload.is_fault for message in body.messages] == [False, True]


def test_last_number_of_a_batch_is_at_most_the_highest_there_is() -> None:
    last = envelope(MessageBatch((ONE, TWO)), number=MAX_MESSAGE_NUMBER - 1)
    assert read(encode(last)) == last
    fault = refusal(encode(envelope(MessageBatch((ONE, TWO)), number=MAX_MESSAGE_NUMBER))).fault
    assert fault.code is FaultCode.MESSAGE_NUMBER_ROLLOVER
    assert fault.identifier == "urn:sequence"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(b' id="urn:m:1"', b"", id="no MessageID"),
        pytest.param(b' id="urn:m:1"', b' id=" "', id="empty MessageID"),
        pytest.param(b"<a/>", b"<a/><a/>", id="two bodies"),
        pytest.param(b"<a/>", b"text<a/>", id="text beside a body"),
        pytest.param(b"<m:Message", b"text<m:Message", id="text between messages"),
        pytest.param(b"<a/>", b"<m:Batch/>", id="a batch in a batch"),
        pytest.param(b"</m:Batch>", b"<x/></m:Batch>", id="another element"),
        pytest.param(b"</m:Batch>", b"</m:Batch><m:Batch/>", id="two batches"),
        pytest.param(b">7<", b">0<", id="number 0"),
        pytest.param(b"<a/>", b"<a>", id="cut in the middle"),
        pytest.param(b'id="urn:m:1"', b'id="urn:' + b"m" * 3000 + b'"', id="a MessageID that is too long"),
        pytest.param(b'action="urn:b"', b'action="urn:' + b"m" * 3000 + b'"', id="an action that is too long"),
        pytest.param(b"urn:request", b"urn:" + b"m" * 3000, id="a RelatesTo that is too long"),
    ],
)
def test_batch_that_is_none_is_refused(old: bytes, new: bytes) -> None:
    assert refusal(altered(old, new)).fault.code is FaultCode.SENDER


@pytest.mark.parametrize("written", [b"", b' action=" "'], ids=["absent", "empty"])
def test_message_of_a_batch_that_has_an_action_in_neither_place_is_refused(written: bytes) -> None:
    # It would be acknowledged, and stored as a message that is not for the application.
    http = altered(b' action="urn:a"', written, ONE)
    assert refusal(http).fault.reason == "a message of a batch without action"


def test_empty_batch_is_refused() -> None:
    http = encode(envelope(MessageBatch((ONE,))))
    start, end = http.body.index(b"<m:Message"), http.body.index(b"</m:Batch>")
    assert "without messages" in str(refusal(replace(http, body=http.body[:start] + http.body[end:])))


def test_batch_outside_any_sequence_or_with_last_message_is_refused() -> None:
    assert "outside any sequence" in str(refusal(encode(replace(envelope(MessageBatch((ONE,))), sequence=None))))
    protocol = Protocol(rm=RmVersion.RM10)
    last = replace(envelope(MessageBatch((ONE,)), protocol), sequence=SequenceHeader("urn:sequence", 7, last=True))
    assert "LastMessage" in str(refusal(encode(last)))


def test_batch_has_at_most_as_many_messages_as_the_limit_says() -> None:
    http = encode(envelope(MessageBatch((ONE,) * 3)))
    assert isinstance(read(http, Limits(max_batch=3)).body, MessageBatch)
    assert "more than 2 messages" in str(refusal(http, Limits(max_batch=2)))


def test_bodies_in_a_batch_may_be_nested_as_deep_as_single_ones_and_no_deeper() -> None:
    limits = Limits(max_depth=10)
    for depth, fits in ((8, True), (9, False)):
        deep = replace(ONE, payload=Payload(b"<a>" * depth + b"</a>" * depth, "a"))
        for body in (deep.payload, MessageBatch((deep, ONE))):
            http = encode(envelope(body))
            if fits:
                assert read(http, limits).body == body
            else:
                assert "deeper" in str(refusal(http, limits))


def test_content_behind_a_batch_is_not_nested_deeper() -> None:
    block = b'<m:Batch xmlns:m="urn:mercury:rm"><m:Message/></m:Batch>' + b"<x>" * 9 + b"</x>" * 9
    http = replace(encode(envelope(ONE.payload)))
    http = replace(http, body=http.body.replace(b"</soap:Header>", block + b"</soap:Header>"))
    assert "deeper than 10" in str(refusal(http, Limits(max_depth=10)))


def test_elements_of_all_messages_count() -> None:
    many = replace(ONE, payload=Payload(b"<a>" + b"<b/>" * 40 + b"</a>", "a"))
    http = encode(envelope(MessageBatch((many, many))))
    assert "more than 90 elements" in str(refusal(http, Limits(max_elements=90)))


@pytest.mark.parametrize("text", ['messages="1" bytes="5"', 'messages="x" bytes="5"', 'bytes="5"', 'messages="5"', ""])
def test_limits_that_allow_no_batch_are_ignored(text: str) -> None:
    body = CreateSequence(acks_to=Reference("http://client/"), batch=BatchLimits(256, 1000))
    http = encode(envelope(body))
    http = replace(http, body=http.body.replace(b'messages="256" bytes="1000"', text.encode()))
    found = read(http).body
    assert isinstance(found, CreateSequence)
    assert found.batch is None


@PROTOCOLS
def test_limits_are_written_and_read(protocol: Protocol) -> None:
    create = CreateSequence(acks_to=Reference("http://client/"), batch=BatchLimits(256, 1000))
    created = CreateSequenceResponse(identifier="urn:s", batch=BatchLimits(2, 10**20))
    assert read(encode(envelope(create, protocol))).body == create
    found = read(encode(envelope(created, protocol))).body
    assert isinstance(found, CreateSequenceResponse)
    assert found.batch == BatchLimits(2, 2**31 - 1)


def test_batch_has_few_bytes_of_other_header_blocks_for_they_are_stored_with_each_message() -> None:
    block = b'<h:mark xmlns:h="urn:h">%b</h:mark>'
    room = MAX_HEADER_BYTES - 2 * len(block % b"")
    for size, fits in ((room, True), (room + 1, False)):
        headers = (block % b"", block % (b"x" * size))
        sent = replace(envelope(MessageBatch((ONE, TWO))), headers=headers)
        if fits:
            assert read(encode(sent)).headers == headers
        else:
            assert f"{MAX_HEADER_BYTES} bytes of other header blocks" in str(refusal(encode(sent)))
        single = replace(sent, body=ONE.payload)
        assert read(encode(single)).headers == headers


@pytest.mark.parametrize("names", [("reply_to",), ("fault_to",), ("reply_to", "fault_to")], ids="+".join)
def test_batch_has_few_bytes_of_reference_parameters_for_they_are_stored_with_each_message(
    names: tuple[str, ...],
) -> None:
    parameter = b'<p:id xmlns:p="urn:p">%b</p:id>'
    room = MAX_HEADER_BYTES // len(names) - len(parameter % b"")
    for size, fits in ((room, True), (room + 1, False)):
        endpoint = Reference("http://client/", (parameter % (b"x" * size),))
        sent = replace(envelope(MessageBatch((ONE, TWO))), **dict.fromkeys(names, endpoint))
        if fits:
            found = read(encode(sent))
            assert [getattr(found, name) for name in names] == [endpoint] * len(names)
        else:
            assert "reference parameters" in str(refusal(encode(sent)))
        single = replace(sent, body=ONE.payload)
        assert getattr(read(encode(single)), names[0]) == endpoint
