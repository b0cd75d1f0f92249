"""Faults that an application raises on purpose: SOAP Fault elements that travel as messages of a sequence."""

from __future__ import annotations

from mercury.errors import ApplicationFault, PayloadError
from mercury.statemachine.protocol import SoapVersion
from mercury.wire import ns
from mercury.wire.cut import cut, free_prefix, searchable
from mercury.wire.ns import SOAP_NS, clark
from mercury.wire.payload import check_payload
from mercury.wire.scan import DEFAULT_LIMITS, NO_LIMITS, Limits, MessageRefused, Node, Scanner, limits_of_body
from mercury.wire.values import BLANKS, escape

_CODE = clark(ns.MERCURY, "Code")
#: The elements around the content of a detail: Envelope, Body, Fault, Detail.
_LEVELS = 4


def write_application_fault(soap: SoapVersion, fault: ApplicationFault, *, limits: Limits = DEFAULT_LIMITS) -> bytes:
    """Write an application's fault as a Fault element that declares all its namespaces.

    The application's code travels in the detail, because a code of SOAP would need a namespace.

    :param limits: those of messages; ``fault.detail`` must be within `limits_of_body` for the place where it stands.
    :raises PayloadError: ``fault.detail`` is not XML of one element, or exceeds a limit.
    """
    detail = check_payload(fault.detail, limits=limits_of_body(limits, _LEVELS)).xml if fault.detail else b""
    s = free_prefix("s", [searchable(detail)])
    code = f'<m:Code xmlns:m="{ns.MERCURY}">{escape(fault.code)}</m:Code>'
    reason = escape(fault.reason)
    if soap is SoapVersion.SOAP11:
        before = f"<faultcode>{s}:Client</faultcode><faultstring>{reason}</faultstring><detail>{code}"
        after = "</detail>"
    else:
        before = (
            f"<{s}:Code><{s}:Value>{s}:Sender</{s}:Value></{s}:Code>"
            f'<{s}:Reason><{s}:Text xml:lang="en">{reason}</{s}:Text></{s}:Reason><{s}:Detail>{code}'
        )
        after = f"</{s}:Detail>"
    start = f'<{s}:Fault xmlns:{s}="{SOAP_NS[soap]}">'
    return b"".join((start.encode(), before.encode(), detail, after.encode(), f"</{s}:Fault>".encode()))


def read_application_fault(xml: bytes, *, limits: Limits = NO_LIMITS) -> ApplicationFault:
    """Read a Fault element of either SOAP version, from Mercury or from another product.

    Without Mercury's code in the detail, ``code`` is the local name of the first subcode, or else of the faultcode.
    ``detail`` is the first other element of the detail.

    :param limits: none by default, because `decode` has checked the message that the element was cut out of.

    :raises PayloadError: ``xml`` is not a SOAP Fault, or exceeds a limit.
    """
    try:
        root = Scanner(xml, limits, levels=limits.max_depth).run()
    except MessageRefused as error:
        raise PayloadError(f"not a SOAP fault: {error}") from error
    if root.name == clark(ns.SOAP12, "Fault"):
        code = _text(root, "Code", "Subcode", "Value") or _text(root, "Code", "Value")
        reason = _text(root, "Reason", "Text")
        details = _find(root, "Detail")
    elif root.name == clark(ns.SOAP11, "Fault"):
        code = _text(root, "faultcode")
        reason = _text(root, "faultstring")
        details = _find(root, "detail")
    else:
        raise PayloadError(f"not a SOAP fault: {root.name}")
    code = code.strip(BLANKS).rpartition(":")[2]
    detail = b""
    for part in details.children if details is not None else ():
        if part.name == _CODE:
            code = part.text
        elif not detail:
            detail = cut(xml, part)
    return ApplicationFault(reason, code=code, detail=detail, element=xml)


def _find(node: Node, *path: str) -> Node | None:
    found: Node | None = node
    for local in path:
        if found is not None:
            found = next((part for part in found.children if part.local == local), None)
    return found


def _text(node: Node, *path: str) -> str:
    found = _find(node, *path)
    return "" if found is None else found.text
