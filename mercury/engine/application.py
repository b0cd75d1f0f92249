"""The interface of the application to the engine: its operations and callbacks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from mercury.errors import MercuryError
from mercury.statemachine.policy import DestinationPolicy
from mercury.storage.application import Transaction
from mercury.wire.envelope import Payload
from mercury.wire.scan import DEFAULT_LIMITS, Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageContext:
    """The facts about a message that its handler or callback gets."""

    #: wsa:MessageID, the same at every repetition.
    message_id: str | None
    #: The identifier of the sequence, and the message's number in it.
    sequence: str
    number: int
    #: 1 at the first try.
    attempt: int
    #: The host that created the sequence; empty = unknown.
    peer: str
    #: What the sender's application gave the message, where this side knows it (responses do).
    correlation: str | None
    action: str
    #: The transaction in which the message is consumed. What is sent with it commits with the consumption.
    transaction: Transaction
    #: The request that a response answers.
    relates_to: str | None = None
    #: Other header blocks of the message, each standalone XML.
    headers: tuple[bytes, ...] = ()
    #: When its time to live ends, in seconds since the epoch; ``None`` = it has no limit.
    expires_at: float | None = None
    #: The address to which its sender wants a response to be posted; ``None`` = it names none.
    reply_to: str | None = None
    #: What its response may be: ``engine.limits.max_bytes`` and the others.
    limits: Limits = DEFAULT_LIMITS


#: The action of an operation that takes every message of its service that no other operation takes.
ANY_ACTION = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One operation of a service."""

    name: str
    action: str
    #: ``None`` = one-way (in-only).
    response_action: str | None
    #: Consumes a request; returns the response's payload, or ``None`` for one-way.
    call: Callable[[MessageContext, Payload], Payload | None]
    #: The local name of the body's element, for the WSDL.
    element: str = ""
    #: The mapped classes of the body and of the response's; ``bytes`` = raw XML.
    request: type[Any] = bytes
    response: type[Any] = bytes
    #: The most messages that one call of `call_together` takes; 1 = there is only `call`.
    batch: int = 1
    #: Consumes requests of one sequence; returns as many responses, ``None`` each for one-way.
    call_together: Callable[[Sequence[MessageContext], Sequence[Payload]], Sequence[Payload | None]] | None = None
    #: Seconds that a call may take; its work is rolled back if it takes longer. ``None`` = no limit.
    time_limit: float | None = None
    #: `call` reads the `Payload.attachments` of a request; otherwise such a request is refused.
    takes_attachments: bool = False


#: The prefix of callback names that stand for a future of one process.
FUTURE = "future:"

#: Consumes a response, or the fault that came instead of one.
Callback = Callable[[MessageContext, "Payload | MercuryError"], None]


class Application(Protocol):
    """The application as the engine sees it."""

    def services(self) -> frozenset[str]:
        """The names of the services that are hosted."""

    def has_service(self, service: str) -> bool:
        """Whether a service of this name is hosted."""

    def operation(self, service: str, action: str) -> Operation | None:
        """The operation for an action; none for an empty one."""

    def largest_batch(self, service: str | None) -> int:
        """The largest `Operation.batch` of a service; 1 for ``None``."""

    def policy(self, service: str | None) -> DestinationPolicy:
        """How sequences at a service are treated; ``None`` = sequences of responses."""

    def understands(self, service: str | None) -> frozenset[str]:
        """Header blocks, in Clark notation, that the service understands beyond the protocols' own."""

    def callback(self, name: str) -> Callback | None:
        """What consumes a response, by its registered name."""
