"""Reads WS-Addressing header blocks and endpoint references, in both versions (docs/protocol.md, section 9)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from mercury.statemachine.faults import Fault, FaultCode, Subcode
from mercury.statemachine.messages import EndpointReference
from mercury.statemachine.protocol import AddressingVersion
from mercury.wire import ns
from mercury.wire.ns import NEUTRAL_ADDRESS, RM_VERSION, WSA_NS, WSA_VERSION, clark, local_of
from mercury.wire.read_common import Document
from mercury.wire.scan import MessageRefused, Node, refused
from mercury.wire.values import collapse

#: Header blocks that a message may have only once (WSA-05).
_ONCE = ("Action", "To", "MessageID", "ReplyTo", "FaultTo", "From")

#: Relationships that mean "reply"; some versions of Sandesha2 write the last one.
_REPLY = frozenset({"", ns.WSA10 + "/reply", "http://schemas.xmlsoap.org/ws/2005/08/addressing"})

_ADDRESS: Mapping[str, AddressingVersion] = MappingProxyType(
    {clark(uri, "Address"): version for uri, version in WSA_VERSION.items()}
)
_PARAMETERS = frozenset(
    {clark(uri, name) for uri in WSA_VERSION for name in ("ReferenceParameters", "ReferenceProperties")}
)

#: A reference parameter may not be in these namespaces: sent as a header block, it would be read as one of Mercury's.
_PROTOCOLS = frozenset({*WSA_VERSION, *RM_VERSION, ns.MC, ns.SOAP11, ns.SOAP12})


@dataclass(frozen=True, slots=True, kw_only=True)
class Addressing:
    """The WS-Addressing properties of one message."""

    action: str
    to: EndpointReference | None = None
    message_id: str | None = None
    relates_to: str | None = None
    reply_to: EndpointReference | None = None
    fault_to: EndpointReference | None = None
    from_: EndpointReference | None = None


def read_addressing(
    document: Document,
    version: AddressingVersion,
    blocks: Mapping[str, Sequence[Node]],
    http_actions: Sequence[str],
    *,
    replies: bool = False,
) -> Addressing:
    """Read the header blocks of one version.

    :param blocks: the header blocks for this node, by local name.
    :param http_actions: the actions that the HTTP headers give; "" = the header gives none (WSA-09).
    :param replies: with RelatesTo, the actions of HTTP are not compared.
    :raises MessageRefused: a header block is wrong; the error has the WS-Addressing fault.
    """
    for name in _ONCE:
        if len(blocks.get(name, ())) > 1:
            raise _invalid(clark(WSA_NS[version], name), Subcode.INVALID_CARDINALITY, f"more than one wsa:{name}")

    def uri(name: str) -> str | None:
        nodes = blocks.get(name)
        return document.uri(nodes[0]) or None if nodes else None

    def endpoint(name: str) -> EndpointReference | None:
        nodes = blocks.get(name)
        return read_endpoint(document, version, nodes[0]) if nodes else None

    action = uri("Action")
    if action is None:
        raise action_required(WSA_NS[version])
    relates_to = _reply_of(document, blocks.get("RelatesTo", ()))
    for other in http_actions:
        if other and other != action and not (replies and relates_to is not None):
            reason = "the action of HTTP is not that of wsa:Action"
            raise _invalid(clark(WSA_NS[version], "Action"), Subcode.ACTION_MISMATCH, reason)
    to = blocks.get("To")
    return Addressing(
        action=action,
        to=EndpointReference(_address(document, to[0], to[0].name)) if to else None,
        message_id=uri("MessageID"),
        relates_to=relates_to,
        reply_to=endpoint("ReplyTo"),
        fault_to=endpoint("FaultTo"),
        from_=endpoint("From"),
    )


def read_endpoint(document: Document, version: AddressingVersion | None, node: Node) -> EndpointReference:
    """Read an endpoint reference: a header block, or an element of WS-RM.

    :param version: the envelope's version; ``None`` = it has no WS-Addressing header blocks, and both are accepted.
    :raises MessageRefused: the address is missing or of another version (NS-18), or a reference parameter is refused.
    """
    limits = document.limits
    # Counted over all parts before the first one is cut out: each cut takes the longer the more is declared around it.
    if sum([len(part.children) for part in node.children if part.name in _PARAMETERS]) > limits.max_headers:
        raise refused(f"{node.local} has more than {limits.max_headers} reference parameters")
    address: str | None = None
    parameters: list[bytes] = []
    left = limits.max_parameters_bytes
    for part in node.children:
        name = part.name
        if name in _ADDRESS:
            if _ADDRESS[name] is not (version or _ADDRESS[name]):
                raise mixed()
            if address is not None:
                raise _invalid(node.name, Subcode.INVALID_EPR, f"more than one address in {node.local}")
            address = _address(document, part, node.name)
        elif name in _PARAMETERS:
            for parameter in _parameters(node, part):
                parameters.append(document.cut(parameter))
                left -= len(parameters[-1])
                if left < 0:
                    reason = f"more than {limits.max_parameters_bytes} bytes of reference parameters"
                    raise refused(f"{node.local} has {reason}")
    if address is None:
        reason = f"no address in {node.local}"
        raise _invalid(node.name, Subcode.MISSING_ADDRESS_IN_EPR, reason)
    return EndpointReference(address, tuple(parameters))


def action_required(uri: str) -> MessageRefused:
    """The error for a message without wsa:Action.

    :param uri: the namespace of WS-Addressing.
    """
    return MessageRefused(
        Fault(
            code=FaultCode.ADDRESSING_HEADER_REQUIRED,
            reason="the header wsa:Action is missing",
            subject=clark(uri, "Action"),
        )
    )


def mixed() -> MessageRefused:
    """The error for two versions of WS-Addressing in one envelope (NS-18)."""
    return refused("two versions of WS-Addressing in one message")


def _parameters(endpoint: Node, part: Node) -> Sequence[Node]:
    """The reference parameters in one part of an endpoint reference.

    :raises MessageRefused: one is in a namespace of the protocols.
    """
    for parameter in part.children:
        if parameter.namespace in _PROTOCOLS:
            reason = f"{parameter.local} cannot be a reference parameter"
            raise _invalid(endpoint.name, Subcode.INVALID_EPR, reason)
    return part.children


def _address(document: Document, node: Node, subject: str) -> str:
    address = document.uri(node)
    if not address:
        raise _invalid(subject, Subcode.INVALID_ADDRESS, f"an empty address in {local_of(subject)}")
    return NEUTRAL_ADDRESS.get(address, address)


def _reply_of(document: Document, nodes: Sequence[Node]) -> str | None:
    """The MessageID of the message that this one answers; other relationships are ignored (WSA-02)."""
    for node in nodes:
        relationship = collapse(node.attributes.get("RelationshipType", ""))
        if relationship in _REPLY or relationship.rpartition(":")[2] == "Reply":
            return document.uri(node) or None
    return None


def _invalid(subject: str, subcode: Subcode, reason: str) -> MessageRefused:
    return MessageRefused(
        Fault(code=FaultCode.INVALID_ADDRESSING_HEADER, reason=reason, subcode=subcode, subject=subject)
    )
