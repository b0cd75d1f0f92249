"""The protocol versions that two endpoints speak, and the constants of the specifications that all parts share."""

from __future__ import annotations

from dataclasses import dataclass

from mercury.statemachine.hashed_enum import HashedEnum

#: The highest possible message number, 2^63 - 1 (NS-17; WS-RM 1.1 schema, MessageNumberType).
MAX_MESSAGE_NUMBER = 9223372036854775807


class SoapVersion(HashedEnum):
    """The SOAP version of an envelope (NS-12)."""

    #: http://schemas.xmlsoap.org/soap/envelope/
    SOAP11 = "1.1"
    #: http://www.w3.org/2003/05/soap-envelope
    SOAP12 = "1.2"


class AddressingVersion(HashedEnum):
    """The WS-Addressing version of an envelope (NS-06, NS-07)."""

    #: http://schemas.xmlsoap.org/ws/2004/08/addressing
    WSA200408 = "2004/08"
    #: http://www.w3.org/2005/08/addressing
    WSA10 = "1.0"


class RmVersion(HashedEnum):
    """The generation of WS-ReliableMessaging. 1.2 is the same on the wire as 1.1 (NS-20) and is read as 1.1."""

    #: http://schemas.xmlsoap.org/ws/2005/02/rm
    RM10 = "1.0"
    #: http://docs.oasis-open.org/ws-rx/wsrm/200702
    RM11 = "1.1"

    @classmethod
    def _missing_(cls, value: object) -> RmVersion | None:
        return cls.RM11 if value == "1.2" else None


@dataclass(frozen=True, slots=True)
class Protocol:
    """One version of each specification. It is fixed for a sequence, and for the pair that an offer makes (NS-18)."""

    soap: SoapVersion = SoapVersion.SOAP12
    addressing: AddressingVersion = AddressingVersion.WSA10
    rm: RmVersion = RmVersion.RM11

    def __str__(self) -> str:
        return f"SOAP {self.soap.value}, WS-Addressing {self.addressing.value}, WS-RM {self.rm.value}"

    @property
    def legal(self) -> bool:
        """Whether WS-RM and WS-Addressing are one of the pairs that peers use (NS-19)."""
        return (self.rm, self.addressing) in LEGAL_PAIRS


#: The pairs of WS-RM and WS-Addressing that Mercury speaks (NS-19).
LEGAL_PAIRS = (
    (RmVersion.RM10, AddressingVersion.WSA200408),
    (RmVersion.RM10, AddressingVersion.WSA10),
    (RmVersion.RM11, AddressingVersion.WSA10),
)

#: Every combination Mercury speaks: three pairs, two SOAP versions.
ALL_PROTOCOLS = tuple(Protocol(soap, addressing, rm) for rm, addressing in LEGAL_PAIRS for soap in SoapVersion)
