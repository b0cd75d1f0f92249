"""Which peer owns a sequence (WS-RM section 5, SEC-01): the identity that created it, or the endpoint it belongs to.

An identity is what WS-Security proved of the message, or else what the HTTP layer established: the name in a TLS client
certificate, or what the application's ``authenticate`` returned. Where none is known, a peer only needs to know the
identifier of a sequence, which is random and must be sent over TLS.
"""

from __future__ import annotations

from mercury.engine.exchange import Arrival
from mercury.storage.records import OutboundMessage, RmdRecord, RmsRecord, Role


def owns_destination(arrival: Arrival, record: RmdRecord) -> bool:
    """Whether an arrival may send messages, AckRequested, CloseSequence and TerminateSequence of a received
    sequence."""
    if arrival.request is not None:
        # It is a reply: its endpoint owns the sequences that were exchanged with it.
        channel = record.response_channel
        endpoints = (record.offered_to, record.acks_to.url, channel.endpoint if channel is not None else "")
        return arrival.request.url in endpoints
    if record.service != arrival.service:
        return False  # a sequence belongs to the service that it was created at
    if record.token is not None and record.token not in arrival.tokens:
        return False  # SEC-02
    return record.identity is None or record.identity == arrival.identity


def owns_source(arrival: Arrival, record: RmsRecord) -> bool:
    """Whether an arrival may send acknowledgements, responses and faults about a sequence of this side."""
    channel = record.channel
    if arrival.request is not None:
        same_pair = channel.pair is not None and channel.pair in (arrival.request.rmd, arrival.request.pair)
        return arrival.request.url == channel.endpoint or same_pair
    if channel.role is Role.REQUEST and (not channel.reply_to.addressable or arrival.service is not None):
        return False  # RM-ACK-10: all about it arrives on connections of this side, or at its address for responses
    return channel.identity is None or channel.identity == arrival.identity


def may_answer(
    arrival: Arrival, request: OutboundMessage, source: RmsRecord | None, sequence: RmdRecord | None
) -> bool:
    """Whether an arrival may answer a request of this side: it must come from the peer that the request went to.

    :param source: the sequence of the request; ``None`` = it has none, or none any more.
    :param sequence: the sequence that the response comes on, which the arrival owns; ``None`` = none.
    """
    endpoint = request.channel.endpoint
    if sequence is not None and sequence.offered_to:
        return sequence.offered_to == endpoint
    if arrival.request is not None:
        return arrival.request.url == endpoint
    channel = source.channel if source is not None else request.channel
    return request.channel.reply_to.addressable and channel.identity in (None, arrival.identity)


def may_fetch(arrival: Arrival, identity: str | None) -> bool:
    """Whether a MakeConnection gets the messages for this identity: to know the address is not enough (MC-05).

    A client with an identity gets nothing that belongs to no identity: any peer could put messages there.
    """
    return identity == arrival.identity


def may_follow(arrival: Arrival, record: RmdRecord) -> bool:
    """Whether a new sequence may name this one as the sequence that it follows."""
    return record.service == arrival.service and owns_destination(arrival, record)
