"""Batches, Mercury's extension: several messages of one sequence in one SOAP message.

The header blocks are those of each message. The Body has the messages, each with its MessageID, and with its action
unless it is that of the batch. The bytes of their bodies are those of single messages: see `cut`.
"""

from __future__ import annotations

from collections import Counter

from mercury.statemachine.faults import Fault, FaultCode
from mercury.statemachine.messages import SequenceHeader
from mercury.statemachine.protocol import MAX_MESSAGE_NUMBER, SoapVersion
from mercury.wire import ns
from mercury.wire.cut import free_prefix, searchable
from mercury.wire.envelope import EMPTY, BatchedMessage, MessageBatch, Payload
from mercury.wire.ns import SOAP_NS, clark
from mercury.wire.origin import read_origin, write_attributes
from mercury.wire.read_common import Document
from mercury.wire.scan import MessageRefused, Node, refused
from mercury.wire.values import BLANKS, collapse, escape_attribute, exact_duration, exact_seconds

BATCH = clark(ns.MERCURY, "Batch")
_MESSAGE = clark(ns.MERCURY, "Message")
#: Bytes of the other header blocks of a batch, in all: they are stored with each of its messages. Mercury sends no
#: message with such blocks in a batch; an intermediary may add a small one.
MAX_HEADER_BYTES = 1024
#: The attribute of a message with the time when it was sent.
_SENT = "sent"


def bodies_of(batch: MessageBatch) -> bytes:
    """The bodies of all messages, one after the other."""
    return b"".join([message.payload.xml for message in batch.messages])


def write_batch(batch: MessageBatch) -> bytes:
    """Write the element Batch."""
    m = free_prefix("m", [searchable(bodies_of(batch))])
    action = Counter(message.action for message in batch.messages).most_common(1)[0][0]
    opening, end = f'<{m}:Message id="', f"</{m}:Message>".encode()
    written = [f'<{m}:Batch xmlns:{m}="{ns.MERCURY}" action="{escape_attribute(action)}">'.encode()]
    for message in batch.messages:
        start = f'{opening}{escape_attribute(message.message_id)}"'
        if message.action != action:
            start += f' action="{escape_attribute(message.action)}"'
        if message.relates_to is not None:
            start += f' relatesTo="{escape_attribute(message.relates_to)}"'
        if message.expires_in is not None:
            start += f' expires="{exact_duration(message.expires_in)}"'
        if message.origin is not None:
            start += write_attributes(message.origin, _SENT)
        written += ((start + ">").encode(), message.payload.xml, end)
    written.append(f"</{m}:Batch>".encode())
    return b"".join(written)


def read_batch(document: Document, soap: SoapVersion, sequence: SequenceHeader | None, node: Node) -> MessageBatch:
    """Read the element Batch.

    :param sequence: the Sequence header block of its envelope.
    :raises MessageRefused: the batch is empty or outside any sequence, an element does not belong into it, a message
        has no MessageID, no action or more than one body, or a number is above 2^63-1, with the fault
        MessageNumberRollover.
    """
    if sequence is None:
        raise refused("a batch outside any sequence")
    if sequence.last:
        raise refused("a batch with LastMessage")
    if not node.children or node.text.strip(BLANKS):
        raise refused("a batch without messages, or with text between them")
    if sequence.message_number + len(node.children) - 1 > MAX_MESSAGE_NUMBER:
        raise MessageRefused(
            Fault(
                code=FaultCode.MESSAGE_NUMBER_ROLLOVER,
                reason="a message number of the batch is above the highest there is",
                identifier=sequence.identifier,
                max_message_number=MAX_MESSAGE_NUMBER,
            )
        )
    action = _uri(document, node, "action") or ""
    return MessageBatch(
        tuple([_message(document, clark(SOAP_NS[soap], "Fault"), action, each) for each in node.children])
    )


def _message(document: Document, fault: str, action: str, node: Node) -> BatchedMessage:
    if node.name != _MESSAGE or len(node.children) > 1 or node.text.strip(BLANKS):
        raise refused("a batch has elements Message, each with one element at most, and nothing else")
    message_id = _uri(document, node, "id")
    if not message_id:
        raise refused("a message of a batch without MessageID")
    named, relates_to = _uri(document, node, "action") or action, _uri(document, node, "relatesTo")
    if not named:  # a stored message without action is not for the application
        raise refused("a message of a batch without action")
    body, expires = _body(document, fault, node), node.attributes.get("expires")
    origin = read_origin(node.attributes, _SENT)
    return BatchedMessage(message_id, named, body, relates_to or None, expires_in(expires), origin)


def expires_in(text: str | None) -> float | None:
    """The seconds of a time to live; ``None`` = there is none, or it cannot be read: the message is delivered then."""
    try:
        return None if text is None else exact_seconds(text)
    except ValueError:
        return None


def _body(document: Document, fault: str, node: Node) -> Payload:
    if not node.children:
        return EMPTY
    body = node.children[0]
    if body.name == BATCH:
        raise refused("a batch in a batch")
    return Payload(document.cut(body), body.name, is_fault=body.name == fault)


def _uri(document: Document, node: Node, name: str) -> str | None:
    """The URI in an attribute of Mercury's; ``None`` = the attribute is absent.

    :raises MessageRefused: the URI is longer than the limit.
    """
    value = node.attributes.get(name)
    if value is None:
        return None
    value, limit = collapse(value), document.limits.max_uri_length
    if len(value) > limit // 4 and len(value.encode()) > limit:
        raise refused(f"{name} is longer than {limit} bytes")
    return value
