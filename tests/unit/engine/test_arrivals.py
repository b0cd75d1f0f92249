"""Which arrivals can wait for others: acknowledgements that nothing is lost by."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mercury.engine.exchange import Arrival, Outgoing, Purpose, size_of
from mercury.statemachine.faults import Fault, FaultCode
from mercury.statemachine.messages import AckRequested, CloseSequence, SequenceAcknowledgement
from mercury.statemachine.protocol import AddressingVersion, RmVersion, SoapVersion
from mercury.wire.envelope import (
    BatchedMessage,
    Envelope,
    HttpMessage,
    MessageBatch,
    Payload,
    SequenceHeader,
    Undecodable,
)

ENVELOPE = Envelope(
    soap=SoapVersion.SOAP12,
    addressing=AddressingVersion.WSA10,
    rm=RmVersion.RM11,
    action="urn:acknowledgement",
    acknowledgements=(SequenceAcknowledgement("urn:sequence", ((1, 3),)),),
)
POST = Outgoing(url="http://peer.example/a", envelope=ENVELOPE, purpose=Purpose.MESSAGE)
REPLY = Arrival(http=HttpMessage(b"", ""), request=POST, envelope=ENVELOPE)


@pytest.mark.parametrize(
    "other",
    [
        replace(REPLY, request=None),
        replace(REPLY, envelope=None),
        replace(REPLY, envelope=Undecodable(Fault(code=FaultCode.SENDER, reason="no XML"))),
        *(
            replace(REPLY, envelope=replace(ENVELOPE, **difference))
            for difference in (
                {"acknowledgements": ()},
                {"body": Payload(b"<response/>", "response")},
                {"sequence": SequenceHeader("urn:responses", 1)},
                {"ack_requests": (AckRequested("urn:sequence"),)},
                {"problems": (Fault(code=FaultCode.SENDER, reason="odd"),)},
            )
        ),
    ],
)
def test_only_acknowledgements_in_a_reply_can_wait(other: Arrival) -> None:
    assert REPLY.is_acknowledgement
    assert not other.is_acknowledgement


def test_size_counts_the_header_blocks_that_are_stored_with_each_message() -> None:
    one, two = Payload(b"<one/>", "one"), Payload(b"<second/>", "second")
    batch = MessageBatch((BatchedMessage("urn:m:1", "urn:a", one), BatchedMessage("urn:m:2", "urn:a", two)))
    headers = (b"<h/>", b"<other/>")
    for body, bodies, messages in ((one, 6, 1), (batch, 6 + 9, 2)):
        plain = replace(ENVELOPE, body=body)
        assert replace(REPLY, envelope=plain).size == bodies
        assert replace(REPLY, envelope=replace(plain, headers=headers)).size == bodies + messages * (4 + 8)
    assert size_of(replace(ENVELOPE, body=CloseSequence("urn:s"), headers=headers)) is None
