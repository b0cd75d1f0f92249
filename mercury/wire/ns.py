"""Namespaces, the anonymous and none addresses, and actions, per version (docs/protocol.md, sections 1 and 2).

Names are in Clark notation everywhere in this package: ``{namespace}local``.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from mercury.statemachine.hashed_enum import HashedEnum
from mercury.statemachine.messages import ANONYMOUS, MAKE_CONNECTION_ANONYMOUS, NONE
from mercury.statemachine.protocol import AddressingVersion, RmVersion, SoapVersion

#: NS-12
SOAP11 = "http://schemas.xmlsoap.org/soap/envelope/"
SOAP12 = "http://www.w3.org/2003/05/soap-envelope"
#: NS-06, NS-07
WSA200408 = "http://schemas.xmlsoap.org/ws/2004/08/addressing"
WSA10 = "http://www.w3.org/2005/08/addressing"
#: NS-01, NS-02
RM10 = "http://schemas.xmlsoap.org/ws/2005/02/rm"
RM11 = "http://docs.oasis-open.org/ws-rx/wsrm/200702"
#: NS-03
MC = "http://docs.oasis-open.org/ws-rx/wsmc/200702"
#: NS-13: .NET's flow control, and its subcode for a limit on sequences.
NETRM = "http://schemas.microsoft.com/ws/2006/05/rm"
#: WS-Security.
WSSE = "http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-wssecurity-secext-1.0.xsd"
#: Mercury's extensions: Follows in CreateSequence; Source in CreateSequence of WS-RM 1.0; IncompleteSequenceBehavior
#: and Batch in CreateSequence and its response; Store in its response; Batch in a Body; Code in the detail of an
#: application fault.
MERCURY = "urn:mercury:rm"
XML = "http://www.w3.org/XML/1998/namespace"

#: NS-11: the beginning of the address of a client that polls with MakeConnection; it appends a unique string.
MC_ANONYMOUS = MAKE_CONNECTION_ANONYMOUS

SOAP_NS: Mapping[SoapVersion, str] = MappingProxyType({SoapVersion.SOAP11: SOAP11, SoapVersion.SOAP12: SOAP12})
WSA_NS: Mapping[AddressingVersion, str] = MappingProxyType(
    {AddressingVersion.WSA200408: WSA200408, AddressingVersion.WSA10: WSA10}
)
RM_NS: Mapping[RmVersion, str] = MappingProxyType({RmVersion.RM10: RM10, RmVersion.RM11: RM11})

#: The version for each namespace (NS-18).
SOAP_VERSION: Mapping[str, SoapVersion] = MappingProxyType({ns: version for version, ns in SOAP_NS.items()})
WSA_VERSION: Mapping[str, AddressingVersion] = MappingProxyType({ns: version for version, ns in WSA_NS.items()})
RM_VERSION: Mapping[str, RmVersion] = MappingProxyType({ns: version for version, ns in RM_NS.items()})

#: NS-08, NS-09, NS-10: the URIs of `ANONYMOUS` and `NONE` on the wire. 2004/08 defines no "none": this is CXF's.
ADDRESS_ON_WIRE: Mapping[AddressingVersion, Mapping[str, str]] = MappingProxyType(
    {
        AddressingVersion.WSA200408: MappingProxyType(
            {ANONYMOUS: WSA200408 + "/role/anonymous", NONE: WSA200408 + "/role/none"}
        ),
        AddressingVersion.WSA10: MappingProxyType({ANONYMOUS: WSA10 + "/anonymous", NONE: WSA10 + "/none"}),
    }
)

#: `ANONYMOUS` or `NONE` for each of the four URIs on the wire, independent of the envelope's version.
NEUTRAL_ADDRESS: Mapping[str, str] = MappingProxyType(
    {wire: neutral for addresses in ADDRESS_ON_WIRE.values() for neutral, wire in addresses.items()}
)


class RmMessage(HashedEnum):
    """A message of WS-ReliableMessaging. The value is the last step of its action."""

    CREATE_SEQUENCE = "CreateSequence"
    CREATE_SEQUENCE_RESPONSE = "CreateSequenceResponse"
    #: WS-RM 1.1 only.
    CLOSE_SEQUENCE = "CloseSequence"
    #: WS-RM 1.1 only.
    CLOSE_SEQUENCE_RESPONSE = "CloseSequenceResponse"
    TERMINATE_SEQUENCE = "TerminateSequence"
    #: WS-RM 1.1 only.
    TERMINATE_SEQUENCE_RESPONSE = "TerminateSequenceResponse"
    #: A stand-alone acknowledgement.
    SEQUENCE_ACKNOWLEDGEMENT = "SequenceAcknowledgement"
    #: A stand-alone request for an acknowledgement. The specification of 1.0 names no action; peers use this one.
    ACK_REQUESTED = "AckRequested"
    #: WS-RM 1.0 only: a message with an empty Body that marks the last number.
    LAST_MESSAGE = "LastMessage"


_ONLY_IN: Mapping[RmMessage, RmVersion] = MappingProxyType(
    {
        RmMessage.CLOSE_SEQUENCE: RmVersion.RM11,
        RmMessage.CLOSE_SEQUENCE_RESPONSE: RmVersion.RM11,
        RmMessage.TERMINATE_SEQUENCE_RESPONSE: RmVersion.RM11,
        RmMessage.LAST_MESSAGE: RmVersion.RM10,
    }
)

#: ACT-10
MAKE_CONNECTION_ACTION = MC + "/MakeConnection"


#: The action of a batch: Mercury's extension.
BATCH_ACTION = MERCURY + "/Batch"


def rm_action(rm: RmVersion, message: RmMessage) -> str:
    """The action of ``message`` in the version ``rm`` (ACT-01 to ACT-08).

    :raises ValueError: the version does not have the message.
    """
    if _ONLY_IN.get(message, rm) is not rm:
        raise ValueError(f"WS-RM {rm.value} has no {message.value}")
    return f"{RM_NS[rm]}/{message.value}"


def clark(namespace: str, local: str) -> str:
    """``{namespace}local``, or ``local`` when there is no namespace."""
    return f"{{{namespace}}}{local}" if namespace else local


def namespace_of(name: str) -> str:
    """The namespace of a name in Clark notation, "" when it has none."""
    return name[1 : name.index("}")] if name.startswith("{") else ""


def local_of(name: str) -> str:
    """The local part of a name in Clark notation."""
    return name[name.index("}") + 1 :] if name.startswith("{") else name
