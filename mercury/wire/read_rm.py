"""Reads the elements of WS-ReliableMessaging and WS-MakeConnection (docs/protocol.md, sections 3 to 7 and 11)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from mercury.statemachine.faults import Fault, FaultCode, Ranges
from mercury.statemachine.messages import (
    AckRequested,
    BatchLimits,
    CloseSequence,
    CloseSequenceResponse,
    CreateSequence,
    CreateSequenceResponse,
    IncompleteSequenceBehavior,
    MakeConnection,
    Offer,
    SequenceAcknowledgement,
    SequenceHeader,
    TerminateSequence,
    TerminateSequenceResponse,
)
from mercury.statemachine.protocol import MAX_MESSAGE_NUMBER, AddressingVersion, RmVersion
from mercury.wire import ns
from mercury.wire.envelope import Body
from mercury.wire.ns import RM_NS, RM_VERSION, clark
from mercury.wire.read_addressing import read_endpoint
from mercury.wire.read_common import Document, child
from mercury.wire.scan import MessageRefused, Node, refused
from mercury.wire.values import collapse, seconds, store_id, whole_number

_IDENTIFIERS = frozenset(clark(uri, "Identifier") for uri in RM_VERSION)
_BUFFER_REMAINING = clark(ns.NETRM, "BufferRemaining")
_FOLLOWS = clark(ns.MERCURY, "Follows")
_SOURCE = clark(ns.MERCURY, "Source")
_MERCURY_BEHAVIOR = clark(ns.MERCURY, "IncompleteSequenceBehavior")
_BATCH = clark(ns.MERCURY, "Batch")
_STORE = clark(ns.MERCURY, "Store")
_MAX_INT = 2**31 - 1


def read_sequence(document: Document, version: RmVersion, node: Node) -> SequenceHeader:
    """Read the Sequence header block (RM10-SCH-01, RM11-SCH-01).

    :raises MessageRefused: the identifier is missing, or the number is missing or below 1 (RM-SEQ-07), or it is above
        2^63-1, with the fault MessageNumberRollover.
    """
    uri = RM_NS[version]
    identifier = document.required_uri(node, clark(uri, "Identifier"))
    number = _number(node, clark(uri, "MessageNumber"))
    if number is None or number < 1:
        raise refused("Sequence without a MessageNumber from 1")
    if number > MAX_MESSAGE_NUMBER:
        raise MessageRefused(
            Fault(
                code=FaultCode.MESSAGE_NUMBER_ROLLOVER,
                reason="the message number is above the highest there is",
                identifier=identifier,
                max_message_number=MAX_MESSAGE_NUMBER,
            )
        )
    last = version is RmVersion.RM10 and child(node, clark(uri, "LastMessage")) is not None
    return SequenceHeader(identifier, number, last)


def read_acknowledgement(document: Document, version: RmVersion, node: Node) -> SequenceAcknowledgement | Fault:
    """Read a SequenceAcknowledgement header block (RM10-SCH-02, RM11-SCH-02), with ranges ascending and merged.

    A block that breaks a rule of RM-ACK-03 is returned as a fault: the message that carries it is still valid. A None
    beside ranges is ignored, because CXF writes both (RM11-SCH-02).

    :raises MessageRefused: the block has more ranges or Nacks than the limit, or more than one Identifier.
    """
    uri = RM_NS[version]
    identifier: str | None = None
    pairs: list[tuple[int | None, int | None]] = []
    nacks: list[int | None] = []
    named = none = final = False
    buffer_remaining = None
    names = {clark(uri, "Identifier"): 0, clark(uri, "AcknowledgementRange"): 1, clark(uri, "Nack"): 2}
    for part in node.children:
        kind = names.get(part.name)
        if kind == 0:
            if named:
                raise refused("more than one Identifier in SequenceAcknowledgement")
            named, identifier = True, document.uri(part) or None
        elif kind == 1:
            pairs.append((whole_number(part.attributes.get("Lower")), whole_number(part.attributes.get("Upper"))))
        elif kind == 2:
            nacks.append(whole_number(part.text))
        elif part.name == _BUFFER_REMAINING:
            remaining = whole_number(part.text)
            buffer_remaining = remaining if remaining is not None and remaining <= _MAX_INT else None  # FC-01
        elif version is RmVersion.RM11:
            none |= part.name == clark(uri, "None")
            final |= part.name == clark(uri, "Final")
    limit = document.limits.max_ranges
    if len(pairs) > limit or len(nacks) > limit:
        raise refused(f"more than {limit} ranges or Nacks in one acknowledgement")
    if version is RmVersion.RM10:
        pairs = [pair for pair in pairs if pair != (0, 0)]  # RM-ACK-04: .NET writes 0-0 if nothing is received yet
    ranges = [(low, high) for low, high in pairs if low and high and low <= high <= MAX_MESSAGE_NUMBER]
    numbers = [number for number in nacks if number and number <= MAX_MESSAGE_NUMBER]
    if identifier is None:
        reason = "the acknowledgement names no sequence"
    elif len(ranges) < len(pairs):
        reason = "the acknowledgement has a range that is none"
    elif len(numbers) < len(nacks):
        reason = "the acknowledgement has a Nack that is no message number"
    elif nacks and (pairs or none or final):
        reason = "the acknowledgement has Nack beside ranges, None or Final"
    else:
        return SequenceAcknowledgement(identifier, merged(ranges), tuple(numbers), final, buffer_remaining)
    return Fault(code=FaultCode.INVALID_ACKNOWLEDGEMENT, reason=reason, identifier=identifier, ranges=_as_given(pairs))


def read_refused_acknowledgement(document: Document, node: Node) -> tuple[str | None, Ranges]:
    """Read the identifier and the invalid ranges in the detail of an InvalidAcknowledgement fault."""
    uri = node.namespace
    identifier = child(node, clark(uri, "Identifier"))
    pairs = [
        (whole_number(part.attributes.get("Lower")), whole_number(part.attributes.get("Upper")))
        for part in node.children[: document.limits.max_ranges]
        if part.name == clark(uri, "AcknowledgementRange")
    ]
    if uri == ns.RM10 and pairs == [(0, 0)]:
        pairs = []
    return (document.uri(identifier) or None if identifier is not None else None), _as_given(pairs)


def read_ack_requested(document: Document, version: RmVersion, node: Node) -> AckRequested | Fault:
    """Read the Identifier of an AckRequested header block (RM10-SCH-03). A block without one is returned as a fault."""
    identifier = child(node, clark(RM_NS[version], "Identifier"))
    uri = document.uri(identifier) if identifier is not None else ""
    return AckRequested(uri) if uri else Fault(code=FaultCode.SENDER, reason="AckRequested names no sequence")


def merged(ranges: list[tuple[int, int]]) -> Ranges:
    """Sort the ranges and merge adjoining ones (RM-ACK-02)."""
    if len(ranges) < 2:
        return tuple(ranges)
    ranges.sort()
    merged = [ranges[0]]
    for low, high in ranges:
        if low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return tuple(merged)


def _as_given(pairs: list[tuple[int | None, int | None]]) -> Ranges:
    limit = 2**64  # above the largest xs:unsignedLong: a fault must be able to repeat the numbers
    return tuple(
        (low, high) for low, high in pairs if low is not None and high is not None and low < limit and high < limit
    )


def _number(parent: Node, name: str) -> int | None:
    node = child(parent, name)
    return None if node is None else whole_number(node.text)


def _expires(parent: Node, uri: str) -> float | None:
    node = child(parent, clark(uri, "Expires"))
    if node is None:
        return None
    try:
        return seconds(node.text)
    except ValueError as error:
        raise refused(f"Expires is {error}") from error


def _behavior(parent: Node, uri: str) -> IncompleteSequenceBehavior:
    node = child(parent, clark(uri, "IncompleteSequenceBehavior"))
    if node is None:
        return IncompleteSequenceBehavior.NO_DISCARD
    try:
        return IncompleteSequenceBehavior(collapse(node.text))
    except ValueError as error:
        raise refused("an IncompleteSequenceBehavior that does not exist") from error


def _extension(parent: Node) -> IncompleteSequenceBehavior | None:
    """Read Mercury's extension IncompleteSequenceBehavior; an unknown value is ignored."""
    node = child(parent, _MERCURY_BEHAVIOR)
    known = {each.value: each for each in IncompleteSequenceBehavior}
    return None if node is None else known.get(collapse(node.text))


def _batch(parent: Node) -> BatchLimits | None:
    """Read Mercury's extension Batch; limits that are none, or that allow only one message, are ignored."""
    node = child(parent, _BATCH)
    if node is None:
        return None
    messages, size = whole_number(node.attributes.get("messages")), whole_number(node.attributes.get("bytes"))
    if messages is None or size is None or messages < 2 or size < 1:
        return None
    return BatchLimits(min(messages, _MAX_INT), min(size, _MAX_INT))


def _store(parent: Node) -> str | None:
    """Read Mercury's extension Store; what cannot be an id is ignored."""
    node = child(parent, _STORE)
    return None if node is None else store_id(collapse(node.text))


def _last_message_number(parent: Node, uri: str) -> int | None:
    name = clark(uri, "LastMsgNumber")
    number = _number(parent, name)
    # CXF writes 0 when it ends a sequence whose last message has not come to it (IOP-CXF-09).
    if number == 0 or (number is None and child(parent, name) is None):
        return None
    if number is None or not 1 <= number <= MAX_MESSAGE_NUMBER:
        raise refused("LastMsgNumber is not a message number")
    return number


def _create_sequence(document: Document, addressing: AddressingVersion | None, node: Node) -> Body:
    uri = node.namespace
    acks_to = child(node, clark(uri, "AcksTo"))
    if acks_to is None:
        raise refused("CreateSequence without AcksTo")
    offer = child(node, clark(uri, "Offer"))
    follows = child(node, _FOLLOWS)
    return CreateSequence(
        acks_to=read_endpoint(document, addressing, acks_to),
        expires=_expires(node, uri),
        offer=None if offer is None else _offer(document, addressing, offer, uri),
        follows=None if follows is None else document.uri(follows) or None,
        mercury_behavior=_extension(node),
        mercury=child(node, _SOURCE) is not None,
        batch=_batch(node),
        oneway=node.name == clark(uri, "CreateSequenceOneway"),
    )


def _offer(document: Document, addressing: AddressingVersion | None, node: Node, uri: str) -> Offer:
    endpoint = child(node, clark(uri, "Endpoint")) if uri == ns.RM11 else None
    if endpoint is None and uri == ns.RM11:
        raise refused("Offer without Endpoint")  # RM11-SCH-05
    return Offer(
        identifier=document.required_uri(node, clark(uri, "Identifier")),
        endpoint=None if endpoint is None else read_endpoint(document, addressing, endpoint),
        expires=_expires(node, uri),
        incomplete_behavior=_behavior(node, uri),
    )


def _create_sequence_response(document: Document, addressing: AddressingVersion | None, node: Node) -> Body:
    uri = node.namespace
    accept = child(node, clark(uri, "Accept"))
    accept_acks_to = None
    if accept is not None:
        acks_to = child(accept, clark(uri, "AcksTo"))
        if acks_to is None:
            raise refused("Accept without AcksTo")
        accept_acks_to = read_endpoint(document, addressing, acks_to)
        if accept_acks_to.none:  # RM-CS-06: CXF refuses an offer like this
            accept_acks_to = None
    return CreateSequenceResponse(
        identifier=document.required_uri(node, clark(uri, "Identifier")),
        expires=_expires(node, uri),
        incomplete_behavior=_behavior(node, uri),
        accept_acks_to=accept_acks_to,
        mercury_behavior=_extension(node),
        batch=_batch(node),
        store=_store(node),
    )


def _close_sequence(document: Document, _: AddressingVersion | None, node: Node) -> Body:
    return CloseSequence(document.required_uri(node, clark(ns.RM11, "Identifier")), _last_message_number(node, ns.RM11))


def _close_sequence_response(document: Document, _: AddressingVersion | None, node: Node) -> Body:
    return CloseSequenceResponse(document.required_uri(node, clark(ns.RM11, "Identifier")))


def _terminate_sequence(document: Document, _: AddressingVersion | None, node: Node) -> Body:
    uri = node.namespace
    last = _last_message_number(node, uri) if uri == ns.RM11 else None
    return TerminateSequence(document.required_uri(node, clark(uri, "Identifier")), last)


def _terminate_sequence_response(document: Document, _: AddressingVersion | None, node: Node) -> Body:
    return TerminateSequenceResponse(document.required_uri(node, clark(ns.RM11, "Identifier")))


def _make_connection(document: Document, _: AddressingVersion | None, node: Node) -> Body:
    """Read MakeConnection (MC-SCH-01); Address and Identifier may be in either order (IOP-SAND-01)."""
    address = child(node, clark(ns.MC, "Address"))
    identifiers = [part for part in node.children if part.name in _IDENTIFIERS]
    if len(identifiers) > 1:
        raise refused("more than one Identifier in MakeConnection")
    known = {clark(ns.MC, "Address"), *_IDENTIFIERS}
    return MakeConnection(
        address=None if address is None else document.uri(address) or None,
        identifier=document.uri(identifiers[0]) or None if identifiers else None,
        unsupported=tuple(dict.fromkeys(part.name for part in node.children if part.name not in known)),
    )


#: The reader for each element of a Body that belongs to the protocols, by its name in Clark notation.
BODY_READERS: Mapping[str, Callable[[Document, AddressingVersion | None, Node], Body]] = MappingProxyType(
    {
        clark(ns.RM10, "CreateSequence"): _create_sequence,
        clark(ns.RM11, "CreateSequence"): _create_sequence,
        clark(ns.RM10, "CreateSequenceOneway"): _create_sequence,  # IOP-CXF-08
        clark(ns.RM11, "CreateSequenceOneway"): _create_sequence,
        clark(ns.RM10, "CreateSequenceResponse"): _create_sequence_response,
        clark(ns.RM11, "CreateSequenceResponse"): _create_sequence_response,
        clark(ns.RM11, "CloseSequence"): _close_sequence,
        clark(ns.RM11, "CloseSequenceResponse"): _close_sequence_response,
        clark(ns.RM10, "TerminateSequence"): _terminate_sequence,
        clark(ns.RM11, "TerminateSequence"): _terminate_sequence,
        clark(ns.RM11, "TerminateSequenceResponse"): _terminate_sequence_response,
        clark(ns.MC, "MakeConnection"): _make_connection,
    }
)


def rm_of_body(node: Node) -> RmVersion | None:
    """The version of WS-RM that the Body's element belongs to (NS-18); ``None`` = it belongs to none."""
    version = RM_VERSION.get(node.namespace)
    if version is None and node.name == clark(ns.MC, "MakeConnection"):
        versions = {RM_VERSION[part.namespace] for part in node.children if part.name in _IDENTIFIERS}
        version = versions.pop() if len(versions) == 1 else None
    return version
