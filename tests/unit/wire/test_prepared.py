"""Messages from prepared parts are the same bytes as those that are written from nothing."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from mercury.statemachine.messages import (
    ANONYMOUS_ENDPOINT,
    AckRequested,
    EndpointReference,
    SequenceAcknowledgement,
    SequenceHeader,
)
from mercury.statemachine.protocol import ALL_PROTOCOLS, AddressingVersion, Protocol, RmVersion, SoapVersion
from mercury.wire import EMPTY, Envelope, Payload
from mercury.wire.encode import encode
from mercury.wire.prepared import LARGE_BODY, MOST_KINDS, PreparedEnvelopes
from tests.unit.wire.samples import CALLBACK, REPLY, REQUEST, SEQUENCE, SERVICE, every_message

ORDER = Payload(b'<o:Order xmlns:o="urn:orders">1 &amp; 2</o:Order>')
ACKNOWLEDGED = SequenceAcknowledgement(SEQUENCE, ((1, 3), (5, 7)), buffer_remaining=10)


def envelope(soap: SoapVersion, addressing: AddressingVersion, rm: RmVersion) -> Envelope:
    return Envelope(
        soap=soap,
        addressing=addressing,
        rm=rm,
        action="urn:orders/Order",
        to=SERVICE,
        message_id=REQUEST,
        sequence=SequenceHeader(SEQUENCE, 7, False),
        body=ORDER,
    )


PLAIN = envelope(Protocol().soap, Protocol().addressing, Protocol().rm)
VARIANTS = [
    PLAIN,
    replace(PLAIN, message_id=REPLY, sequence=SequenceHeader("urn:other & more", 8, False)),
    replace(PLAIN, sequence=SequenceHeader(SEQUENCE, 9, True)),
    replace(PLAIN, reply_to=CALLBACK, ack_requests=(AckRequested(SEQUENCE),)),
    replace(PLAIN, reply_to=ANONYMOUS_ENDPOINT, acknowledgements=(ACKNOWLEDGED,)),
    replace(PLAIN, relates_to="urn:<related>", message_id="a & b", message_pending=True),
    replace(PLAIN, action='urn:"quoted" & <odd>'),
    replace(PLAIN, to=ANONYMOUS_ENDPOINT, body=EMPTY, sequence=None, acknowledgements=(ACKNOWLEDGED,)),
    replace(PLAIN, to=EndpointReference("http://a.example/", (b'<p xmlns="urn:p">1</p>',))),
    replace(PLAIN, from_=CALLBACK, fault_to=CALLBACK),
    replace(PLAIN, headers=(b'<h xmlns="urn:h"/>',)),
    replace(PLAIN, message_id=None),
    replace(PLAIN, to=None),
    replace(PLAIN, mtom=True, body=Payload(b"<a>" + b"QUJD" * 1000 + b"</a>")),
    replace(PLAIN, body=Payload(b'<wsa:To xmlns:wsa="urn:of-the-application"/>')),
    replace(PLAIN, body=Payload(b"<a>&#115;oap:x</a>")),
    replace(PLAIN, body=Payload(b"<a><![CDATA[wsrm]]>:x</a>")),
    replace(PLAIN, body=Payload(b'<a xmlns:wsrm1="urn:b">wsrm:</a>')),
]


def test_every_kind_of_message_is_the_same_as_when_it_is_written_from_nothing() -> None:
    prepared = PreparedEnvelopes()
    for each in [*VARIANTS, *VARIANTS, *(each for protocol in ALL_PROTOCOLS for _, each in every_message(protocol))]:
        assert prepared.encode(each) == encode(each)


def test_versions_of_one_endpoint_do_not_mix() -> None:
    prepared = PreparedEnvelopes()
    for _ in range(2):
        for versions in product(SoapVersion, AddressingVersion, RmVersion):
            each = envelope(*versions)
            assert prepared.encode(each) == encode(each)


def test_large_body_is_not_copied() -> None:
    large = replace(PLAIN, body=Payload(b"<a>" + b"x" * LARGE_BODY + b"</a>"))
    message = PreparedEnvelopes().encode(large)
    assert message.rest is not None
    assert message.rest.in_memory
    assert any(piece is large.body.xml for piece in message.rest.pieces())  # type: ignore[union-attr]
    assert message.whole() == encode(large)
    assert len(message.whole().body) == len(message.body) + message.rest.size


def test_kinds_of_messages_are_kept_in_a_bounded_number() -> None:
    prepared = PreparedEnvelopes()
    for number in range(3 * MOST_KINDS):
        prepared.encode(replace(PLAIN, action=f"urn:action:{number}"))
        assert len(prepared._kinds) <= MOST_KINDS


@pytest.mark.parametrize("rm", RmVersion)
def test_sequences_with_one_endpoint_share_what_is_prepared(rm: RmVersion) -> None:
    prepared = PreparedEnvelopes()
    for number in range(1, 100):
        each = replace(PLAIN, rm=rm, message_id=f"urn:{number}", sequence=SequenceHeader(f"urn:s:{number}", number))
        assert prepared.encode(each) == encode(each)
    assert len(prepared._kinds) == 1
