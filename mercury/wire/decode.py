"""Decodes the bytes of an HTTP message to an `Envelope`, or raises `Undecodable` with the fault for the sender.

The order of the checks is that of SOAP: well-formed and within the limits, version, mustUnderstand, WS-Addressing,
WS-ReliableMessaging, Body. The decoder accepts the different forms that peers write. It refuses a message that has more
than one meaning: two actions, two versions, two Identifiers.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from types import MappingProxyType

from mercury.statemachine.faults import Fault, FaultCode
from mercury.statemachine.messages import AckRequested, SequenceAcknowledgement, SequenceHeader
from mercury.statemachine.protocol import AddressingVersion, RmVersion, SoapVersion
from mercury.wire import ns
from mercury.wire.attachment import LargePart
from mercury.wire.batch import BATCH, MAX_HEADER_BYTES, expires_in, read_batch
from mercury.wire.envelope import EMPTY, Body, Envelope, Payload, Undecodable
from mercury.wire.media import ContentType, Package, is_plain_utf8, read_content_type, to_utf8
from mercury.wire.ns import RM_VERSION, SOAP_NS, SOAP_VERSION, WSA_VERSION, clark
from mercury.wire.origin import SENT, read_origin
from mercury.wire.read_addressing import Addressing, action_required, mixed, read_addressing
from mercury.wire.read_common import Document
from mercury.wire.read_fault import read_fault
from mercury.wire.read_rm import BODY_READERS, read_ack_requested, read_acknowledgement, read_sequence, rm_of_body
from mercury.wire.scan import DEFAULT_LIMITS, Limits, MessageRefused, Node, Scanner, refused
from mercury.wire.shapes import Kind, Shape, Shapes, shape_of
from mercury.wire.spool import Spool
from mercury.wire.values import BLANKS, boolean, collapse
from mercury.wire.xop import Unpackable, Unpacked, unpack

#: The namespaces of the protocols. Their elements are read; all others belong to the application and are cut out.
_PROTOCOLS = frozenset({ns.SOAP11, ns.SOAP12, ns.WSA200408, ns.WSA10, ns.RM10, ns.RM11, ns.MC})

#: Header blocks that are read here, by name. UsesSequenceSTR and UsesSequenceSSL are not understood (RM11-CS-16).
_UNDERSTOOD = frozenset(
    clark(uri, local)
    for uris, locals_ in (
        (WSA_VERSION, ("To", "Action", "MessageID", "RelatesTo", "From", "ReplyTo", "FaultTo", "FaultDetail")),
        (RM_VERSION, ("Sequence", "SequenceAcknowledgement", "AckRequested", "SequenceFault")),
        ((ns.MC,), ("MessagePending",)),
        ((ns.MERCURY,), ("Expires", SENT)),
        ((ns.SOAP12,), ("NotUnderstood", "Upgrade")),
    )
    for uri in uris
    for local in locals_
)

#: The attribute for the role, and the roles of Mercury, per version (FLT-15); "" = the attribute is absent.
_ROLE: Mapping[str, tuple[str, frozenset[str]]] = MappingProxyType(
    {
        ns.SOAP11: (clark(ns.SOAP11, "actor"), frozenset({"", "http://schemas.xmlsoap.org/soap/actor/next"})),
        ns.SOAP12: (
            clark(ns.SOAP12, "role"),
            frozenset({"", ns.SOAP12 + "/role/next", ns.SOAP12 + "/role/ultimateReceiver"}),
        ),
    }
)
#: Ranges and Nacks of all acknowledgements of one message: so many times the limit on those of one.
ACKNOWLEDGEMENTS = 4

_IS_REFERENCE_PARAMETER = clark(ns.WSA10, "IsReferenceParameter")


def decode(
    data: bytes | Spool,
    content_type: str,
    soap_action: str | None = None,
    *,
    limits: Limits = DEFAULT_LIMITS,
    understands: Collection[str] = (),
    replies: bool = False,
    shapes: Shapes | None = None,
) -> Envelope:
    """Read one SOAP message.

    Header blocks that repeat reference parameters stay in ``headers``; they do not become parameters of ``to``.

    :param data: the body of the HTTP request or response. Of an MTOM message in a file, the large parts are not read;
        the envelope refers to them while the file is open.
    :param content_type: its Content-Type header; "" = unknown.
    :param soap_action: its SOAPAction header with or without quotes; ``None`` or "" = no action is given (WSA-09).
    :param limits: the limits of the message.
    :param understands: names in Clark notation of the header blocks that the caller or the application understands.
    :param replies: the message came to the address for replies. A message with RelatesTo is then accepted even if
        HTTP gives another action than wsa:Action (WSA-09: Metro posts a placeholder).
    :param shapes: the shapes of earlier messages with the same limits, to which this one's is added; the result is the
        same without them.
    :raises Undecodable: the message cannot be used. The error has the fault for the sender, and the versions and the
        MessageID for a reply, as far as they could be read.
    """
    kind: Kind = (content_type, soap_action, frozenset(understands), replies)
    if shapes is not None and isinstance(data, bytes):
        known = shapes.read(kind, data)
        if known is not None:
            return known
    reading = _Reading(limits=limits, understands=understands, replies=replies)
    try:
        envelope = reading.envelope(data, content_type, soap_action)
    except MessageRefused as error:
        raise Undecodable(
            error.fault,
            soap=reading.soap,
            addressing=reading.addressing,
            rm=reading.rm,
            message_id=reading.message_id,
        ) from error
    if shapes is not None and shapes.wanted and (shape := reading.shape(data, envelope)) is not None:
        shapes.add(kind, shape)
    return envelope


@dataclass(slots=True, kw_only=True)
class _Reading:
    """One message while it is read. Its versions and MessageID are kept for the fault if a later step fails."""

    limits: Limits
    understands: Collection[str]
    replies: bool
    soap: SoapVersion = SoapVersion.SOAP11
    addressing: AddressingVersion | None = None
    rm: RmVersion | None = None
    message_id: str | None = None
    #: The Fault element of a message outside any sequence.
    fault: Payload | None = None
    #: The message is an MTOM message.
    mtom: bool = False
    #: The parts of an MTOM message that are not in its envelope.
    parts: tuple[LargePart, ...] = ()
    #: Header blocks of the protocols that are for this node, by namespace and local name; all other header blocks; and
    #: the name of the first block with mustUnderstand that is not understood.
    blocks: dict[str, dict[str, list[Node]]] = field(default_factory=dict)
    others: list[Node] = field(default_factory=list)
    not_understood: str | None = None
    #: The charset of the Content-Type, and the Body.
    charset: str | None = None
    body: Node | None = None

    def shape(self, data: bytes | Spool, envelope: Envelope) -> Shape | None:
        """The shape of the message that was read; ``None`` = it has none."""
        if self.body is None or self.mtom or not isinstance(data, bytes) or not is_plain_utf8(data, self.charset):
            return None
        if envelope.expires_in is not None:  # it differs from message to message
            return None
        return shape_of(data, envelope, self.blocks, self.body, self.limits)

    def envelope(self, data: bytes | Spool, content_type: str, soap_action: str | None) -> Envelope:
        kind = read_content_type(content_type)
        self.soap = kind.soap or self.soap
        if isinstance(data, Spool) and kind.package is None:
            data = data[: self.limits.max_bytes + 1]  # only the parts of an MTOM message may stay in a file
        most = self.limits.largest if isinstance(data, Spool) else self.limits.max_bytes
        if len(data) > most:
            raise refused(f"the message is larger than {most} bytes")
        if kind.package is not None:
            self.mtom = True
            unpacked = self._unpacked(data, kind, kind.package)
            data, kind, self.parts = unpacked.envelope, unpacked.kind, unpacked.parts
        assert isinstance(data, bytes)
        self.charset = kind.charset
        document = Document(to_utf8(data, kind.charset), self.limits)
        scanner = Scanner(document.data, self.limits, levels=3, inside=_PROTOCOLS, container=BATCH)
        try:
            header, self.body = self._frame(scanner.run())
        except MessageRefused:
            self._read_versions(document, scanner.root)
            raise
        if header is not None:
            self._sort(document, header)
        self._check_versions(self.body)
        addressing = self._addressing(document, _http_actions(kind, soap_action))
        return self._assemble(document, addressing, self.body)

    def _unpacked(self, data: bytes | Spool, kind: ContentType, package: Package) -> Unpacked:
        try:
            return unpack(data, kind, package, self.limits)
        except Unpackable as error:  # for the fault, the envelope is read without its parts
            document = Document(error.root, self.limits)
            scanner = Scanner(document.data, self.limits, levels=3, inside=_PROTOCOLS, container=BATCH)
            with suppress(MessageRefused):
                scanner.run()
            self._read_versions(document, scanner.root)
            raise

    def _read_versions(self, document: Document, root: Node | None) -> None:
        """Read the versions and the MessageID from the part of the message before its first error."""
        try:
            if root is not None:
                self.soap = SOAP_VERSION.get(root.namespace, self.soap)
                for part in root.children[:1]:
                    if part.name == clark(SOAP_NS[self.soap], "Header"):
                        self._sort(document, part)
        except MessageRefused:
            pass  # the caller raises the first error

    def _frame(self, root: Node) -> tuple[Node | None, Node]:
        """The Header, if there is one, and the Body."""
        version = SOAP_VERSION.get(root.namespace)
        if root.local != "Envelope":
            raise refused("not a SOAP envelope")
        if version is None:
            raise MessageRefused(Fault(code=FaultCode.VERSION_MISMATCH, reason="neither SOAP 1.1 nor SOAP 1.2"))
        self.soap = version
        uri = SOAP_NS[version]
        names = [part.name for part in root.children]
        if names not in ([clark(uri, "Header"), clark(uri, "Body")], [clark(uri, "Body")]):
            raise refused("an Envelope has at most one Header, then one Body, and nothing else")
        for node in (root, *root.children):
            if node.text.strip(BLANKS):
                raise refused(f"text between the elements of the {node.local}")
        body = root.children[-1]
        if len(body.children) > 1:
            raise refused("more than one element in the Body")
        return (root.children[0] if len(names) == 2 else None), body

    def _sort(self, document: Document, header: Node) -> None:
        """Sort the header blocks into ``blocks`` and ``others``, and set the versions that their namespaces name."""
        role, ours = _ROLE[SOAP_NS[self.soap]]
        must_understand = clark(SOAP_NS[self.soap], "mustUnderstand")
        for block in header.children:
            known = block.name in _UNDERSTOOD
            if attributes := block.attributes:
                if collapse(attributes.get(role, "")) not in ours:
                    self.others.append(block)
                    continue
                if boolean(attributes.get(_IS_REFERENCE_PARAMETER)):
                    known = False  # a repeated reference parameter, even if it has the name of a protocol's block
                if not known and boolean(attributes.get(must_understand)) and block.name not in self.understands:
                    self.not_understood = self.not_understood or block.name
            if known:
                self.blocks.setdefault(block.namespace, {}).setdefault(block.local, []).append(block)
            else:
                self.others.append(block)
        # NS-18: the namespaces decide the version. `_check_versions` refuses a message with two versions.
        if len(addressing := [WSA_VERSION[uri] for uri in self.blocks if uri in WSA_VERSION]) == 1:
            self.addressing = addressing[0]
            for block in self.blocks[ns.WSA_NS[self.addressing]].get("MessageID", [])[:1]:
                self.message_id = document.uri(block) or None
        if len(rm := [RM_VERSION[uri] for uri in self.blocks if uri in RM_VERSION]) == 1:
            self.rm = rm[0]

    def _check_versions(self, body: Node) -> None:
        if self.not_understood is not None:  # FLT-15: this is checked before the message is processed
            raise MessageRefused(
                Fault(
                    code=FaultCode.MUST_UNDERSTAND,
                    reason="a header block with mustUnderstand is not understood",
                    subject=self.not_understood,
                )
            )
        if sum(uri in WSA_VERSION for uri in self.blocks) > 1:
            raise mixed()
        in_body = rm_of_body(body.children[0]) if body.children else None
        versions = {RM_VERSION[uri] for uri in self.blocks if uri in RM_VERSION} | ({in_body} if in_body else set())
        if len(versions) > 1:
            raise refused("two versions of WS-ReliableMessaging in one message")
        self.rm = next(iter(versions), None)

    def _addressing(self, document: Document, http_actions: tuple[str, str]) -> Addressing:
        if self.addressing is None:  # plain SOAP
            action = http_actions[0] or http_actions[1]
            if len(action.encode(errors="replace")) > self.limits.max_uri_length:
                raise refused(f"the action is longer than {self.limits.max_uri_length} bytes")
            return Addressing(action=action)
        blocks = self.blocks[ns.WSA_NS[self.addressing]]
        return read_addressing(document, self.addressing, blocks, http_actions, replies=self.replies)

    def _assemble(self, document: Document, addressing: Addressing, body: Node) -> Envelope:
        blocks = self.blocks.get(ns.RM_NS[self.rm], {}) if self.rm is not None else {}
        sequence = None
        acknowledgements: list[SequenceAcknowledgement] = []
        ack_requests: list[AckRequested] = []
        problems: list[Fault] = []
        if self.rm is not None and blocks:
            sequences = blocks.get("Sequence", [])
            if len(sequences) > 1:
                raise refused("more than one Sequence header block")  # RM-SEQ-03
            if sequences:
                if self.addressing is None:  # POL-06: its action would be what HTTP says, or none
                    raise action_required(ns.WSA10)
                sequence = read_sequence(document, self.rm, sequences[0])
            for block in blocks.get("SequenceAcknowledgement", ()):
                acknowledgement = read_acknowledgement(document, self.rm, block)
                if isinstance(acknowledgement, Fault):
                    problems.append(acknowledgement)
                else:
                    acknowledgements.append(acknowledgement)
            most = ACKNOWLEDGEMENTS * self.limits.max_ranges
            if sum(len(each.ranges) + len(each.nacks) for each in acknowledgements) > most:
                raise refused(f"more than {most} ranges and Nacks in the acknowledgements of one message")
            for block in blocks.get("AckRequested", ()):
                request = read_ack_requested(document, self.rm, block)
                if isinstance(request, Fault):
                    problems.append(request)
                else:
                    ack_requests.append(request)
        pending = None
        for block in self.blocks.get(ns.MC, {}).get("MessagePending", ()):
            pending = boolean(block.attributes.get("pending"))
        lasts = None
        for block in self.blocks.get(ns.MERCURY, {}).get("Expires", ()):
            lasts = expires_in(block.attributes.get("in"))
        origin = None
        for block in self.blocks.get(ns.MERCURY, {}).get(SENT, ()):
            origin = read_origin(block.attributes)
        headers = tuple([document.cut(block) for block in self.others])
        answered_to = [endpoint for endpoint in (addressing.reply_to, addressing.fault_to) if endpoint is not None]
        parameters = [parameter for endpoint in answered_to for parameter in endpoint.parameters]
        content = self._body(document, body, sequence, [*headers, *parameters])
        return Envelope(
            soap=self.soap,
            addressing=self.addressing,
            rm=self.rm,
            action=addressing.action,
            to=addressing.to,
            message_id=addressing.message_id,
            relates_to=addressing.relates_to,
            reply_to=addressing.reply_to,
            fault_to=addressing.fault_to,
            from_=addressing.from_,
            sequence=sequence,
            acknowledgements=tuple(acknowledgements),
            ack_requests=tuple(ack_requests),
            message_pending=pending,
            expires_in=lasts,
            origin=origin,
            headers=headers,
            problems=tuple(problems),
            fault=self.fault,
            mtom=self.mtom,
            parts=self.parts,
            body=content,
        )

    def _body(self, document: Document, body: Node, sequence: SequenceHeader | None, others: Sequence[bytes]) -> Body:
        if not body.children:
            return EMPTY
        node = body.children[0]
        if node.name == BATCH:
            if self.parts:  # each of its messages would be stored with all of them
                raise refused("a batch with parts that stay in a file")
            if sum(map(len, others)) > MAX_HEADER_BYTES:
                what = "other header blocks and reference parameters"
                raise refused(f"a batch with more than {MAX_HEADER_BYTES} bytes of {what}")
            return read_batch(document, self.soap, sequence, node)
        reader = BODY_READERS.get(node.name)
        if reader is not None:
            return reader(document, self.addressing, node)
        is_fault = node.name == clark(SOAP_NS[self.soap], "Fault")
        if is_fault and sequence is None:
            headers = {local: nodes for named in self.blocks.values() for local, nodes in named.items()}
            fault, rm = read_fault(document, node, headers)
            self.rm = self.rm or rm
            self.fault = Payload(document.cut(node), node.name, is_fault=True)
            return fault
        return Payload(document.cut(node), node.name, is_fault)


def _http_actions(kind: ContentType, soap_action: str | None) -> tuple[str, str]:
    action = (soap_action or "").strip(BLANKS)
    if len(action) > 1 and action[0] == action[-1] == '"':
        action = action[1:-1]
    return action, kind.action
