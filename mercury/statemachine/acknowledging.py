"""How an acknowledgement travels to its source, and which reply carries which acknowledgements. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mercury.statemachine.messages import EndpointReference


def is_posted(acks_to: EndpointReference) -> bool:
    """Whether acknowledgements are posted as stand-alone messages: only if AcksTo is an address (RM-ACK-10)."""
    return acks_to.addressable


def leaves_on_reply(acks_to: EndpointReference, *, has_reply: bool) -> bool:
    """Whether the reply to an arrival about a sequence carries the acknowledgement of that sequence (RM-ACK-10).

    :param has_reply: the arrival is an HTTP request from the peer. An arrival in an HTTP response has no reply.
    """
    return has_reply and not is_posted(acks_to)


def waits_to_be_fetched(acks_to: EndpointReference, ack_due: float | None) -> bool:
    """Whether MakeConnection may fetch the acknowledgement: the client has no address, and one is due."""
    return acks_to.polled and ack_due is not None


@dataclass(frozen=True, slots=True)
class Carrier:
    """An exchange whose reply may carry acknowledgements."""

    #: Identifiers of the sequences that the reply may acknowledge, in order (RM-ACK-10).
    sequences: tuple[str, ...]
    #: Identifiers of the sequences for which the arrival requests an acknowledgement.
    requested: frozenset[str] = frozenset()
    #: The exchange is answered immediately with something else: a fault, or a reply that has its own body.
    otherwise: bool = False
    #: The exchange may be held open for its response, so its answer may be late.
    held: bool = False


def share(carriers: Sequence[Carrier]) -> list[tuple[str, ...]]:
    """The sequences that each exchange acknowledges, for arrivals handled in one transaction.

    An exchange that requests an acknowledgement gets one (RM-ACK-06); it covers all these arrivals. If no exchange
    requests one, the last exchange of the sequence carries it (RM-ACK-11). An exchange that is answered now is
    preferred to a held one, so that stored messages are acknowledged immediately.
    """
    requested = {sequence for carrier in carriers for sequence in carrier.requested}
    at_once = [place for place, carrier in enumerate(carriers) if not carrier.otherwise]
    at_once.sort(key=lambda place: not carriers[place].held)
    last = {sequence: place for place in at_once for sequence in carriers[place].sequences}
    return [
        tuple(
            sequence
            for sequence in carrier.sequences
            if sequence in carrier.requested or (sequence not in requested and last.get(sequence) == place)
        )
        for place, carrier in enumerate(carriers)
    ]
