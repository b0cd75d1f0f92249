"""The names of faults on the wire, per version, and their HTTP status and action (docs/protocol.md, section 8)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from mercury.statemachine.faults import OF_ADDRESSING, OF_MAKE_CONNECTION, OF_RM, Fault, FaultCode, Subcode
from mercury.statemachine.protocol import AddressingVersion, RmVersion, SoapVersion
from mercury.wire import ns
from mercury.wire.ns import RM_NS, WSA_NS, clark

#: .NET's second-level subcode of CreateSequenceRefused: the limit on sequences is reached (RM-CS-14).
CONNECTION_LIMIT_REACHED = clark(ns.NETRM, "ConnectionLimitReached")

#: Codes that only one version of WS-RM has (RM10-SCH-09, RM11-SCH-10).
_RM11_ONLY = frozenset({FaultCode.SEQUENCE_CLOSED, FaultCode.WSRM_REQUIRED})
_RM10_ONLY = frozenset({FaultCode.LAST_MESSAGE_NUMBER_EXCEEDED})

#: The names of two codes in WS-Addressing 2004/08 (WSA-06).
_IN_200408: Mapping[FaultCode, str] = MappingProxyType(
    {
        FaultCode.INVALID_ADDRESSING_HEADER: "InvalidMessageInformationHeader",
        FaultCode.ADDRESSING_HEADER_REQUIRED: "MessageInformationHeaderRequired",
    }
)

_CODE_OF_NAME: Mapping[str, FaultCode] = MappingProxyType(
    {clark(rm, code.value): code for rm in RM_NS.values() for code in OF_RM}
    | {clark(ns.MC, code.value): code for code in OF_MAKE_CONNECTION}
    | {clark(wsa, code.value): code for wsa in WSA_NS.values() for code in OF_ADDRESSING}
    | {clark(ns.WSA200408, name): code for code, name in _IN_200408.items()}
    | {clark(ns.WSSE, FaultCode.INVALID_SECURITY.value): FaultCode.INVALID_SECURITY}
    | {clark(soap, name): code for soap in (ns.SOAP11, ns.SOAP12) for name, code in (
        ("MustUnderstand", FaultCode.MUST_UNDERSTAND),
        ("VersionMismatch", FaultCode.VERSION_MISMATCH),
    )}
)  # fmt: skip

_SUBCODE_OF_NAME: Mapping[str, Subcode] = MappingProxyType(
    {clark(ns.WSA10, subcode.value): subcode for subcode in Subcode}
)

#: The SOAP codes that blame the receiver of the message.
_RECEIVER = frozenset({clark(ns.SOAP11, "Server"), clark(ns.SOAP12, "Receiver")})

#: Faults that may blame either end. A code that is neither here nor in `_ALWAYS_RECEIVER` always blames the sender.
_EITHER = frozenset({FaultCode.SEQUENCE_TERMINATED, FaultCode.CREATE_SEQUENCE_REFUSED})
_ALWAYS_RECEIVER = OF_MAKE_CONNECTION | {FaultCode.ENDPOINT_UNAVAILABLE, FaultCode.RECEIVER}


def code_of(name: str) -> FaultCode | None:
    """The code for a subcode or faultcode in Clark notation; ``None`` = Mercury does not know it."""
    return _CODE_OF_NAME.get(name)


def subcode_of(name: str) -> Subcode | None:
    """The second-level subcode of WS-Addressing 1.0 for a name in Clark notation; ``None`` = it is not known."""
    return _SUBCODE_OF_NAME.get(name)


def blames_receiver(name: str) -> bool:
    """Whether the outermost code, in Clark notation, is SOAP 1.1 Server or SOAP 1.2 Receiver."""
    return name in _RECEIVER


def name_of(code: FaultCode, addressing: AddressingVersion | None, rm: RmVersion | None) -> str | None:
    """The subcode that ``code`` has on the wire, in Clark notation.

    ``None`` = the code belongs to SOAP, or these versions do not have it. It is written as Sender or Receiver only.
    """
    if code in OF_RM:
        unknown = _RM10_ONLY if rm is RmVersion.RM11 else _RM11_ONLY
        return None if rm is None or code in unknown else clark(RM_NS[rm], code.value)
    if code in OF_MAKE_CONNECTION:
        return clark(ns.MC, code.value)
    if code is FaultCode.INVALID_SECURITY:
        return clark(ns.WSSE, code.value)
    if code in OF_ADDRESSING and addressing is not None:
        old = addressing is AddressingVersion.WSA200408
        return clark(WSA_NS[addressing], _IN_200408.get(code, code.value) if old else code.value)
    return None


def blames_sender(fault: Fault) -> bool:
    """Whether ``fault`` is written as SOAP 1.1 Client or SOAP 1.2 Sender (docs/protocol.md, section 8, "Code")."""
    if fault.code in _EITHER:
        return fault.sender and not fault.busy
    return fault.code not in _ALWAYS_RECEIVER


def fault_action(
    code: FaultCode,
    soap: SoapVersion,  # noqa: ARG001 - callers pass all versions of an envelope; no action depends on this one
    addressing: AddressingVersion | None,
    rm: RmVersion | None,
) -> str:
    """The wsa:Action of a fault (ACT-09, ACT-10, WSA-07); "" without WS-Addressing.

    For WS-RM 1.0 with WS-Addressing 1.0 this is the action that .NET sends, which differs from its documentation.
    """
    if addressing is None:
        return ""
    if addressing is AddressingVersion.WSA200408:
        return ns.WSA200408 + "/fault"
    if code in OF_MAKE_CONNECTION:
        return ns.MC + "/fault"
    if code in OF_RM and rm is RmVersion.RM11:
        return ns.RM11 + "/fault"
    if code in OF_ADDRESSING:
        return ns.WSA10 + "/fault"
    return ns.WSA10 + "/soap/fault"


def fault_status(fault: Fault, soap: SoapVersion) -> int:
    """The HTTP status of a reply with ``fault`` (HTTP-03); 503 = the client may repeat the request later."""
    if fault.busy:
        return 503
    if soap is SoapVersion.SOAP11 or fault.code in (FaultCode.MUST_UNDERSTAND, FaultCode.VERSION_MISMATCH):
        return 500
    return 400 if blames_sender(fault) else 500
