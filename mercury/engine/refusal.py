"""Faults in answer to a request that was not decoded: it is too long, too slow, or the server is busy."""

from __future__ import annotations

from dataclasses import replace

from mercury.engine import envelopes
from mercury.engine.ids import Ids
from mercury.statemachine.faults import Fault
from mercury.statemachine.protocol import AddressingVersion, Protocol, RmVersion, SoapVersion
from mercury.wire.encode import encode, fault_status
from mercury.wire.envelope import HttpMessage, Undecodable
from mercury.wire.media import soap_version

#: The versions that are assumed while nothing is known of the peer.
FALLBACK = Protocol(SoapVersion.SOAP11, AddressingVersion.WSA10, RmVersion.RM11)


def refuse(fault: Fault, content_type: str, ids: Ids) -> HttpMessage:
    """A fault in the SOAP version that the Content-Type of the request suggests."""
    return _written(fault, replace(FALLBACK, soap=soap_version(content_type) or FALLBACK.soap), None, ids)


def refuse_undecodable(error: Undecodable, ids: Ids) -> HttpMessage:
    """A fault in the versions that could be read before reading failed."""
    protocol = Protocol(error.soap, error.addressing or FALLBACK.addressing, error.rm or FALLBACK.rm)
    if not protocol.legal:
        protocol = replace(protocol, addressing=AddressingVersion.WSA10)
    return _written(error.fault, protocol, error.message_id, ids)


def with_status(message: HttpMessage, status: int) -> HttpMessage:
    return HttpMessage(message.body, message.content_type, message.soap_action, status)


def _written(fault: Fault, protocol: Protocol, relates_to: str | None, ids: Ids) -> HttpMessage:
    envelope = envelopes.fault(protocol, fault, message_id=ids.new(), relates_to=relates_to)
    return with_status(encode(envelope), fault_status(fault, protocol.soap))
