"""The channels that responses to the requests of a sequence take."""

from __future__ import annotations

from dataclasses import replace

from mercury.statemachine.messages import ANONYMOUS, EndpointReference
from mercury.statemachine.policy import SourcePolicy
from mercury.storage.records import Channel, InvokerRecord, RmdRecord, Role, SequenceKey

#: Seconds between two checks whether the requests' sequence of retained replies has ended; its end wakes them anyway.
REPLIES_POLL_INTERVAL = 3600.0
#: Seconds after which a response sequence that nothing ended ends by itself.
RESPONSE_IDLE = 86400.0
#: The window of a channel whose messages the peer fetches by MakeConnection, each with a request of its own.
FETCHED_WINDOW = 16
#: Why there is no way for a response.
TOO_MANY_ADDRESSES = (
    "the requests of this sequence name too many addresses for their responses (engine.max_response_addresses)"
)


def response_channel(request: RmdRecord, endpoint: EndpointReference) -> Channel:
    """The channel for responses to the requests of a destination sequence."""
    policy = SourcePolicy(
        protocol=request.protocol, offer=False, idle_timeout=None if endpoint.anonymous else RESPONSE_IDLE
    )
    return Channel(
        key=SequenceKey(endpoint.address, f"response/{request.identifier}"),
        policy=replace(policy, window=FETCHED_WINDOW) if endpoint.polled else policy,
        reply_to=EndpointReference(request.to),
        role=Role.RESPONSE,
        pair=request.identifier,
        identity=request.identity,
    )


def reply_channel(request: RmdRecord) -> Channel:
    """The channel for replies outside any sequence, fetched over the back-channel, to the requests of a sequence.

    What goes through it is retained while the request sequence lives: nothing acknowledges it.
    """
    return Channel(
        key=SequenceKey(ANONYMOUS, f"reply/{request.identifier}"),
        policy=SourcePolicy(protocol=request.protocol, offer=False, idle_timeout=None, tombstone=0.0),
        reply_to=EndpointReference(request.to),
        role=Role.REPLY,
        pair=request.identifier,
        identity=request.identity,
    )


def fetched_channel(request: RmdRecord) -> Channel:
    """The channel of the responses to a sequence's requests that go out on connections only: it ends with them."""
    offered = request.response_channel
    return offered if offered is not None and offered.back_channel else reply_channel(request)


def exceeds_addresses(buffer: InvokerRecord, address: str, most: int) -> bool:
    """Whether responses of a sequence's requests go to ``most`` addresses already, and not to this one.

    A sequence of its own is made for each, at an address that a peer has chosen.
    """
    known = {channel.key.endpoint for channel in buffer.response_channels}
    return address not in known and len(known) >= most


def hopeless(request: RmdRecord | None, grace: float, now: float, *, agreed: bool) -> bool:
    """Whether responses are given up that their address has not taken for ``grace`` seconds.

    :param request: the sequence of the requests; ``None`` = it is forgotten.
    :param grace: how long they are posted after the end of the requests, in seconds.
    :param agreed: the address has a sequence for them. It may be out of reach for a while, and takes up the sequence
        again: they are posted as long as the sequence of the requests is remembered.
    """
    if agreed:
        return request is None
    over_at = unfetchable_at(request, grace)
    return over_at is not None and over_at <= now


def unfetchable_at(request: RmdRecord | None, grace: float) -> float | None:
    """When the replies to the requests of a sequence can no longer be fetched; ``None`` = that is not known yet.

    :param request: the sequence; ``None`` = it is deleted.
    :param grace: seconds after the end of the sequence in which its replies can still be fetched.
    """
    if request is None:
        return 0.0
    return None if request.machine.ended_at is None else request.machine.ended_at + grace
