"""Namespaces and names of WSDL, of its SOAP bindings, of WS-Policy and of the assertions, in Clark notation."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from mercury.statemachine.protocol import AddressingVersion, RmVersion, SoapVersion
from mercury.wire.ns import MC, WSA200408, clark

WSDL = "http://schemas.xmlsoap.org/wsdl/"
XSD = "http://www.w3.org/2001/XMLSchema"
#: The SOAP bindings of WSDL 1.1 that Mercury supports.
WSDL_SOAP: Mapping[SoapVersion, str] = MappingProxyType(
    {
        SoapVersion.SOAP11: "http://schemas.xmlsoap.org/wsdl/soap/",
        SoapVersion.SOAP12: "http://schemas.xmlsoap.org/wsdl/soap12/",
    }
)
SOAP_BINDINGS: Mapping[str, SoapVersion] = MappingProxyType({ns: version for version, ns in WSDL_SOAP.items()})
SOAP_OVER_HTTP = "http://schemas.xmlsoap.org/soap/http"

#: WS-Policy 1.2 and 1.5 (POL-05).
WSP12 = "http://schemas.xmlsoap.org/ws/2004/09/policy"
WSP15 = "http://www.w3.org/ns/ws-policy"
POLICIES = frozenset({WSP12, WSP15})
WSU = "http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-wssecurity-utility-1.0.xsd"

#: The policies of WS-ReliableMessaging, in both versions (POL-01, POL-02).
RMP10 = "http://schemas.xmlsoap.org/ws/2005/02/rm/policy"
RMP11 = "http://docs.oasis-open.org/ws-rx/wsrmp/200702"
RM_ASSERTIONS: Mapping[str, RmVersion] = MappingProxyType(
    {clark(RMP10, "RMAssertion"): RmVersion.RM10, clark(RMP11, "RMAssertion"): RmVersion.RM11}
)

#: WS-Addressing in WSDL: the metadata of 2007, and its predecessor, the binding of 2006.
WSAM = "http://www.w3.org/2007/05/addressing/metadata"
WSAW = "http://www.w3.org/2006/05/addressing/wsdl"
ADDRESSING_ASSERTIONS: Mapping[str, AddressingVersion] = MappingProxyType(
    {
        clark(WSAM, "Addressing"): AddressingVersion.WSA10,
        clark(WSAW, "UsingAddressing"): AddressingVersion.WSA10,
        clark("http://www.w3.org/2005/02/addressing/wsdl", "UsingAddressing"): AddressingVersion.WSA10,
        clark(WSA200408 + "/policy", "UsingAddressing"): AddressingVersion.WSA200408,
    }
)

MC_SUPPORTED = clark(MC, "MCSupported")

#: The namespaces in which products write timers for WS-RM 1.1, whose policy has none (POL-02).
TIMER_NAMESPACES = frozenset(
    {
        RMP10,
        RMP11,
        "http://schemas.microsoft.com/ws-rx/wsrmp/200702",
        "http://schemas.microsoft.com/net/2005/02/rm/policy",
        "http://java.sun.com/xml/ns/metro/ws-rx/wsrmp/200702",
    }
)
#: Assertions in these namespaces are ignored: they are settings of the peer's own product (POL-08).
VENDORS = TIMER_NAMESPACES | {
    "http://sun.com/2006/03/rm",
    "http://sun.com/2006/03/rm/client",
    "http://ws.apache.org/sandesha2/policy",
    "http://cxf.apache.org/ws/rm/manager",
    "http://schemas.microsoft.com/ws/2005/12/wsdl/contract",
    "http://schemas.xmlsoap.org/ws/2004/09/policy/encoding",
    "http://java.sun.com/xml/ns/wsit/policy",
    "http://schemas.sun.com/2006/03/wss/client",
    "http://schemas.sun.com/2006/03/wss/server",
    "http://java.sun.com/xml/ns/wsit/2006/09/policy/encoding/client",
    "http://java.sun.com/xml/ns/wsit/2006/09/policy/fastinfoset/service",
    "http://java.sun.com/xml/ns/wsit/2006/09/policy/soaptcp/service",
}
#: WS-SecurityPolicy 1.2, in which Mercury writes, and all public versions.
SP = "http://docs.oasis-open.org/ws-sx/ws-securitypolicy/200702"
SECURITY = frozenset(
    {
        "http://schemas.xmlsoap.org/ws/2005/07/securitypolicy",
        SP,
        "http://docs.oasis-open.org/ws-sx/ws-securitypolicy/200802",
    }
)
#: The namespace of the algorithm suites of CXF with AES-GCM.
GCM_SUITES = "http://cxf.apache.org/custom/security-policy"
#: An attribute of AlgorithmSuite, by Metro: the algorithm of signatures, by its name in Java. The suites of
#: WS-SecurityPolicy 1.2 have SHA-1 for that.
SIGNATURE_ALGORITHM = "signatureAlgorithm"
#: Messages are MTOM messages.
WSOMA = "http://schemas.xmlsoap.org/ws/2004/09/policy/optimizedmimeserialization"
OPTIMIZED = clark(WSOMA, "OptimizedMimeSerialization")
MTOM_ASSERTIONS = frozenset(
    {
        OPTIMIZED,
        clark("http://www.w3.org/2007/08/soap12-mtom-policy", "MTOM"),
        clark("http://www.w3.org/2007/08/soap11-mtom-policy", "MTOM"),
    }
)
#: Assertions that change the messages on the wire and that Mercury does not support.
UNSUPPORTED: Mapping[str, str] = MappingProxyType(
    {
        clark("http://schemas.microsoft.com/ws/06/2004/mspolicy/netbinary1", "BinaryEncoding"): "binary XML of .NET",
        clark("http://schemas.xmlsoap.org/ws/2004/10/wsat", "ATAssertion"): "WS-AtomicTransaction",
        clark("http://docs.oasis-open.org/ws-tx/wsat/2006/06", "ATAssertion"): "WS-AtomicTransaction",
        clark("http://schemas.microsoft.com/soap/2006/11/transport", "TransportBinding"): "a transport of .NET",
    }
)
