"""Encodes an `Envelope` as the bytes of an HTTP message. Writing is strict where `mercury.wire.decode` is tolerant.

The encoder joins strings. It escapes each value, except elements that are XML already (payload, header blocks,
reference parameters): it writes them unchanged.
"""

from __future__ import annotations

import re
from typing import assert_never

from mercury.statemachine.faults import Fault
from mercury.statemachine.messages import (
    ANONYMOUS_ENDPOINT,
    CloseSequence,
    CloseSequenceResponse,
    CreateSequence,
    CreateSequenceResponse,
    EndpointReference,
    MakeConnection,
    TerminateSequence,
    TerminateSequenceResponse,
)
from mercury.statemachine.protocol import AddressingVersion, RmVersion, SoapVersion
from mercury.wire import ns
from mercury.wire.batch import bodies_of, write_batch
from mercury.wire.cut import free_prefix, searchable, with_attributes
from mercury.wire.envelope import Envelope, HttpMessage, MessageBatch, Payload, Rest
from mercury.wire.fault_names import fault_action, fault_status
from mercury.wire.ns import RM_NS, SOAP_NS, WSA_NS
from mercury.wire.origin import write_origin
from mercury.wire.values import escape, exact_duration
from mercury.wire.write_common import Style
from mercury.wire.write_fault import write_fault11, write_fault12
from mercury.wire.write_rm import write_make_connection, write_rm_body
from mercury.wire.xop import pack, pack_parts

__all__ = ["encode", "fault_action", "fault_status"]

#: An action that can stand in an HTTP header without escaping. Any other action is written in wsa:Action only.
_PLAIN_ACTION = re.compile(r"[!#-\[\]-~]+")


def encode(envelope: Envelope) -> HttpMessage:
    """Write one SOAP message.

    ``to`` = ``None`` is written as the anonymous address: all versions allow it and 2004/08 requires a To (WSA-01).
    Parameters of ``to`` become header blocks (WSA-03). ``problems`` are not written. With ``mtom`` the result is
    an MTOM message, unless XOP does not allow it.

    :raises ValueError: the envelope has an element that its versions do not have, such as CloseSequence in WS-RM 1.0, a
        Sequence header block without a version of WS-RM, or an endpoint reference without a version of WS-Addressing.
    """
    rm = envelope.rm
    if rm is None and isinstance(envelope.body, MakeConnection):
        rm = RmVersion.RM11  # MakeConnection by Identifier uses the Identifier of WS-RM 1.1
    if rm is None and (envelope.sequence or envelope.acknowledgements or envelope.ack_requests):
        raise ValueError("header blocks of WS-ReliableMessaging in an envelope without its version")
    style = _style(envelope, rm)
    soap = style.soap

    start = write_start(style, envelope.soap)
    extra, body = _body(style, envelope)
    header = write_addressing(style, envelope) + write_rm_headers(style, envelope) + extra
    if envelope.headers:
        header += b"".join(envelope.headers).decode()
    if header:
        header = f"<{soap}:Header>{header}</{soap}:Header>"
    before = f"{start}>{header}<{soap}:Body>"
    after = f"</{soap}:Body></{soap}:Envelope>"
    return _http_message(envelope, before.encode(), body, after.encode())


def write_start(style: Style, version: SoapVersion) -> str:
    """The start tag of the Envelope, without its last character."""
    start = f'<{style.soap}:Envelope xmlns:{style.soap}="{SOAP_NS[version]}"'
    if style.addressing is not None:
        start += f' xmlns:{style.wsa}="{WSA_NS[style.addressing]}"'
    if style.rm is not None:
        start += f' xmlns:{style.wsrm}="{RM_NS[style.rm]}"'
    return start


def _style(envelope: Envelope, rm: RmVersion | None) -> Style:
    """Choose prefixes that the embedded elements do not use, so that `cut` returns them with the same bytes."""
    embedded = [*envelope.headers]
    endpoints = [envelope.to, envelope.reply_to, envelope.fault_to, envelope.from_]
    match envelope.body:
        case Payload(xml=xml):
            embedded.append(xml)
        case MessageBatch():
            embedded.append(bodies_of(envelope.body))
        case CreateSequence(acks_to=acks_to, offer=offer):
            endpoints += (acks_to, offer.endpoint if offer else None)
        case CreateSequenceResponse(accept_acks_to=acks_to):
            endpoints.append(acks_to)
        case _:
            pass
    for endpoint in endpoints:
        if endpoint is not None:
            embedded += endpoint.parameters
    texts = [searchable(xml) for xml in embedded]
    return Style(
        envelope.addressing,
        rm,
        free_prefix("soap", texts),
        free_prefix("wsa", texts),
        free_prefix("wsrm", texts),
    )


def write_addressing(style: Style, envelope: Envelope) -> str:
    """The header blocks of WS-Addressing."""
    if envelope.addressing is None:
        return ""
    wsa, soap = style.wsa, style.soap
    to = envelope.to or ANONYMOUS_ENDPOINT
    written = [
        f'<{wsa}:To {soap}:mustUnderstand="1">{style.address(to.address)}</{wsa}:To>',
        f'<{wsa}:Action {soap}:mustUnderstand="1">{escape(envelope.action)}</{wsa}:Action>',
    ]
    if envelope.message_id is not None:
        written.append(f"<{wsa}:MessageID>{escape(envelope.message_id)}</{wsa}:MessageID>")
    if envelope.relates_to is not None:
        written.append(f"<{wsa}:RelatesTo>{escape(envelope.relates_to)}</{wsa}:RelatesTo>")
    if envelope.from_ is not None:
        written.append(f"<{wsa}:From>{style.endpoint(envelope.from_)}</{wsa}:From>")
    if envelope.reply_to is not None:
        written.append(f"<{wsa}:ReplyTo>{style.endpoint(envelope.reply_to)}</{wsa}:ReplyTo>")
    if envelope.fault_to is not None:
        written.append(f"<{wsa}:FaultTo>{style.endpoint(envelope.fault_to)}</{wsa}:FaultTo>")
    if to.parameters:
        written += _parameters(style, to)
    return "".join(written)


def _parameters(style: Style, to: EndpointReference) -> list[str]:
    """WSA-03: the reference parameters of the peer's endpoint reference are sent as header blocks."""
    if style.addressing is AddressingVersion.WSA200408:
        return [parameter.decode() for parameter in to.parameters]
    mark = {f"{style.wsa}:IsReferenceParameter": "true"}
    return [
        (parameter if b":IsReferenceParameter" in parameter else with_attributes(parameter, mark)).decode()
        for parameter in to.parameters
    ]


def write_rm_headers(style: Style, envelope: Envelope) -> str:
    """The header blocks of WS-RM and WS-MakeConnection."""
    wsrm = style.wsrm
    written = ""
    sequence = envelope.sequence
    if sequence is not None:  # RM-SEQ-02
        last = f"<{wsrm}:LastMessage/>" if sequence.last and style.rm is RmVersion.RM10 else ""
        written = (
            f'<{wsrm}:Sequence {style.soap}:mustUnderstand="1">{style.identifier(sequence.identifier)}'
            f"<{wsrm}:MessageNumber>{sequence.message_number}</{wsrm}:MessageNumber>{last}</{wsrm}:Sequence>"
        )
    for request in envelope.ack_requests:
        written += f"<{wsrm}:AckRequested>{style.identifier(request.identifier)}</{wsrm}:AckRequested>"
    for acknowledgement in envelope.acknowledgements:
        written += style.acknowledgement(acknowledgement)
    if envelope.message_pending is not None:
        pending = "true" if envelope.message_pending else "false"
        written += f'<wsmc:MessagePending xmlns:wsmc="{ns.MC}" pending="{pending}"/>'
    if envelope.expires_in is not None:
        written += f'<m:Expires xmlns:m="{ns.MERCURY}" in="{exact_duration(envelope.expires_in)}"/>'
    if envelope.origin is not None:
        written += write_origin(envelope.origin)
    return written


def _body(style: Style, envelope: Envelope) -> tuple[str, bytes]:
    """Header blocks that belong to the Body, and its content."""
    body = envelope.body
    match body:
        case Payload():
            return "", body.xml
        case Fault():
            headers, fault = (write_fault11 if envelope.soap is SoapVersion.SOAP11 else write_fault12)(style, body)
            return headers, fault.encode()
        case MessageBatch():
            return "", write_batch(body)
        case MakeConnection():
            return "", write_make_connection(style, body).encode()
        case (
            CreateSequence()
            | CreateSequenceResponse()
            | CloseSequence()
            | CloseSequenceResponse()
            | TerminateSequence()
            | TerminateSequenceResponse()
        ):
            return "", write_rm_body(style, body).encode()
        case _:
            assert_never(body)


def _http_message(envelope: Envelope, before: bytes, content: bytes, after: bytes) -> HttpMessage:
    """HTTP-01."""
    plain = _PLAIN_ACTION.fullmatch(envelope.action) is not None
    soap11 = envelope.soap is SoapVersion.SOAP11
    soap_action = (f'"{envelope.action}"' if plain else '""') if soap11 else None
    if envelope.parts:
        root = b"".join((before, content, after))
        apart = pack_parts(root, envelope.parts, envelope.soap, envelope.action if plain and not soap11 else None)
        return HttpMessage(apart.start, apart.content_type, soap_action, rest=Rest(apart.size, apart.pieces))
    if envelope.mtom:
        packed = pack(before, content, after, envelope.soap, envelope.action if plain and not soap11 else None)
        if packed is not None:
            return HttpMessage(*packed, soap_action)
    return HttpMessage(b"".join((before, content, after)), *http_headers(envelope.soap, envelope.action))


def http_headers(soap: SoapVersion, action: str) -> tuple[str, str | None]:
    """Content-Type and SOAPAction of a message that is not an MTOM message (HTTP-01)."""
    plain = _PLAIN_ACTION.fullmatch(action) is not None
    if soap is SoapVersion.SOAP11:
        return "text/xml; charset=utf-8", f'"{action}"' if plain else '""'
    content_type = "application/soap+xml; charset=utf-8"
    return f'{content_type}; action="{action}"' if plain else content_type, None
