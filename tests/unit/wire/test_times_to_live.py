"""The time to live of a message on the wire: `Expires`, an element of Mercury's."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mercury.statemachine.messages import EndpointReference, SequenceHeader
from mercury.statemachine.protocol import AddressingVersion, RmVersion, SoapVersion
from mercury.wire.decode import decode
from mercury.wire.encode import encode
from mercury.wire.envelope import BatchedMessage, Envelope, HttpMessage, MessageBatch, Payload
from mercury.wire.prepared import PreparedEnvelopes
from mercury.wire.scan import Limits
from mercury.wire.shapes import Shapes

MESSAGE = Envelope(
    soap=SoapVersion.SOAP12,
    addressing=AddressingVersion.WSA10,
    rm=RmVersion.RM11,
    action="urn:a",
    to=EndpointReference("http://server.example/"),
    message_id="urn:uuid:1",
    sequence=SequenceHeader("urn:s", 7),
    expires_in=12.5,
    body=Payload(b"<a/>", "a"),
)


def read(http: HttpMessage, shapes: Shapes | None = None) -> Envelope:
    return decode(http.body, http.content_type, http.soap_action, shapes=shapes)


@pytest.mark.parametrize("seconds", [0.0, 0.001, 12.5, 86_400.0, None])
def test_the_seconds_come_back_and_are_no_header_block_of_the_application(seconds: float | None) -> None:
    message = replace(MESSAGE, expires_in=seconds)
    assert read(encode(message)) == message
    assert PreparedEnvelopes().encode(message).body == encode(message).body


@pytest.mark.parametrize("value", ["-PT5S", "soon", "", "P"])
def test_a_value_that_cannot_be_read_counts_as_none(value: str) -> None:
    http = encode(MESSAGE)
    odd = replace(http, body=http.body.replace(b"PT12.5S", value.encode()))
    assert read(odd) == replace(MESSAGE, expires_in=None)


def test_messages_of_a_batch_have_a_value_each() -> None:
    messages = tuple(
        BatchedMessage(f"urn:uuid:{number}", "urn:a", Payload(b"<a/>", "a"), None, lasts)
        for number, lasts in enumerate((None, 0.0, 3.25))
    )
    batch = replace(MESSAGE, expires_in=None, body=MessageBatch(messages))
    assert read(encode(batch)) == batch


def test_the_value_of_one_message_is_never_that_of_the_next() -> None:
    shapes = Shapes(Limits())
    for lasts in (5.0, 4.0, None, 3.0):
        message = replace(MESSAGE, expires_in=lasts)
        assert read(encode(message), shapes) == message
