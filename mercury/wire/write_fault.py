"""Writes protocol faults in both versions of SOAP (docs/protocol.md, section 8; WSA-06).

SOAP 1.2 carries everything in the Fault element. SOAP 1.1 has one code, and its detail is only for faults about the
Body. So in SOAP 1.1 faults about a sequence have a SequenceFault header block, and faults of WS-Addressing 1.0 a
FaultDetail.
"""

from __future__ import annotations

from mercury.statemachine.faults import ABOUT_A_SEQUENCE, OF_ADDRESSING, Fault, FaultCode
from mercury.statemachine.messages import SequenceAcknowledgement
from mercury.statemachine.protocol import AddressingVersion, RmVersion
from mercury.wire import ns
from mercury.wire.fault_names import CONNECTION_LIMIT_REACHED, blames_sender, name_of
from mercury.wire.ns import clark, local_of, namespace_of
from mercury.wire.values import escape, escape_attribute
from mercury.wire.write_common import Style

_BUSY = f'<netrm:ConnectionLimitReached xmlns:netrm="{ns.NETRM}"/>'


def write_fault11(style: Style, fault: Fault) -> tuple[str, str]:
    """The header blocks and the Fault element of SOAP 1.1."""
    name = name_of(fault.code, style.addressing, style.rm)
    headers = detail = ""
    if fault.code in ABOUT_A_SEQUENCE and name is not None:
        headers = _sequence_fault(style, fault, name)
        code = _soap11_code(style, fault)
    elif name is not None:
        code_name = name
        if fault.subcode is not None and style.addressing is AddressingVersion.WSA10:
            code_name = clark(ns.WSA10, fault.subcode.value)
        code = _element("faultcode", code_name)
        detail = _detail(style, fault)
        if detail and fault.code in OF_ADDRESSING:
            headers = f"<{style.wsa}:FaultDetail>{detail}</{style.wsa}:FaultDetail>"
            detail = ""
    else:
        code = _soap11_code(style, fault)
    if fault.busy and fault.code is FaultCode.CREATE_SEQUENCE_REFUSED:
        detail += _BUSY  # SOAP 1.1 has no second-level code, so it is written into the detail
    detail = f"<detail>{detail}</detail>" if detail else ""
    soap = style.soap
    return headers, f"<{soap}:Fault>{code}<faultstring>{escape(fault.reason)}</faultstring>{detail}</{soap}:Fault>"


def write_fault12(style: Style, fault: Fault) -> tuple[str, str]:
    """The header blocks and the Fault element of SOAP 1.2."""
    soap = style.soap
    name = name_of(fault.code, style.addressing, style.rm)
    outer = "Sender" if blames_sender(fault) else "Receiver"
    headers = subcode = ""
    if fault.code is FaultCode.MUST_UNDERSTAND:
        outer = "MustUnderstand"
        if fault.subject is not None:
            headers = f"<{soap}:NotUnderstood{_qname_attribute(fault.subject)}/>"
    elif fault.code is FaultCode.VERSION_MISMATCH:
        outer = "VersionMismatch"
        supported = "".join(
            f"<{soap}:SupportedEnvelope{_qname_attribute(clark(uri, 'Envelope'))}/>" for uri in (ns.SOAP12, ns.SOAP11)
        )
        headers = f"<{soap}:Upgrade>{supported}</{soap}:Upgrade>"
    elif name is not None:
        nested = ""
        if fault.subcode is not None and style.addressing is AddressingVersion.WSA10:
            nested = _subcode(soap, clark(ns.WSA10, fault.subcode.value))
        elif fault.busy and fault.code is FaultCode.CREATE_SEQUENCE_REFUSED:
            nested = _subcode(soap, CONNECTION_LIMIT_REACHED)
        subcode = _subcode(soap, name, nested)
    detail = _detail(style, fault) if name is not None else ""
    return headers, (
        f"<{soap}:Fault><{soap}:Code><{soap}:Value>{soap}:{outer}</{soap}:Value>{subcode}</{soap}:Code>"
        f'<{soap}:Reason><{soap}:Text xml:lang="en">{escape(fault.reason)}</{soap}:Text></{soap}:Reason>'
        + (f"<{soap}:Detail>{detail}</{soap}:Detail>" if detail else "")
        + f"</{soap}:Fault>"
    )


def _soap11_code(style: Style, fault: Fault) -> str:
    if fault.code in (FaultCode.MUST_UNDERSTAND, FaultCode.VERSION_MISMATCH):
        code = fault.code.value
    else:
        code = "Client" if blames_sender(fault) else "Server"
    return f"<faultcode>{style.soap}:{code}</faultcode>"


def _sequence_fault(style: Style, fault: Fault, name: str) -> str:
    """Write SequenceFault. WS-RM 1.0 has no Detail (RM10-SCH-08): the details are extensions of the header block."""
    wsrm = style.wsrm
    detail = _detail(style, fault)
    if detail and style.rm is RmVersion.RM11:
        detail = f"<{wsrm}:Detail>{detail}</{wsrm}:Detail>"
    code = f"<{wsrm}:FaultCode>{wsrm}:{local_of(name)}</{wsrm}:FaultCode>"
    return f"<{wsrm}:SequenceFault>{code}{detail}</{wsrm}:SequenceFault>"


def _detail(style: Style, fault: Fault) -> str:
    """The detail of a fault (docs/protocol.md, section 8, "Detail"). WS-Addressing 2004/08 has no elements for it."""
    code, subject = fault.code, fault.subject
    if code in ABOUT_A_SEQUENCE and fault.identifier is not None and style.rm is not None:
        if code is FaultCode.INVALID_ACKNOWLEDGEMENT:
            return style.acknowledgement(SequenceAcknowledgement(fault.identifier, fault.ranges))
        detail = style.identifier(fault.identifier)
        if fault.max_message_number is not None and style.rm is RmVersion.RM11:
            number = fault.max_message_number
            detail += f"<{style.wsrm}:MaxMessageNumber>{number}</{style.wsrm}:MaxMessageNumber>"
        return detail
    if subject is None:
        return ""
    if code is FaultCode.UNSUPPORTED_SELECTION:
        return _element("wsmc:UnsupportedElement", subject, f' xmlns:wsmc="{ns.MC}"')
    if style.addressing is AddressingVersion.WSA10:
        wsa = style.wsa
        if code in (FaultCode.INVALID_ADDRESSING_HEADER, FaultCode.ADDRESSING_HEADER_REQUIRED):
            # A name without a namespace belongs to WS-Addressing; it is written with the namespace of version 1.0.
            name = subject if namespace_of(subject) else clark(ns.WSA10, subject)
            return _element(f"{wsa}:ProblemHeaderQName", name)
        if code is FaultCode.ACTION_NOT_SUPPORTED:
            return f"<{wsa}:ProblemAction><{wsa}:Action>{escape(subject)}</{wsa}:Action></{wsa}:ProblemAction>"
        if code in OF_ADDRESSING:
            return f"<{wsa}:ProblemIRI>{escape(subject)}</{wsa}:ProblemIRI>"
    return ""


def _subcode(soap: str, name: str, nested: str = "") -> str:
    return f"<{soap}:Subcode>{_element(f'{soap}:Value', name)}{nested}</{soap}:Subcode>"


def _element(element: str, name: str, attributes: str = "") -> str:
    """An element whose content is the QName ``name``. The element declares the prefix (FLT-13)."""
    uri = namespace_of(name)
    if not uri:
        return f"<{element}{attributes}>{escape(name)}</{element}>"
    declared = f' xmlns:n="{escape_attribute(uri)}"'
    return f"<{element}{attributes}{declared}>n:{escape(local_of(name))}</{element}>"


def _qname_attribute(name: str) -> str:
    uri = namespace_of(name)
    if not uri:
        return f' qname="{escape_attribute(name)}"'
    return f' xmlns:n="{escape_attribute(uri)}" qname="n:{escape_attribute(local_of(name))}"'
