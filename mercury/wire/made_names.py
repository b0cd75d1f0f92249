"""The identifiers that CreateSequence and its response give to sequences, as values that differ between messages.

All else in them is the same for each sequence of a peer: see `mercury.wire.shapes`.
"""

from __future__ import annotations

from dataclasses import replace

from mercury.statemachine.messages import CreateSequence, CreateSequenceResponse
from mercury.wire.envelope import Body
from mercury.wire.ns import clark
from mercury.wire.read_common import child
from mercury.wire.scan import Node

#: What makes a sequence, or answers that.
Making = CreateSequence | CreateSequenceResponse


def name_node(making: Making, body: Node) -> tuple[Node | None, str | None]:
    """The element with the identifier that a message gives, and the identifier.

    ``None`` = it gives none, or has another value that differs between sequences.

    :param body: the Body element of the message.
    """
    element = body.children[0]
    identifier = clark(element.namespace, "Identifier")
    if isinstance(making, CreateSequenceResponse):
        return child(element, identifier), making.identifier
    offer = child(element, clark(element.namespace, "Offer"))
    if offer is None or making.offer is None or making.follows is not None:
        return None, None
    return child(offer, identifier), making.offer.identifier


def named(making: Body, identifier: str) -> Body:
    """The body with another identifier."""
    if isinstance(making, CreateSequenceResponse):
        return replace(making, identifier=identifier)
    assert isinstance(making, CreateSequence)
    assert making.offer is not None
    return replace(making, offer=replace(making.offer, identifier=identifier))
