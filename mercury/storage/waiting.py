"""Waiting messages of a store, singly and as counts, for operators. Times are seconds since the epoch."""

from __future__ import annotations

from dataclasses import dataclass, field

from mercury.storage.letters import Direction
from mercury.storage.records import RmdRecord, RmsRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingMessage:
    """A message that is not done: sent and not acknowledged or answered, or received and not consumed."""

    direction: Direction
    #: The order of insertion; position and direction identify the message in this store.
    position: int
    message_id: str | None
    #: The endpoint and key of an outbound message, the service (empty: responses) of an inbound one.
    endpoint: str
    key: str = ""
    #: The identifier of the sequence; ``None`` = it has none yet.
    sequence: str | None = None
    number: int | None = None
    action: str = ""
    correlation: str | None = None
    #: When it was handed over, or received.
    since: float
    #: The state in words: what the message waits for.
    state: str
    #: Transmissions, or tries of the handler that failed.
    attempts: int = 0
    last_error: str | None = None
    #: When it is tried again, or may be sent; ``None`` = an event decides.
    next_try: float | None = None
    #: When it expires, and before when it is not sent; ``None`` = no limit.
    expires_at: float | None = None
    not_before: float | None = None
    #: The priority of an outbound message's key.
    priority: int = 0
    #: The other messages of its sequence wait for this one.
    first: bool = False

    @property
    def id(self) -> str:
        """Its name in `mercury messages`: ``out-17``, ``in-4``."""
        return f"{'out' if self.direction is Direction.OUTBOUND else 'in'}-{self.position}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingFilter:
    """A filter on waiting messages: those that meet all conditions given here."""

    endpoint: str | None = None
    key: str | None = None
    #: Only messages with a higher position.
    after: int = 0
    #: Only the message with this position.
    position: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outbound:
    """The backlog to one endpoint under one key."""

    endpoint: str
    key: str
    unacknowledged: int
    #: Acknowledged requests without a response.
    unanswered: int
    #: The time at which the oldest unacknowledged message was handed over.
    oldest: float | None
    #: The highest number of transmissions of one message.
    attempts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Inbound:
    """The backlog for one service (empty name: for callbacks of responses)."""

    service: str
    unhandled: int
    sequences: int
    #: The time at which the oldest message was received.
    oldest: float | None
    #: Sequences whose first message fails in its handler.
    failing: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreStatus:
    """Totals of a store."""

    unacknowledged: int = 0
    unanswered: int = 0
    unhandled: int = 0
    oldest_unacknowledged: float | None = None
    oldest_unhandled: float | None = None
    dead_letters: int = 0
    #: Bytes of the dead letters that have an owner: they count for the limits on the backlog.
    letter_bytes: int = 0
    #: Two-phase commits that are decided but not finished in every database.
    in_doubt: int = 0
    oldest_in_doubt: float | None = None
    #: Per endpoint and key, and per service: those with the oldest messages first; cut off in a large store.
    outbound: tuple[Outbound, ...] = field(default=())
    inbound: tuple[Inbound, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class SourceInStore:
    """A sequence at its source, with the number of messages that wait in it."""

    record: RmsRecord
    waiting: int


@dataclass(frozen=True, slots=True)
class DestinationInStore:
    """A sequence at its destination, with the number of messages that wait for the application."""

    record: RmdRecord
    waiting: int
    last_error: str | None
