"""Functions that the writers of all elements share: prefixes, endpoint references, acknowledgements."""

from __future__ import annotations

from dataclasses import dataclass

from mercury.statemachine.messages import EndpointReference, SequenceAcknowledgement
from mercury.statemachine.protocol import AddressingVersion, RmVersion
from mercury.wire import ns
from mercury.wire.ns import ADDRESS_ON_WIRE
from mercury.wire.values import escape

#: The highest value of BufferRemaining (FC-01).
_MAX_BUFFER = 4096


@dataclass(frozen=True, slots=True)
class Style:
    """The versions of one envelope, and the prefixes that its Envelope element declares."""

    addressing: AddressingVersion | None
    rm: RmVersion | None
    soap: str
    wsa: str
    wsrm: str

    def address(self, address: str) -> str:
        """An address of an `Envelope` as character data, with the version's URI for `ANONYMOUS` and `NONE`."""
        if self.addressing is not None:
            address = ADDRESS_ON_WIRE[self.addressing].get(address, address)
        return escape(address)

    def endpoint(self, endpoint: EndpointReference) -> str:
        """Write the content of an element that is an endpoint reference.

        :raises ValueError: the envelope has no version of WS-Addressing to write it in.
        """
        if self.addressing is None:
            raise ValueError("an endpoint reference in an envelope without a version of WS-Addressing")
        wsa = self.wsa
        written = f"<{wsa}:Address>{self.address(endpoint.address)}</{wsa}:Address>"
        if endpoint.parameters:
            parameters = b"".join(endpoint.parameters).decode()
            written += f"<{wsa}:ReferenceParameters>{parameters}</{wsa}:ReferenceParameters>"
        return written

    def identifier(self, identifier: str) -> str:
        wsrm = self.wsrm
        return f"<{wsrm}:Identifier>{escape(identifier)}</{wsrm}:Identifier>"

    def acknowledgement(self, acknowledgement: SequenceAcknowledgement) -> str:
        """Write a SequenceAcknowledgement (RM10-SCH-02, RM11-SCH-02).

        Nacks may not stand beside ranges or Final. If an acknowledgement has both, its Nacks are not written.
        """
        wsrm = self.wsrm
        written = [f"<{wsrm}:SequenceAcknowledgement>", self.identifier(acknowledgement.identifier)]
        final = acknowledgement.final and self.rm is RmVersion.RM11
        written += [
            f'<{wsrm}:AcknowledgementRange Lower="{low}" Upper="{high}"/>' for low, high in acknowledgement.ranges
        ]
        if not acknowledgement.ranges:
            if acknowledgement.nacks and not final:
                written += [f"<{wsrm}:Nack>{number}</{wsrm}:Nack>" for number in acknowledgement.nacks]
            elif self.rm is RmVersion.RM11:
                written.append(f"<{wsrm}:None/>")
            else:  # RM-ACK-04: 1.0 has no None
                written.append(f'<{wsrm}:AcknowledgementRange Lower="0" Upper="0"/>')
        if final:
            written.append(f"<{wsrm}:Final/>")
        if acknowledgement.buffer_remaining is not None:
            remaining = max(0, min(acknowledgement.buffer_remaining, _MAX_BUFFER))
            written.append(f'<netrm:BufferRemaining xmlns:netrm="{ns.NETRM}">{remaining}</netrm:BufferRemaining>')
        written.append(f"</{wsrm}:SequenceAcknowledgement>")
        return "".join(written)
