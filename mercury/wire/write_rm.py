"""Writes the Body of WS-ReliableMessaging and WS-MakeConnection messages (docs/protocol.md, sections 3 to 7 and 11).

Children are written in the order of the schemas. An element that a version does not have is not written (SCH-02).
"""

from __future__ import annotations

from mercury.statemachine.messages import (
    BatchLimits,
    CloseSequence,
    CloseSequenceResponse,
    CreateSequence,
    CreateSequenceResponse,
    IncompleteSequenceBehavior,
    MakeConnection,
    Offer,
    TerminateSequence,
    TerminateSequenceResponse,
)
from mercury.statemachine.protocol import RmVersion
from mercury.wire import ns
from mercury.wire.ns import RmMessage, rm_action
from mercury.wire.values import duration, escape
from mercury.wire.write_common import Style

RmBody = (
    CreateSequence
    | CreateSequenceResponse
    | CloseSequence
    | CloseSequenceResponse
    | TerminateSequence
    | TerminateSequenceResponse
)


def write_rm_body(style: Style, body: RmBody) -> str:
    """Write the element for ``body``.

    :raises ValueError: the envelope has no version of WS-RM, or its version does not have this message.
    """
    if style.rm is None:
        raise ValueError(f"{type(body).__name__} in an envelope without a version of WS-ReliableMessaging")
    rm_action(style.rm, RmMessage(type(body).__name__))  # raises if the version does not have the message
    match body:
        case CreateSequence():
            content = _create_sequence(style, body)
        case CreateSequenceResponse():
            content = _create_sequence_response(style, body)
        case CloseSequence() | TerminateSequence():
            content = style.identifier(body.identifier)
            if body.last_message_number is not None and style.rm is RmVersion.RM11:
                content += f"<{style.wsrm}:LastMsgNumber>{body.last_message_number}</{style.wsrm}:LastMsgNumber>"
        case CloseSequenceResponse() | TerminateSequenceResponse():
            content = style.identifier(body.identifier)
    oneway = isinstance(body, CreateSequence | CreateSequenceResponse) and body.oneway
    name = f"{style.wsrm}:{type(body).__name__}{'Oneway' if oneway else ''}"
    return f"<{name}>{content}</{name}>"


def write_make_connection(style: Style, body: MakeConnection) -> str:
    """Write MakeConnection (MC-SCH-01): the Identifier of WS-RM follows Address."""
    written = f'<wsmc:MakeConnection xmlns:wsmc="{ns.MC}">'
    if body.address is not None:
        written += f"<wsmc:Address>{style.address(body.address)}</wsmc:Address>"
    if body.identifier is not None:
        written += style.identifier(body.identifier)
    return written + "</wsmc:MakeConnection>"


def _create_sequence(style: Style, body: CreateSequence) -> str:
    wsrm = style.wsrm
    written = f"<{wsrm}:AcksTo>{style.endpoint(body.acks_to)}</{wsrm}:AcksTo>" + _expires(style, body.expires)
    if body.offer is not None:
        written += _offer(style, body.offer, body)
    if body.follows is not None:
        written += f'<m:Follows xmlns:m="{ns.MERCURY}">{escape(body.follows)}</m:Follows>'
    if body.mercury:
        written += f'<m:Source xmlns:m="{ns.MERCURY}"/>'
    return written + _extension(style, body.mercury_behavior) + _batch(body.batch)


def _offer(style: Style, offer: Offer, body: CreateSequence) -> str:
    wsrm = style.wsrm
    written = f"<{wsrm}:Offer>" + style.identifier(offer.identifier)
    if style.rm is RmVersion.RM11:
        # RM11-SCH-05 requires an Endpoint; RM-CS-09: peers expect it to be equal to AcksTo.
        written += f"<{wsrm}:Endpoint>{style.endpoint(offer.endpoint or body.acks_to)}</{wsrm}:Endpoint>"
    written += _expires(style, offer.expires)
    if style.rm is RmVersion.RM11:
        written += _behavior(style, offer.incomplete_behavior.value)
    return written + f"</{wsrm}:Offer>"


def _create_sequence_response(style: Style, body: CreateSequenceResponse) -> str:
    wsrm = style.wsrm
    written = style.identifier(body.identifier) + _expires(style, body.expires)
    if style.rm is RmVersion.RM11:
        written += _behavior(style, body.incomplete_behavior.value)
    if body.accept_acks_to is not None:
        acks_to = style.endpoint(body.accept_acks_to)
        written += f"<{wsrm}:Accept><{wsrm}:AcksTo>{acks_to}</{wsrm}:AcksTo></{wsrm}:Accept>"
    return written + _extension(style, body.mercury_behavior) + _batch(body.batch) + _store(body.store)


def _expires(style: Style, expires: float | None) -> str:
    """Write Expires; without it the sequence does not expire (RM-CS-11)."""
    return "" if expires is None else f"<{style.wsrm}:Expires>{duration(expires)}</{style.wsrm}:Expires>"


def _behavior(style: Style, behavior: str) -> str:
    wsrm = style.wsrm
    return f"<{wsrm}:IncompleteSequenceBehavior>{behavior}</{wsrm}:IncompleteSequenceBehavior>"


def _extension(style: Style, behavior: IncompleteSequenceBehavior | None) -> str:
    """Write Mercury's extension in a separate namespace: some peers refuse the standard's element (LIVE-04)."""
    if behavior is None or style.rm is not RmVersion.RM11:
        return ""
    name = "m:IncompleteSequenceBehavior"
    return f'<{name} xmlns:m="{ns.MERCURY}">{behavior.value}</{name}>'


def _batch(limits: BatchLimits | None) -> str:
    """Write Mercury's extension Batch: the limits of the batches that the sender of the message takes."""
    if limits is None:
        return ""
    return f'<m:Batch xmlns:m="{ns.MERCURY}" messages="{limits.messages}" bytes="{limits.size}"/>'


def _store(store: str | None) -> str:
    """Write Mercury's extension Store: the id of the destination's store."""
    return "" if store is None else f'<m:Store xmlns:m="{ns.MERCURY}">{escape(store)}</m:Store>'
