"""Hand-written envelopes of a foreign peer, made without Mercury's codec."""

from __future__ import annotations

from mercury.engine.exchange import ACCEPTED, Arrival
from mercury.statemachine.protocol import AddressingVersion, Protocol, RmVersion, SoapVersion
from mercury.testing import Flight
from mercury.wire.envelope import HttpMessage

from .harness import ASK, NOTE, Node, body

SOAP = {
    SoapVersion.SOAP11: "http://schemas.xmlsoap.org/soap/envelope/",
    SoapVersion.SOAP12: "http://www.w3.org/2003/05/soap-envelope",
}
WSA = {
    AddressingVersion.WSA200408: "http://schemas.xmlsoap.org/ws/2004/08/addressing",
    AddressingVersion.WSA10: "http://www.w3.org/2005/08/addressing",
}
RM = {
    RmVersion.RM10: "http://schemas.xmlsoap.org/ws/2005/02/rm",
    RmVersion.RM11: "http://docs.oasis-open.org/ws-rx/wsrm/200702",
}
WSMC = "http://docs.oasis-open.org/ws-rx/wsmc/200702"
NETRM = "http://schemas.microsoft.com/ws/2006/05/rm"

RM11_SOAP12 = Protocol(SoapVersion.SOAP12, AddressingVersion.WSA10, RmVersion.RM11)
RM11_SOAP11 = Protocol(SoapVersion.SOAP11, AddressingVersion.WSA10, RmVersion.RM11)
RM10_SOAP12 = Protocol(SoapVersion.SOAP12, AddressingVersion.WSA10, RmVersion.RM10)
RM10_SOAP11 = Protocol(SoapVersion.SOAP11, AddressingVersion.WSA200408, RmVersion.RM10)

Ranges = tuple[tuple[int, int], ...]


class Foreign:
    """A foreign peer with one combination of versions. It numbers its messages."""

    def __init__(self, protocol: Protocol = RM11_SOAP12, name: str = "foreign") -> None:
        self.protocol = protocol
        self.name = name
        self._count = 0
        self.rm = RM[protocol.rm]
        self.wsa = WSA[protocol.addressing]

    def new_id(self) -> str:
        self._count += 1
        return f"urn:{self.name}:{self._count}"

    # --- pieces ----------------------------------------------------------------------------------------------------

    @property
    def anonymous(self) -> str:
        old = self.protocol.addressing is AddressingVersion.WSA200408
        return self.wsa + ("/role/anonymous" if old else "/anonymous")

    def epr(self, address: str, parameters: str = "") -> str:
        address = {"anonymous": self.anonymous, "none": f"{self.wsa}/none"}.get(address, address)
        extra = f"<a:ReferenceParameters>{parameters}</a:ReferenceParameters>" if parameters else ""
        return f"<a:Address>{address}</a:Address>{extra}"

    def sequence(self, identifier: str, number: int | str, *, last: bool = False) -> str:
        end = "<r:LastMessage/>" if last else ""
        return (
            f'<r:Sequence s:mustUnderstand="1"><r:Identifier>{identifier}</r:Identifier>'
            f"<r:MessageNumber>{number}</r:MessageNumber>{end}</r:Sequence>"
        )

    def acknowledgement(self, identifier: str, ranges: Ranges = (), *, final: bool = False, extra: str = "") -> str:
        listed = "".join(f'<r:AcknowledgementRange Lower="{low}" Upper="{high}"/>' for low, high in ranges)
        if not ranges and not extra:
            rm10 = self.protocol.rm is RmVersion.RM10
            listed = '<r:AcknowledgementRange Lower="0" Upper="0"/>' if rm10 else "<r:None/>"
        end = "<r:Final/>" if final else ""
        return (
            f"<r:SequenceAcknowledgement><r:Identifier>{identifier}</r:Identifier>"
            f"{listed}{end}{extra}</r:SequenceAcknowledgement>"
        )

    def ack_requested(self, identifier: str) -> str:
        return f"<r:AckRequested><r:Identifier>{identifier}</r:Identifier></r:AckRequested>"

    # --- messages --------------------------------------------------------------------------------------------------

    def envelope(
        self,
        action: str,
        content: str = "",
        *,
        headers: str = "",
        message_id: str | None = None,
        reply_to: str | None = None,
        reply_parameters: str = "",
        fault_to: str | None = None,
        relates_to: str | None = None,
        to: str = "http://server/services/orders",
    ) -> HttpMessage:
        """
        :param reply_to: an address, ``anonymous`` or ``none``; by default there is no such header.
        """
        blocks = f"<a:To>{to}</a:To><a:Action>{action}</a:Action>"
        blocks += f"<a:MessageID>{message_id or self.new_id()}</a:MessageID>" if message_id != "" else ""
        if reply_to is not None:
            blocks += f"<a:ReplyTo>{self.epr(reply_to, reply_parameters)}</a:ReplyTo>"
        if fault_to is not None:
            blocks += f"<a:FaultTo>{self.epr(fault_to)}</a:FaultTo>"
        if relates_to is not None:
            blocks += f"<a:RelatesTo>{relates_to}</a:RelatesTo>"
        text = (
            f'<?xml version="1.0"?>\n<s:Envelope xmlns:s="{SOAP[self.protocol.soap]}" xmlns:a="{self.wsa}" '
            f'xmlns:r="{self.rm}"><s:Header>{blocks}{headers}</s:Header><s:Body>{content}</s:Body></s:Envelope>'
        )
        if self.protocol.soap is SoapVersion.SOAP11:
            return HttpMessage(text.encode(), "text/xml; charset=utf-8", f'"{action}"')
        return HttpMessage(text.encode(), f'application/soap+xml; charset=utf-8; action="{action}"')

    def create(
        self,
        acks_to: str = "anonymous",
        *,
        offer: str | None = None,
        offer_endpoint: str | None = None,
        expires: str = "",
        follows: str | None = None,
        acks_parameters: str = "",
        **addressing: str,
    ) -> HttpMessage:
        content = f"<r:CreateSequence><r:AcksTo>{self.epr(acks_to, acks_parameters)}</r:AcksTo>"
        content += f"<r:Expires>{expires}</r:Expires>" if expires else ""
        if offer is not None:
            endpoint = f"<r:Endpoint>{self.epr(offer_endpoint or acks_to)}</r:Endpoint>"
            endpoint = endpoint if self.protocol.rm is RmVersion.RM11 else ""
            content += f"<r:Offer><r:Identifier>{offer}</r:Identifier>{endpoint}</r:Offer>"
        if follows is not None:
            content += f'<m:Follows xmlns:m="urn:mercury:rm">{follows}</m:Follows>'
        return self.envelope(f"{self.rm}/CreateSequence", f"{content}</r:CreateSequence>", **addressing)

    def created(
        self, identifier: str, relates_to: str | None, *, accept: str | None = None, extra: str = ""
    ) -> HttpMessage:
        taken = f"<r:Accept><r:AcksTo>{self.epr(accept)}</r:AcksTo></r:Accept>" if accept is not None else ""
        content = (
            f"<r:CreateSequenceResponse><r:Identifier>{identifier}</r:Identifier>{extra}{taken}"
            "</r:CreateSequenceResponse>"
        )
        return self.envelope(f"{self.rm}/CreateSequenceResponse", content, relates_to=relates_to)

    def note(
        self, identifier: str, number: int | str, text: str = "", *, last: bool = False, headers: str = "", **more: str
    ) -> HttpMessage:
        """A one-way message of a sequence."""
        blocks = self.sequence(identifier, number, last=last) + headers
        return self.envelope(NOTE, body(text or f"note {number}").decode(), headers=blocks, **more)

    def ask(self, identifier: str, number: int, text: str = "", *, headers: str = "", **more: str) -> HttpMessage:
        """A request of a sequence."""
        blocks = self.sequence(identifier, number) + headers
        return self.envelope(ASK, body(text or f"ask {number}").decode(), headers=blocks, **more)

    def respond(self, identifier: str, number: int, relates_to: str, text: str = "re", **more: str) -> HttpMessage:
        """A response on the offered sequence."""
        blocks = self.sequence(identifier, number) + more.pop("headers", "")
        content = body(text).decode()
        return self.envelope(f"{ASK}Response", content, headers=blocks, relates_to=relates_to, **more)

    def last_message(self, identifier: str, number: int) -> HttpMessage:
        """WS-RM 1.0: the empty last message."""
        return self.envelope(f"{self.rm}/LastMessage", headers=self.sequence(identifier, number, last=True))

    def close(self, identifier: str, last: int | None = None, **more: str) -> HttpMessage:
        return self._ending("CloseSequence", identifier, last, **more)

    def terminate(self, identifier: str, last: int | None = None, **more: str) -> HttpMessage:
        return self._ending("TerminateSequence", identifier, last, **more)

    def ended(self, name: str, identifier: str, relates_to: str, headers: str = "") -> HttpMessage:
        """CloseSequenceResponse or TerminateSequenceResponse."""
        content = f"<r:{name}><r:Identifier>{identifier}</r:Identifier></r:{name}>"
        return self.envelope(f"{self.rm}/{name}", content, relates_to=relates_to, headers=headers)

    def _ending(self, name: str, identifier: str, last: int | None, **more: str) -> HttpMessage:
        number = f"<r:LastMsgNumber>{last}</r:LastMsgNumber>" if last is not None else ""
        content = f"<r:{name}><r:Identifier>{identifier}</r:Identifier>{number}</r:{name}>"
        return self.envelope(f"{self.rm}/{name}", content, **more)

    def alone(self, headers: str, **more: str) -> HttpMessage:
        """A message with only headers, such as a standalone acknowledgement or AckRequested."""
        return self.envelope(f"{self.rm}/SequenceAcknowledgement", headers=headers, **more)

    def fault(self, code: str, identifier: str | None = None, *, headers: str = "", **more: str) -> HttpMessage:
        """A fault of WS-RM, or (with a prefix ``s:`` or ``a:``) of SOAP or WS-Addressing."""
        detail = f"<r:Identifier>{identifier}</r:Identifier>" if identifier is not None else ""
        detail += more.pop("detail", "")
        status = int(more.pop("status", "500"))
        blame = more.pop("blame", "Sender")
        reason = more.pop("reason", "so it is")
        name = code if ":" in code else f"r:{code}"
        if self.protocol.soap is SoapVersion.SOAP12:
            content = (
                f"<s:Fault><s:Code><s:Value>s:{blame}</s:Value><s:Subcode><s:Value>{name}</s:Value></s:Subcode></s:Code>"
                f'<s:Reason><s:Text xml:lang="en">{reason}</s:Text></s:Reason><s:Detail>{detail}</s:Detail></s:Fault>'
            )
        else:
            blame = {"Sender": "Client", "Receiver": "Server"}[blame]
            headed = identifier is not None
            content = (
                f"<s:Fault><faultcode>{f's:{blame}' if headed else name}</faultcode>"
                f"<faultstring>{reason}</faultstring>{'' if headed else f'<detail>{detail}</detail>'}</s:Fault>"
            )
            if headed:
                headers += f"<r:SequenceFault><r:FaultCode>{name}</r:FaultCode>{detail}</r:SequenceFault>"
        action = f"{self.rm}/fault" if self.protocol.rm is RmVersion.RM11 else f"{self.wsa}/fault"
        http = self.envelope(action, content, headers=headers, **more)
        return HttpMessage(http.body, http.content_type, None, status)

    def poll(self, address: str | None = None, identifier: str | None = None, *, headers: str = "") -> HttpMessage:
        """MakeConnection, with the selections in the order that Sandesha2 has."""
        content = f"<r:Identifier>{identifier}</r:Identifier>" if identifier is not None else ""
        content += f"<m:Address>{address}</m:Address>" if address is not None else ""
        content = f'<m:MakeConnection xmlns:m="{WSMC}">{content}</m:MakeConnection>'
        return self.envelope(f"{WSMC}/MakeConnection", content, headers=headers)

    # --- sequences at a node ---------------------------------------------------------------------------------------

    def open(self, server: Node, **creation: str) -> str:
        """Create a sequence at a server; returns its identifier."""
        reply = server.get(self.create(**creation))  # type: ignore[arg-type]
        assert b"CreateSequenceResponse" in reply.body, reply.body
        return identifier_in(reply)


def identifier_in(http: HttpMessage) -> str:
    """The first wsrm:Identifier of a message."""
    return http.body.split(b"Identifier>", 1)[1].split(b"</", 1)[0].decode()


def answer_to(node: Node, reply: HttpMessage, *, purpose: str) -> None:
    """Deliver a foreign reply to a node's post of this purpose, which is removed from the wire."""
    world = node.world
    for flight in world.wire:
        if flight.exchange is not None and flight.exchange.outgoing.purpose.value == purpose and not flight.is_reply:
            world.wire.remove(flight)
            flight.exchange.over = True
            node.answered(flight.exchange.outgoing, reply)
            return
    raise AssertionError(f"nothing of purpose {purpose} is on the wire: {[flight.name for flight in world.wire]}")


def brought(node: Node, http: HttpMessage, path: str = "responses") -> HttpMessage:
    """Post a foreign message to the endpoint for responses; returns the HTTP reply."""
    return node.get(http, path)


def answer_post(client: Node, flight: Flight, reply: HttpMessage, *, listens: bool) -> None:
    """Answer a post of the client on its connection, or at the address where the client listens."""
    assert flight.exchange is not None
    flight.exchange.over = True
    client.answered(flight.exchange.outgoing, ACCEPTED if listens else reply)
    if listens:
        brought(client, reply)


__all__ = ["Arrival", "Foreign", "answer_post", "answer_to", "brought", "identifier_in"]
