"""The message that shows which store answers at an address, before a message is sent there (decision 73)."""

from __future__ import annotations

from dataclasses import replace

from mercury.engine.exchange import Outgoing, Purpose
from mercury.statemachine.messages import AckRequested
from mercury.statemachine.protocol import RmVersion
from mercury.wire import ns
from mercury.wire.envelope import Envelope
from mercury.wire.ns import RmMessage


def probe_for(outgoing: Outgoing, message_id: str) -> Outgoing:
    """AckRequested for the sequence of a message, to the same address.

    Any destination answers it, with an acknowledgement or with UnknownSequence, and it tells no content.

    :param message_id: its MessageID.
    """
    about = outgoing.envelope
    rm = about.rm or RmVersion.RM11
    asked = Envelope(
        soap=about.soap,
        addressing=about.addressing,
        rm=rm,
        action=ns.rm_action(rm, RmMessage.ACK_REQUESTED),
        to=about.to,
        message_id=message_id,
        ack_requests=(AckRequested(about.sequence.identifier if about.sequence is not None else message_id),),
    )
    return replace(outgoing, envelope=asked, purpose=Purpose.ACK_REQUEST, number=None, last=None, held=False)
