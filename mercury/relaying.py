"""A relay: a service that passes every message on to another endpoint, in the transaction that consumes it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mercury.engine.addresses import split_url
from mercury.engine.application import ANY_ACTION, MessageContext
from mercury.engine.discovery_uri import read_destination
from mercury.engine.failover_uri import SCHEME, is_failover, name_of
from mercury.errors import ApplicationFault, ConfigurationError, PayloadError
from mercury.service import paths
from mercury.service.definition import Service
from mercury.statemachine.bounds import INDEXED_BYTES
from mercury.wire.mapping import from_xml, to_xml

if TYPE_CHECKING:
    from mercury.facade import Mercury

#: The namespace of the header block that a relay adds.
NAMESPACE = "urn:mercury:relay"
#: A list of addresses of a pair, as ActiveMQ writes it.
_ORDERED = "masterslave:"
#: The most relays on a message's way.
MOST_HOPS = 16


@dataclass(frozen=True)
class Relayed:
    """The header block of a message that has passed relays."""

    #: The relays on its way, the first one first: the id of the store and the service of each.
    hop: list[str] = field(default_factory=list)
    #: The host that the first relay has it from: messages of one host stay in order.
    key: str = ""
    #: The MessageID that its sender has given it.
    message_id: str = ""


def relay_service(mercury: Mercury, to: str, name: str, actions: Sequence[str] = ()) -> Service:
    """A service that sends on what it receives; `Mercury.add_service` hosts it.

    Each message is consumed and stored for the next endpoint in one transaction. Messages of one peer, which is the
    host that the first relay on the way has them from, leave in the order in which they came. Action, body, other
    header blocks and the end of the time to live are kept; MessageID, WS-Security and the sequence are those of the
    next part of the way, whose acknowledgements come back on the relay's own connections. A message that asks for a
    response at an address, that comes again to this relay, that has passed `MOST_HOPS` relays, or that is too large to
    be sent (`PayloadError`), becomes a dead letter.

    :param to: the URL of the next endpoint, or a list of addresses (`destination`).
    :param name: the service's name, the last part of its path.
    :param actions: the actions that are relayed, others are refused; empty = all.
    :raises ConfigurationError: ``to`` is no URL or this service itself, or the store cannot be a relay's.
    """
    identity = getattr(mercury.store, "id", None)
    if not mercury.store.capabilities.durable or not isinstance(identity, str):
        raise ConfigurationError("store: a relay needs a store in a database, which keeps what it has accepted")
    own = f"{identity}/{name}"
    here = f"{mercury.address}{paths.SERVICES}/{name}" if mercury.address is not None else None
    if here is not None and any(_place(each) == _place(here) for each in addresses(to)):
        raise ConfigurationError(f"to: {to!r} is this relay itself")
    to = destination(to)
    mercury.to(to, listen=False)  # so that a wrong address is found now
    service = Service(name)

    def relay(body: bytes, context: MessageContext) -> None:
        passed, others = _header(context)
        if context.reply_to is not None:
            raise ApplicationFault(f"it asks for a response at {context.reply_to}, and a relay passes on none")
        if own in passed.hop:
            raise ApplicationFault(f"loop: it has passed this relay before ({len(passed.hop)} relays on its way)")
        if len(passed.hop) >= MOST_HOPS:
            raise ApplicationFault(f"it has passed {len(passed.hop)} relays, the most that are allowed")
        origin, first = passed.key or context.peer or "default", passed.message_id or context.message_id or ""
        added = Relayed([*passed.hop, own], origin, first)
        header = to_xml(added, NAMESPACE)
        try:
            mercury.to(to, key=key_of(passed.key, context.peer), listen=False).send(
                body or None,  # bytes would have to be an element
                action=context.action,
                headers=[*others, header],
                expires_at=context.expires_at,
                # By it `mercury reconcile` finds here what the client has sent under that MessageID.
                correlation=_correlation(first),
                tx=context.transaction,
            )
        except PayloadError as error:
            # What is sent has lower limits than what is received. No other attempt would send it, and the messages
            # behind it would wait.
            raise ApplicationFault(f"it cannot be sent on: {error}") from error

    for action in actions or (ANY_ACTION,):
        service.operation(None if action == ANY_ACTION else f"relay-{len(service.operations)}", action=action)(relay)
    return service


def destination(to: str) -> str:
    """What `Mercury.to` takes for ``to``: ``masterslave:(a,b)`` is a list of addresses that are tried in their order,
    ``failover:(a,b)?randomize=false``."""
    if not to.startswith(_ORDERED):
        return to
    rest = to.removeprefix(_ORDERED)
    return f"{SCHEME}{rest}{'&' if '?' in rest else '?'}randomize=false"


def addresses(to: str) -> tuple[str, ...]:
    """The addresses of a destination; none are known of one that the settings name.

    :raises ConfigurationError: it is not a list of addresses.
    """
    to = destination(to)
    if not is_failover(to):
        return (to,)
    return read_destination(to).urls if name_of(to) is None else ()


def _header(context: MessageContext) -> tuple[Relayed, list[bytes]]:
    """What relays have noted on a message, and its other header blocks.

    :raises ApplicationFault: it cannot be read.
    """
    found, others = Relayed(), []
    for block in context.headers:
        if NAMESPACE.encode() not in block:
            others.append(block)
            continue
        try:
            found = from_xml(block, Relayed, NAMESPACE, name="Relayed")
        except PayloadError as error:
            raise ApplicationFault(f"the header block of relays cannot be read: {error}") from error
    return found, others


def key_of(relayed: str, peer: str | None) -> str:
    """The key under which a message leaves.

    A peer may have written the header block, so there are 256 keys for what it says: otherwise each message could ask
    for a sequence of its own at the next endpoint. None of them is the key of messages without the block.

    :param relayed: the key of the header block; empty = there is none.
    :param peer: the host that the message has come from.
    """
    if not relayed:
        return peer or "default"
    return f"relayed {hashlib.sha256(relayed.encode('utf-8', 'backslashreplace')).digest()[0]}"


def _correlation(message_id: str) -> str | None:
    """A MessageID as the correlation, unless it is one that a store does not take: a peer has written it."""
    fits = 0 < len(message_id.encode("utf-8", "backslashreplace")) <= INDEXED_BYTES and message_id.isprintable()
    return message_id if fits else None


def _place(url: str) -> tuple[str, int | None, str]:
    parts = split_url(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return (parts.hostname or "").lower(), port, parts.path.rstrip("/")
