"""Reads SOAP faults that are not messages of a sequence, in both versions of SOAP (docs/protocol.md, section 8)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from mercury.statemachine.faults import Fault, FaultCode, Ranges, Subcode
from mercury.statemachine.protocol import RmVersion
from mercury.wire import ns
from mercury.wire.fault_names import CONNECTION_LIMIT_REACHED, blames_receiver, code_of, subcode_of
from mercury.wire.ns import RM_VERSION, clark, local_of, namespace_of
from mercury.wire.read_common import Document, qualified_name
from mercury.wire.read_rm import read_refused_acknowledgement
from mercury.wire.scan import Node, refused
from mercury.wire.values import BLANKS, whole_number

#: The names of elements in the detail, by their meaning.
_IDENTIFIERS = frozenset(clark(uri, "Identifier") for uri in RM_VERSION)
_ACKNOWLEDGEMENTS = frozenset(clark(uri, "SequenceAcknowledgement") for uri in RM_VERSION)
_MAX_MESSAGE_NUMBERS = frozenset(clark(uri, "MaxMessageNumber") for uri in RM_VERSION)
_QNAMES = frozenset(
    {
        clark(ns.MC, "UnsupportedElement"),
        clark(ns.RM11, "UnsupportedElement"),
        clark(ns.WSA10, "ProblemHeaderQName"),
    }
)
_PROBLEM_IRI = clark(ns.WSA10, "ProblemIRI")
_PROBLEM_ACTION = clark(ns.WSA10, "ProblemAction")
_ACTION = clark(ns.WSA10, "Action")


def read_fault(document: Document, node: Node, headers: Mapping[str, Sequence[Node]]) -> tuple[Fault, RmVersion | None]:
    """Read the Fault element of a Body, and the version of WS-RM that its codes belong to.

    :param headers: header blocks by local name; SequenceFault, NotUnderstood and FaultDetail are read.
    :raises MessageRefused: a URI in it is longer than the limit, or it names two sequences.
    """
    sequence_fault = next(iter(headers.get("SequenceFault", ())), None)
    outer, *finer = list(_codes(node)) or [""]
    named = [*_sequence_fault_codes(sequence_fault), *finer, outer]  # FLT-12: the header wins
    code, subcode = _meaning(named, blames_receiver(outer))
    details = list(_details(node, sequence_fault, headers))
    busy = code is FaultCode.CREATE_SEQUENCE_REFUSED and (
        CONNECTION_LIMIT_REACHED in named or any(part.name == CONNECTION_LIMIT_REACHED for part in details)
    )
    identifier, ranges, highest, subject = _read_details(document, details)
    for block in headers.get("NotUnderstood", ()):
        subject = subject or _name(document, block, block.attributes.get("qname", ""))
    fault = Fault(
        code=code,
        reason=_reason(node)[: document.limits.max_uri_length] or code.value,
        sender=not (busy or blames_receiver(outer)),
        subcode=subcode,
        identifier=identifier,
        ranges=ranges,
        max_message_number=highest,
        subject=subject,
        busy=busy,
    )
    rm = next((RM_VERSION[uri] for uri in map(namespace_of, named) if uri in RM_VERSION), None)
    return fault, rm


def _codes(node: Node) -> Iterator[str]:
    """The codes in Clark notation, the outermost first: faultcode, or Code and each Subcode in it."""
    level = _part(node, "Code")
    if level is None:
        level = _part(node, "faultcode")
        if level is not None:
            yield _code(level)
        return
    while level is not None:
        value = _part(level, "Value")
        yield _code(value) if value is not None else ""
        level = _part(level, "Subcode")


def _code(node: Node) -> str:
    name = qualified_name(node, node.text)
    # SOAP 1.1 allows finer codes after a dot, and many peers leave out the prefix.
    if name in ("Client", "Server") or (name or "").startswith(clark(ns.SOAP11, "")):
        name = clark(ns.SOAP11, local_of(name or "").partition(".")[0])
    return name or ""


def _sequence_fault_codes(node: Node | None) -> Iterator[str]:
    if node is not None:
        value = _part(node, "FaultCode")
        if value is not None:
            yield _code(value)


def _meaning(names: Sequence[str], by_receiver: bool) -> tuple[FaultCode, Subcode | None]:
    """The first code that Mercury knows; FLT-11: the text of a fault is not evaluated."""
    code = next(filter(None, map(code_of, names)), None)
    subcode = next(filter(None, map(subcode_of, names)), None)
    if code is None and subcode is not None:  # SOAP 1.1 has one code, and WS-Addressing puts its subcode there
        code = FaultCode.INVALID_ADDRESSING_HEADER
    return code or (FaultCode.RECEIVER if by_receiver else FaultCode.SENDER), subcode


def _details(node: Node, sequence_fault: Node | None, headers: Mapping[str, Sequence[Node]]) -> Iterator[Node]:
    """The elements of the detail, from each place where a version of SOAP or WS-RM puts them."""
    detail = _part(node, "Detail") or _part(node, "detail")
    if detail is not None:
        yield from detail.children
    if sequence_fault is not None:
        yield from sequence_fault.children
        detail = _part(sequence_fault, "Detail")
        if detail is not None:
            yield from detail.children
    for block in headers.get("FaultDetail", ()):
        yield from block.children


def _read_details(document: Document, details: Sequence[Node]) -> tuple[str | None, Ranges, int | None, str | None]:
    """The sequence's identifier and ranges, the highest message number, and the name or URI of the fault's subject."""
    identifier: str | None = None
    ranges: Ranges = ()
    highest: int | None = None
    subject: str | None = None
    for part in details:
        name = part.name
        if name in _IDENTIFIERS:
            identifier = _same(identifier, document.uri(part))
        elif name in _ACKNOWLEDGEMENTS:
            named, ranges = read_refused_acknowledgement(document, part)
            identifier = _same(identifier, named)
        elif name in _MAX_MESSAGE_NUMBERS:
            highest = whole_number(part.text)
        elif name in _QNAMES:
            subject = _name(document, part, part.text)
        elif name == _PROBLEM_IRI:
            subject = document.uri(part) or None
        elif name == _PROBLEM_ACTION:
            subject = next((document.uri(action) for action in part.children if action.name == _ACTION), subject)
    return identifier, ranges, highest, subject


def _same(before: str | None, named: str | None) -> str | None:
    """The identifier that the details name; SOAP 1.1 may have it in the detail and in the header block.

    :raises MessageRefused: they name two sequences.
    """
    if before and named and before != named:
        raise refused("the fault names two sequences")
    return named or before


def _name(document: Document, node: Node, text: str) -> str | None:
    return qualified_name(node, text) if len(text) <= document.limits.max_uri_length else None


def _reason(node: Node) -> str:
    """The text of the fault; the English one if there are several."""
    reason = _part(node, "Reason")
    if reason is None:
        text = _part(node, "faultstring")
        return text.text.strip(BLANKS) if text is not None else ""
    texts = [part for part in reason.children if part.local == "Text"]
    texts.sort(key=lambda part: not part.attributes.get(clark(ns.XML, "lang"), "").lower().startswith("en"))
    return texts[0].text.strip(BLANKS) if texts else ""


def _part(node: Node, local: str) -> Node | None:
    """The first child with a local name: some peers qualify the children of a SOAP 1.1 fault, others do not."""
    return next((part for part in node.children if part.local == local), None)
