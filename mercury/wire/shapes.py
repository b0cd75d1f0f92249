"""Recognises messages that differ from an earlier one only in a few values, by their bytes.

The messages of a peer have the same header, byte for byte, apart from the MessageID, the identifier of the sequence,
the message number and the ranges of an acknowledgement. A `Shape` is the header of a decoded message with gaps for
these values. A message that has the same bytes around its gaps, and plain values in them, means the same as the earlier
one apart from these values: nothing of its header is parsed again. Its Body is parsed once, by expat, within the
limits. A CreateSequence that offers a sequence, and the response to one, are shapes as a whole: of their Body only the
identifier differs.

`Shape.read` never refuses a message: where it is not certain that the decoder would accept the message, with the same
result, it returns ``None``, and the message is decoded in full. It is certain only if

- each value consists of characters that mean themselves in any XML document, and is within the limits;
- the content of the Body is one element that uses no declaration around it: then it is the same element outside the
  message. Comments, CDATA sections, processing instructions, DOCTYPE and character references are not looked into;
- the element is not one of the protocols, or it is a batch, whose messages are read as in full.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from xml.parsers import expat

from mercury.statemachine.messages import AckRequested, SequenceAcknowledgement, SequenceHeader
from mercury.wire import ns
from mercury.wire.batch import BATCH, read_batch
from mercury.wire.cut import START_TAG, uses
from mercury.wire.envelope import EMPTY, Body, Envelope, MessageBatch, Payload
from mercury.wire.made_names import Making, name_node, named
from mercury.wire.ns import RM_NS, WSA_NS, clark
from mercury.wire.origin import AT, PARENT, SENT, origin_of, shaped
from mercury.wire.read_common import Document, child
from mercury.wire.read_rm import merged
from mercury.wire.scan import Limits, MessageRefused, Node, Scanner

#: The largest header that is kept as a shape, in bytes. Beside it, as much is kept of what was cut out of the message
#: and of what follows its Body, and of the HTTP headers of a kind.
MAX_HEADER = 8 * 1024
#: The longest value in a gap, in bytes. A number has at most 18 digits, so it is in the range of message numbers.
MAX_VALUE = 256
#: Shapes of one kind of messages, and the number of kinds: 13 MB of texts at most, with each header also as it is read.
MAX_SHAPES, MAX_KINDS = 8, 64
#: After so many messages in succession without a known shape, the shape of one of so many is kept.
PATIENCE, SAMPLE = 64, 16

_URI = re.compile(rb"[A-Za-z0-9._:/?#@!$()*+,;=~%-]+")
_NUMBER = re.compile(rb"[1-9][0-9]{0,17}")
_ROOM = re.compile(rb"0|[1-9][0-9]{0,8}")
#: A range as most stacks write it; other forms are part of the shape.
_RANGE = re.compile(rb"<[^\s/>\"'=]+ Lower=\"([1-9][0-9]{0,17})\" Upper=\"([1-9][0-9]{0,17})\"")
#: Bytes of the only namespace that an element may use without its declaration, that of ``xml:lang``, and a separator.
_XML_NAMESPACE = len("http://www.w3.org/XML/1998/namespace") + 1
#: The begin of an element that may be a batch.
_IS_BATCH = re.compile(rb"<[A-Za-z0-9_]+:Batch\s")
#: An element in one of these is read by the decoder.
_PROTOCOLS = frozenset({ns.SOAP11, ns.SOAP12, ns.WSA200408, ns.WSA10, ns.RM10, ns.RM11, ns.MC, ns.MERCURY})
_REMAINING = clark(ns.NETRM, "BufferRemaining")

#: The header blocks of the protocols, by namespace and local name.
Blocks = Mapping[str, Mapping[str, Sequence[Node]]]
#: What a message is read with: the headers Content-Type and SOAPAction, the header blocks that are understood, and
#: whether it came to the address for replies.
Kind = tuple[str, str | None, Collection[str], bool]


@dataclass(frozen=True, slots=True)
class Gap:
    """The place of one value."""

    #: What the value must match as a whole.
    pattern: re.Pattern[bytes]
    #: The bytes after the value, up to the next one.
    after: bytes


@dataclass(frozen=True, slots=True)
class Shape:
    """The bytes of a message around its values. The places of the values are indexes of ``gaps``."""

    before: bytes
    gaps: tuple[Gap, ...]
    #: The bytes after the content of the Body; ``None`` = the last gap ends the message.
    tail: bytes | None
    #: An earlier message: everything of a message of this shape that is not in a gap. It has no Body, unless that has a
    #: gap.
    envelope: Envelope
    message_id: int | None
    relates_to: int | None
    sequence: tuple[int, int] | None
    ack_request: int | None
    #: The places of the time when it was sent, and of its traceparent.
    origin: tuple[int | None, int | None] | None
    #: The places of the identifier, of each lower and upper bound, and of BufferRemaining.
    acknowledgement: tuple[int, tuple[tuple[int, int], ...], int | None] | None
    #: The place of the identifier that the Body gives.
    made: int | None
    #: The prefixes declared around the content of the Body, each also with a colon.
    prefixes: tuple[tuple[str, bytes], ...]
    #: The limits that the header leaves to the content of the Body.
    limits: Limits

    def read(self, data: bytes) -> Envelope | None:
        """The message ``data``; ``None`` = it has another shape, or must be decoded in full.

        :param data: at most as many bytes as one message may have.
        """
        before = self.before
        if not data.startswith(before):
            return None
        at = len(before)
        values: list[str] = []
        for gap in self.gaps:
            after = gap.after
            end = data.find(after[:1], at, at + MAX_VALUE + 1)
            if end < 0 or not data.startswith(after, end):
                return None
            value = data[at:end]
            if gap.pattern.fullmatch(value) is None:
                return None
            values.append(value.decode("ascii"))
            at = end + len(after)
        tail = self.tail
        if tail is None:
            made = self.made
            of_known = self.envelope.body if made is None else named(self.envelope.body, values[made])
            body: Body | None = of_known if at == len(data) else None
        elif data.endswith(tail) and len(data) - len(tail) >= at:
            body = self._content(data[at : len(data) - len(tail)].strip(b" \t\r\n"), values)
        else:
            return None
        return None if body is None else self._filled(values, body)

    def _content(self, xml: bytes, values: Sequence[str]) -> Body | None:
        """The content of the Body; ``None`` = the decoder must read it, or refuses it.

        :param values: those of the gaps.
        """
        if not xml:
            return EMPTY
        # Expat detects UTF-16 and skips a byte order mark at the start of a document, whatever encoding it is given.
        if xml[:1] != b"<" or xml[1:2] == b"\0" or b"<!" in xml or b"<?" in xml or b"&#" in xml:
            return None
        for prefix, needle in self.prefixes:
            if needle in xml and uses(xml, prefix):
                return None
        if _IS_BATCH.match(xml) is not None and (batch := self._batch(xml, values)) is not None:
            return batch
        name = self._root(xml)
        namespace, brace, _ = ("" if name is None else name).rpartition("}")
        if name is None or namespace in _PROTOCOLS:
            return None
        return Payload(xml, "{" + name if brace else name)

    def _batch(self, xml: bytes, values: Sequence[str]) -> MessageBatch | None:
        """The batch; ``None`` = it is none, or the decoder must read it."""
        known = self.envelope
        if self.sequence is None or known.sequence is None:
            return None
        if known.headers:  # they are cut out, within a limit on all that is
            return None
        identifier, number = self.sequence
        header = SequenceHeader(values[identifier], int(values[number]), known.sequence.last)
        try:
            root = Scanner(xml, self.limits, levels=1, container=BATCH).run()
            return read_batch(Document(xml, self.limits), known.soap, header, root)  # another element has no messages
        except MessageRefused:
            return None

    def _root(self, xml: bytes) -> str | None:
        """The name of a well-formed element within the limits, as expat gives it; ``None`` = it is not one."""
        limits = self.limits
        elements, attributes = xml.count(b"<") - xml.count(b"</"), xml.count(b"=")
        if (
            elements > min(limits.max_depth, limits.max_elements)
            or attributes > min(limits.max_attributes, limits.max_total_attributes)
            or len(xml) + _XML_NAMESPACE > limits.max_name_length
        ):
            try:
                return Scanner(xml, limits, levels=1).run().name.removeprefix("{")
            except MessageRefused:
                return None
        # So few elements and attributes exceed no limit, however they are nested: only the first one is looked at.
        parser = expat.ParserCreate("UTF-8", "}")
        names: list[str] = []

        def start(name: str, _attributes: object) -> None:
            names.append(name)
            parser.StartElementHandler = None

        parser.StartElementHandler = start
        try:
            parser.Parse(xml, True)
        except expat.ExpatError:
            return None
        finally:
            parser.StartElementHandler = None  # it refers to the parser; this frees both now
        return names[0]

    def _filled(self, values: Sequence[str], body: Body) -> Envelope | None:
        """The message with these values; ``None`` = a range is none."""
        known = self.envelope
        sequence, acknowledgements = known.sequence, known.acknowledgements
        if self.sequence is not None and sequence is not None:
            identifier, number = self.sequence
            sequence = SequenceHeader(values[identifier], int(values[number]), sequence.last)
        if self.acknowledgement is not None:
            identifier, bounds, remaining = self.acknowledgement
            ranges = [(int(values[low]), int(values[high])) for low, high in bounds]
            if any(low > high for low, high in ranges):
                return None
            room = known.acknowledgements[0].buffer_remaining if remaining is None else int(values[remaining])
            final = known.acknowledgements[0].final
            acknowledgements = (SequenceAcknowledgement(values[identifier], merged(ranges), (), final, room),)
        origin = known.origin
        if self.origin is not None:
            at, parent = self.origin
            origin = origin_of(None if at is None else values[at], None if parent is None else values[parent])
        return Envelope(
            soap=known.soap,
            addressing=known.addressing,
            rm=known.rm,
            action=known.action,
            to=known.to,
            message_id=known.message_id if self.message_id is None else values[self.message_id],
            relates_to=known.relates_to if self.relates_to is None else values[self.relates_to],
            reply_to=known.reply_to,
            fault_to=known.fault_to,
            from_=known.from_,
            sequence=sequence,
            acknowledgements=acknowledgements,
            ack_requests=known.ack_requests if self.ack_request is None else (AckRequested(values[self.ack_request]),),
            message_pending=known.message_pending,
            origin=origin,
            headers=known.headers,
            body=body,
        )


def shape_of(data: bytes, envelope: Envelope, blocks: Blocks, body: Node, limits: Limits) -> Shape | None:
    """The shape of a message that was decoded; ``None`` = it has none.

    :param data: the message as it was received: in UTF-8, without a byte order mark.
    :param blocks: its header blocks of the protocols, by namespace and local name.
    :param body: its Body element.
    """
    content, made = envelope.body, isinstance(envelope.body, Making)
    if envelope.mtom or envelope.problems or not (made or isinstance(content, (Payload, MessageBatch))):
        return None
    if isinstance(content, Payload) and content.is_fault:
        return None
    tag = START_TAG.match(data, body.start)
    assert tag is not None  # the document is well-formed
    declared = body.scope.all()
    if tag.end() > MAX_HEADER or declared.get("") or limits.max_depth < 3 or limits.max_uri_length < MAX_VALUE:
        return None
    places = [*_places(data, envelope, blocks)]
    if isinstance(content, Making):
        node, identifier = name_node(content, body)
        given = _text(data, node, "made", identifier or "")
        if not given or len(data) > MAX_HEADER:
            return None
        places += given
    sent = blocks.get(ns.MERCURY, {}).get(SENT, [])
    if sent:
        differing = shaped(data, sent[0]) if len(sent) == 1 else None
        if differing is None:
            return None
        places += differing
    places.sort(key=lambda place: place[0])
    if not places:
        return None
    order = {name: index for index, (_, _, name, _) in enumerate(places)}
    empty = made or tag[0].endswith(b"/>")
    until = len(data) if empty else tag.end()
    ends = [start for start, *_ in places[1:]] + [until]
    gaps = tuple(Gap(pattern, data[end:after]) for (_, end, _, pattern), after in zip(places, ends, strict=True))
    header, tail = data[:until], data[body.end :]
    elements, attributes = header.count(b"<") - header.count(b"</"), header.count(b"=")
    if (
        not gaps
        or len(tail) + envelope.cut_out > MAX_HEADER
        or limits.max_elements <= elements
        or limits.max_total_attributes <= attributes
    ):
        return None
    ranges = tuple((order[f"low {at}"], order[f"high {at}"]) for at in range(len(places)) if f"low {at}" in order)
    acknowledged = order.get("acknowledged")
    return Shape(
        before=data[: places[0][0]],
        gaps=gaps,
        tail=None if empty else tail,
        envelope=envelope if made else replace(envelope, body=EMPTY),
        message_id=order.get("MessageID"),
        relates_to=order.get("RelatesTo"),
        sequence=(order["Identifier"], order["MessageNumber"]) if "Identifier" in order else None,
        ack_request=order.get("requested"),
        origin=(order.get(AT), order.get(PARENT)) if sent else None,
        acknowledgement=None if acknowledged is None else (acknowledged, ranges, order.get("remaining")),
        made=order.get("made"),
        prefixes=tuple((prefix, prefix.encode() + b":") for prefix in declared if prefix),
        limits=replace(
            limits,
            max_depth=limits.max_depth - 2,
            max_elements=limits.max_elements - elements,
            max_total_attributes=limits.max_total_attributes - attributes,
            max_uri_length=MAX_VALUE,  # no URI of the protocols is in the content
        ),
    )


#: The start and the end of a value, its name in `shape_of`, and its pattern.
Place = tuple[int, int, str, re.Pattern[bytes]]


def _places(data: bytes, envelope: Envelope, blocks: Blocks) -> Iterator[Place]:
    """The places of the values that may differ. Where a value is not written plainly, it is a part of the shape."""
    addressing = blocks.get(WSA_NS[envelope.addressing], {}) if envelope.addressing is not None else {}
    for name, value in (("MessageID", envelope.message_id), ("RelatesTo", envelope.relates_to)):
        nodes = addressing.get(name, [])
        if len(nodes) == 1 and value is not None:
            yield from _text(data, nodes[0], name, value)
    if envelope.rm is None:
        return
    uri = RM_NS[envelope.rm]
    reliable = blocks.get(uri, {})
    if envelope.sequence is not None:
        header = reliable["Sequence"][0]
        found = _text(data, child(header, clark(uri, "Identifier")), "Identifier", envelope.sequence.identifier)
        number = child(header, clark(uri, "MessageNumber"))
        found += _text(data, number, "MessageNumber", str(envelope.sequence.message_number), _NUMBER)
        yield from found if len(found) == 2 else ()
    if len(requests := reliable.get("AckRequested", [])) == 1:
        requested = child(requests[0], clark(uri, "Identifier"))
        yield from _text(data, requested, "requested", envelope.ack_requests[0].identifier)
    if len(blocks_of_acks := reliable.get("SequenceAcknowledgement", [])) == 1:
        yield from _acknowledged(data, envelope.acknowledgements[0], uri, blocks_of_acks[0])


def _acknowledged(data: bytes, read: SequenceAcknowledgement, uri: str, node: Node) -> list[Place]:
    """The places in a SequenceAcknowledgement; none if one of its values is not written as usual."""
    named = [part for part in node.children if part.name == clark(uri, "Identifier")]
    places = _text(data, named[0], "acknowledged", read.identifier) if len(named) == 1 else []
    if not places or read.nacks:
        return []
    count = 0
    for part in node.children:
        if part.name == clark(uri, "AcknowledgementRange"):
            written = _RANGE.match(data, part.start)
            if written is None:
                return []
            places += [(*written.span(1), f"low {count}", _NUMBER), (*written.span(2), f"high {count}", _NUMBER)]
            count += 1
    remaining = [part for part in node.children if part.name == _REMAINING]
    if len(remaining) == 1 and read.buffer_remaining is not None:
        places += _text(data, remaining[0], "remaining", str(read.buffer_remaining), _ROOM)
    return places if len(remaining) < 2 else []


def _text(data: bytes, node: Node | None, name: str, value: str, pattern: re.Pattern[bytes] = _URI) -> list[Place]:
    """The place of the text of an element, if it is written plainly."""
    if node is None or (tag := START_TAG.match(data, node.start)) is None:
        return []
    start, end = tag.end(), node.end
    plain = data[start:end] == value.encode() and pattern.fullmatch(data, start, end) is not None
    return [(start, end, name, pattern)] if plain and end - start <= MAX_VALUE else []


class Shapes:
    """The shapes of the messages that a process has decoded. Thread-safe, and of bounded size.

    :param limits: the limits of each message.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._mutex = threading.Lock()
        #: By what the result depends on besides the bytes of the message: see `Kind`. The newest shape is first.
        self._known: dict[Kind, tuple[Shape, ...]] = {}
        #: Messages without a known shape since the last one with a known shape.
        self._unknown = 0

    def read(self, kind: Kind, data: bytes) -> Envelope | None:
        """A message of a known shape; ``None`` = it must be decoded in full."""
        if len(data) <= self._limits.max_bytes:
            for shape in self._known.get(kind, ()):
                envelope = shape.read(data)
                if envelope is not None:
                    self._unknown = 0
                    return envelope
        self._unknown += 1
        return None

    @property
    def wanted(self) -> bool:
        """Whether the shape of the next message should be added: if no message has a known shape, of few ones only."""
        return self._unknown <= PATIENCE or self._unknown % SAMPLE == 0

    def add(self, kind: Kind, shape: Shape) -> None:
        """Add a shape, unless the HTTP headers of its kind are too large."""
        if sum(len(text or "") for text in kind[:2]) > MAX_HEADER:
            return
        with self._mutex:
            known = self._known.get(kind, ())
            if shape in known:
                return
            if kind not in self._known and len(self._known) >= MAX_KINDS:
                del self._known[next(iter(self._known))]
            self._known[kind] = (shape, *known[: MAX_SHAPES - 1])
