"""The channels for responses to the requests of a sequence."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from mercury.engine.addresses import endpoint_of
from mercury.statemachine.messages import ANONYMOUS, EndpointReference
from mercury.statemachine.policy import SourcePolicy
from mercury.statemachine.protocol import Protocol
from mercury.storage.records import Channel, InvokerRecord, RmdRecord, Role, SequenceKey

#: Seconds between two checks whether the request sequence of retained replies has ended. Its end usually wakes the
#: worker.
REPLIES_POLL_INTERVAL = 3600.0
#: Seconds after which a response sequence that nothing ended ends by itself.
RESPONSE_IDLE = 86400.0
#: The window of a channel whose messages the peer fetches by MakeConnection, each with a request of its own.
FETCHED_WINDOW = 16
#: The reason why a response cannot be sent.
TOO_MANY_ADDRESSES = (
    "the requests of this sequence name too many addresses for their responses (engine.max_response_addresses)"
)


def response_channel(request: RmdRecord, endpoint: EndpointReference) -> Channel:
    """The channel for responses to the requests of a destination sequence."""
    return Channel(
        key=SequenceKey(endpoint.address, f"response/{request.identifier}"),
        policy=_response_policy(request.protocol, anonymous=endpoint.anonymous, polled=endpoint.polled),
        reply_to=EndpointReference(request.to),
        role=Role.RESPONSE,
        pair=request.identifier,
        identity=request.identity,
    )


@lru_cache(maxsize=64)
def _response_policy(protocol: Protocol, *, anonymous: bool, polled: bool) -> SourcePolicy:
    """One object for all channels: it takes long to make."""
    policy = SourcePolicy(protocol=protocol, offer=False, idle_timeout=None if anonymous else RESPONSE_IDLE)
    return replace(policy, window=FETCHED_WINDOW) if polled else policy


def reply_channel(request: RmdRecord) -> Channel:
    """The channel for replies outside any sequence, fetched over the back-channel, to the requests of a sequence.

    Its messages are retained until the request sequence ends, because nothing acknowledges them.
    """
    return Channel(
        key=reply_key(request),
        policy=SourcePolicy(protocol=request.protocol, offer=False, idle_timeout=None, tombstone=0.0),
        reply_to=EndpointReference(request.to),
        role=Role.REPLY,
        pair=request.identifier,
        identity=request.identity,
    )


def reply_key(request: RmdRecord) -> SequenceKey:
    """The key of `reply_channel`."""
    return SequenceKey(ANONYMOUS, f"reply/{request.identifier}")


def fetched_key(request: RmdRecord) -> SequenceKey:
    """The key of the responses that are sent only on connections of the client; its channel ends with the sequence of
    requests."""
    offered = request.response_channel
    return offered.key if offered is not None and offered.back_channel else reply_key(request)


def channel_of_response(request: RmdRecord, reply_to: EndpointReference | None) -> Channel:
    """The channel of the offered sequence, if its endpoint is that of the response; else a new sequence, or none.

    :param reply_to: the endpoint that the request names for it; ``None`` = none.
    """
    offered = request.response_channel
    if reply_to is None or not has_address(reply_to):
        return offered if offered is not None and offered.back_channel else reply_channel(request)
    if offered is not None and endpoint_of(reply_to.address) == endpoint_of(offered.endpoint):
        return offered
    return response_channel(request, reply_to)


def has_address(endpoint: EndpointReference) -> bool:
    """Whether a response to this endpoint is posted there, or fetched by MakeConnection."""
    return endpoint.addressable or endpoint.polled


def exceeds_addresses(buffer: InvokerRecord, address: str, most: int) -> bool:
    """Whether responses of a sequence's requests go to ``most`` addresses already, and not to this one.

    Each address gets a separate response sequence, and the peer chooses the addresses.
    """
    known = {channel.key.endpoint for channel in buffer.response_channels}
    return address not in known and len(known) >= most


def gives_up_responses(request: RmdRecord | None, grace: float, now: float, *, agreed: bool) -> bool:
    """Whether to give up responses that their address has not accepted for ``grace`` seconds.

    :param request: the sequence of the requests; ``None`` = its tombstone is deleted.
    :param grace: how long responses are posted after the end of the requests, in seconds.
    :param agreed: the address has created a sequence for them. It may be unreachable for a while and then continue the
        sequence, so the responses are posted until the tombstone of the requests is deleted.
    """
    if agreed:
        return request is None
    over_at = unfetchable_at(request, grace)
    return over_at is not None and over_at <= now


def unfetchable_at(request: RmdRecord | None, grace: float) -> float | None:
    """When the replies to the requests of a sequence can no longer be fetched; ``None`` = not known yet.

    :param request: the sequence; ``None`` = it is deleted.
    :param grace: seconds after the end of the sequence in which its replies can still be fetched.
    """
    if request is None:
        return 0.0
    return None if request.machine.ended_at is None else request.machine.ended_at + grace
