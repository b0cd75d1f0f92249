"""The header block with the origin of a message, and its attributes in a batch."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mercury.statemachine.messages import EndpointReference, SequenceHeader
from mercury.statemachine.protocol import AddressingVersion, RmVersion, SoapVersion
from mercury.statemachine.trace import Trace
from mercury.wire.decode import decode
from mercury.wire.encode import encode
from mercury.wire.envelope import BatchedMessage, Envelope, MessageBatch, Payload
from mercury.wire.origin import Origin
from mercury.wire.prepared import PreparedEnvelopes
from mercury.wire.scan import DEFAULT_LIMITS
from mercury.wire.shapes import Shapes

TRACE = Trace("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
OTHER = Trace("00-11111111111111111111111111111111-2222222222222222-00")
ORIGINS = (
    Origin(TRACE, 1764000000.5),
    Origin(OTHER, 1764000001.25),
    Origin(TRACE),
    Origin(None, 3.5),
    Origin(Trace(TRACE.parent, "a=b<&>'")),
    None,
)
BODY = Payload(b"<a/>", "a")
MESSAGE = Envelope(
    soap=SoapVersion.SOAP12,
    addressing=AddressingVersion.WSA10,
    rm=RmVersion.RM11,
    action="urn:a",
    to=EndpointReference("http://peer.example/"),
    message_id="urn:uuid:1",
    sequence=SequenceHeader("urn:uuid:sequence", 1),
    body=BODY,
)


@pytest.mark.parametrize("written_by", [encode, PreparedEnvelopes().encode], ids=["plain", "prepared"])
def test_every_origin_is_read_as_it_was_written_whatever_shapes_are_known(written_by) -> None:
    shapes = Shapes(DEFAULT_LIMITS)
    for origin in (*ORIGINS, *ORIGINS):
        http = written_by(replace(MESSAGE, origin=origin))
        read = decode(http.body, http.content_type, shapes=shapes)
        assert (read.origin, read.headers, read.body) == (origin, (), BODY)


def test_each_message_of_a_batch_has_its_own_origin() -> None:
    messages = tuple(BatchedMessage(f"urn:{n}", "urn:a", BODY, origin=origin) for n, origin in enumerate(ORIGINS))
    http = encode(replace(MESSAGE, body=MessageBatch(messages)))
    assert decode(http.body, http.content_type).body == MessageBatch(messages)


@pytest.mark.parametrize(
    "attributes",
    [
        "",
        'traceparent=""',
        f'traceparent="{"x" * 10_240}"',
        f'traceparent="{TRACE.parent}-01"',
        'at="soon"',
        'at="-1"',
        'at="nan"',
        'at="1e300"',
        'at="999999999999999"',
        'tracestate="a=b"',
        "".join(f' a{number}=""' for number in range(20)),
    ],
)
def test_a_block_that_cannot_be_read_is_none_and_the_message_is_read(attributes: str) -> None:
    http = encode(replace(MESSAGE, origin=Origin(TRACE)))
    start = http.body.index(b"<m:Sent")
    body = http.body[:start] + f'<m:Sent xmlns:m="urn:mercury:rm" {attributes}/>'.encode()
    body += http.body[http.body.index(b"/>", start) + 2 :]
    read = decode(body, http.content_type, shapes=Shapes(DEFAULT_LIMITS))
    assert (read.origin, read.body) == (None, BODY)


def test_one_valid_value_beside_an_invalid_one_counts() -> None:
    http = encode(replace(MESSAGE, origin=Origin(TRACE, 5.0)))
    read = decode(http.body.replace(b'at="5.000"', b'at="soon"'), http.content_type)
    assert read.origin == Origin(TRACE)
