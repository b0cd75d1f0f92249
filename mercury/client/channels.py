"""Where a sender's messages go, under which key, and where answers come back."""

from __future__ import annotations

from mercury.engine.addresses import split_url
from mercury.errors import ConfigurationError
from mercury.statemachine.messages import ANONYMOUS_ENDPOINT, EndpointReference
from mercury.statemachine.policy import SourcePolicy
from mercury.storage.records import Channel, SequenceKey


def channel_to(
    url: str, key: str, policy: SourcePolicy, *, listen: bool | None, responses: str | None, identity: str | None
) -> Channel:
    """The channel of a sender; parameters are those of `Mercury.to`.

    :param responses: the URL where this process takes responses; ``None`` = it has no address.
    :param identity: that of the peer when it posts here.
    :raises ConfigurationError: the key or the URL is none, the versions do not agree, or there is no address.
    """
    if not key:
        raise ConfigurationError("key: it is empty; messages with the same URL and key share a sequence")
    if split_url(url).username is not None:
        raise ConfigurationError("a user's name and password cannot be part of the URL to send to")
    if not policy.protocol.legal:
        raise ConfigurationError(f"these versions do not go together: {policy.protocol}")
    if listen and responses is None:
        raise ConfigurationError("to listen, Mercury needs an address: Mercury(..., address='http://host:port')")
    posted = responses is not None and listen is not False
    reply_to = EndpointReference(responses) if posted and responses is not None else ANONYMOUS_ENDPOINT
    return Channel(key=SequenceKey(url, key), policy=policy, reply_to=reply_to, identity=identity)
