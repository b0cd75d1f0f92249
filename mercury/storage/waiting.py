"""What an operator sees of a store: messages that wait, one by one and counted. Times are seconds since the epoch."""

from __future__ import annotations

from dataclasses import dataclass, field

from mercury.storage.records import Direction, RmdRecord, RmsRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingMessage:
    """A message that is not done: sent and not acknowledged or answered, or received and not consumed."""

    direction: Direction
    #: The order of insertion: with the direction it names the message in this store.
    position: int
    message_id: str | None
    #: The endpoint and key of an outbound message, the service (empty: responses) of an inbound one.
    endpoint: str
    key: str = ""
    #: The identifier of the sequence, as far as it has one.
    sequence: str | None = None
    number: int | None = None
    action: str = ""
    correlation: str | None = None
    #: When it was handed over, or received.
    since: float
    #: What it waits for, in words.
    state: str
    #: Transmissions, or tries of the handler that failed.
    attempts: int = 0
    last_error: str | None = None
    #: When it is tried again; ``None`` = when something happens.
    next_try: float | None = None
    #: It is the one that the others of its sequence wait for.
    first: bool = False

    @property
    def id(self) -> str:
        """What `mercury messages` calls it: ``out-17``, ``in-4``."""
        return f"{'out' if self.direction is Direction.OUTBOUND else 'in'}-{self.position}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingFilter:
    """Which messages that wait are meant: those for which everything is true that is given here."""

    endpoint: str | None = None
    key: str | None = None
    #: Positions after this one.
    after: int = 0
    #: Only this one.
    position: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outbound:
    """What waits for one endpoint under one key."""

    endpoint: str
    key: str
    unacknowledged: int
    #: Acknowledged requests without a response.
    unanswered: int
    #: When the oldest unacknowledged one was handed over.
    oldest: float | None
    #: Transmissions of the one that was sent most often.
    attempts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Inbound:
    """What waits for one service (empty: for callbacks)."""

    service: str
    unhandled: int
    sequences: int
    #: When the oldest one was received.
    oldest: float | None
    #: Sequences whose first message fails.
    failing: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreStatus:
    """A store as a whole."""

    unacknowledged: int = 0
    unanswered: int = 0
    unhandled: int = 0
    oldest_unacknowledged: float | None = None
    oldest_unhandled: float | None = None
    dead_letters: int = 0
    #: Bytes of those that peers have caused: they count for the limits on what waits.
    letter_bytes: int = 0
    #: Two-phase commits that are decided and not finished in every database.
    in_doubt: int = 0
    oldest_in_doubt: float | None = None
    #: Per endpoint and key, and per service: those with the oldest messages first, not all of them in a large store.
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
