"""The channel of a sender: the endpoint, the key, and the address for acknowledgements and responses."""

from __future__ import annotations

from collections.abc import Callable

from mercury.engine.addresses import split_url
from mercury.engine.failover_uri import is_failover
from mercury.errors import ConfigurationError
from mercury.statemachine.bounds import at_least, at_most
from mercury.statemachine.messages import ANONYMOUS_ENDPOINT, MAKE_CONNECTION_ANONYMOUS, EndpointReference
from mercury.statemachine.policy import SourcePolicy
from mercury.statemachine.protocol import RmVersion
from mercury.storage.records import Channel, SequenceKey


def channel_to(
    url: str,
    key: str,
    policy: SourcePolicy,
    *,
    listen: bool | None,
    responses: str | None,
    identity: str | None,
    new_id: Callable[[], str],
    wsa_to: str | None = None,
    priority: int = 0,
) -> Channel:
    """The channel of a sender; parameters are those of `Mercury.to`.

    :param url: the endpoint's URL, or the name of a destination with several addresses (`FailoverUri.endpoint`).
    :param responses: the URL at which this process takes responses; ``None`` = this process has no address.
    :param identity: the identity of the peer when it posts to this process.
    :param new_id: returns a new identifier, for the address of a client that fetches.
    :raises ConfigurationError: the key or URL is invalid, the versions cannot be combined, or the address is missing.
    """
    if not key:
        raise ConfigurationError("key: it is empty; messages with the same URL and key share a sequence")
    if not is_failover(url) and split_url(url).username is not None:
        raise ConfigurationError("a user's name and password cannot be part of the URL to send to")
    if wsa_to is not None and (not wsa_to.strip() or not wsa_to.isprintable()):
        raise ConfigurationError(f"wsa_to: not a URI: {wsa_to!r}")
    at_least(0, priority=priority)
    at_most(9, priority=priority)
    if not policy.protocol.legal:
        raise ConfigurationError(f"these versions cannot be combined: {policy.protocol}")
    if policy.make_connection and policy.protocol.rm is not RmVersion.RM11:
        raise ConfigurationError(f"make_connection needs WS-RM 1.1, not with {policy.protocol}")
    if listen and responses is None:
        raise ConfigurationError("to listen, Mercury needs an address: Mercury(..., address='http://host:port')")
    reply_to = ANONYMOUS_ENDPOINT
    if responses is not None and listen is not False:
        reply_to = EndpointReference(responses)
    elif policy.make_connection:
        # One address for each peer: a peer that knows the address could fetch messages of another peer with it (MC-05).
        reply_to = EndpointReference(MAKE_CONNECTION_ANONYMOUS + new_id().removeprefix("urn:uuid:"))
    return Channel(
        key=SequenceKey(url, key),
        policy=policy,
        reply_to=reply_to,
        identity=identity,
        wsa_to=None if wsa_to == url else wsa_to,
        priority=priority,
    )
