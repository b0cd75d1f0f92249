"""Filters, pages and bounded figures for operators of a store. Times are seconds since the epoch."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from mercury.storage.claims import SUSPENDED
from mercury.storage.letters import Direction
from mercury.storage.records import InvokerRecord, RmdRecord, RmsRecord

T = TypeVar("T")

#: The most rows of a table that one page reads, and the most rows that a figure counts.
MOST_ROWS = 10_000


class UnknownPlace(ValueError):
    """The argument for a following page is not one that a page has named."""

    def __init__(self, after: str) -> None:
        super().__init__(f"{after[:60]!r} is not from a page")


def position_of(after: str) -> int:
    """The position after which a page begins.

    :raises UnknownPlace: the text is not from a page.
    """
    if not after.isascii() or not after.isdigit() or len(after) > 18:
        raise UnknownPlace(after)
    return int(after)


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """A part of a list. It may have fewer items than were asked for although more follow: a page reads at most
    `MOST_ROWS` rows."""

    items: tuple[T, ...]
    #: The argument for the following page; ``None`` = the list ends here.
    after: str | None = None


@dataclass(frozen=True, slots=True)
class Count:
    """A number of rows, counted up to a limit."""

    value: int
    #: There are more.
    more: bool = False

    def __str__(self) -> str:
        return f"more than {self.value}" if self.more else str(self.value)


class MessageState(enum.Enum):
    """A state of a waiting message that can be searched for."""

    #: Handed over, and not transmitted yet, with or without a message number.
    UNSENT = "unsent"
    #: Transmitted, and not acknowledged.
    UNACKNOWLEDGED = "unacknowledged"
    #: A request that is acknowledged and has no response yet.
    UNANSWERED = "unanswered"
    #: Received, and its handler has failed.
    FAILING = "failing"


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageFilter:
    """A filter on the waiting messages of one direction: those that meet all conditions given here.

    MessageID, correlation, sequence, and endpoint with key are found by an index. The others are compared row by row.
    """

    message_id: str | None = None
    correlation: str | None = None
    #: The endpoint and the key of outbound messages, with or without a sequence; the whole texts.
    endpoint: str | None = None
    key: str | None = None
    #: The service of inbound messages; empty = responses.
    service: str | None = None
    #: The identifier of the sequence.
    sequence: str | None = None
    state: MessageState | None = None
    #: Handed over or received at this time or later, and before that time.
    since: float | None = None
    until: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """A message that is done, and had a correlation. Times are seconds since the epoch."""

    message_id: str
    correlation: str
    #: The internal id of its sequence.
    sequence_id: str | None
    number: int | None
    created_at: float
    settled_at: float
    #: The identifier of its sequence, its endpoint and its key; ``None`` = the sequence is forgotten.
    sequence: str | None = None
    endpoint: str | None = None
    key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceFilter:
    """A filter on sequences: those that meet all conditions given here."""

    #: Only sources (``True``) or only destinations (``False``).
    source: bool | None = None
    #: The names of states in docs/state-machines.md, for example ``SENDING``; empty = all.
    states: frozenset[str] = frozenset()
    #: The endpoint of sources, the service of destinations; the whole text.
    endpoint: str | None = None
    #: The beginning of the key of sources.
    key_prefix: str | None = None
    #: Only sequences that have not ended, and destinations with messages that wait.
    active: bool = False
    #: Only sequences with an error, a failing handler or a gap, and suspended ones.
    stuck: bool = False


@dataclass(frozen=True, slots=True)
class Holder:
    """The claim on a sequence."""

    #: The owner of the claim: a node, or `SUSPENDED` with the operator's name; empty = it was given back.
    owner: str
    epoch: int
    until: float

    @property
    def suspended_by(self) -> str | None:
        """The operator who has suspended the sequence; ``None`` = it is not suspended."""
        return self.owner.removeprefix(SUSPENDED) if self.owner.startswith(SUSPENDED) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSeen:
    """A sequence at its source."""

    record: RmsRecord
    #: Its messages that are not acknowledged or not answered, and those of its key that have no number yet.
    waiting: Count
    unsent: Count
    holder: Holder | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DestinationSeen:
    """A sequence at its destination."""

    record: RmdRecord
    #: ``None`` = everything is delivered, and it was removed.
    buffer: InvokerRecord | None
    #: Messages that wait for the application.
    waiting: int
    holder: Holder | None
    #: The operator who has paused its service; ``None`` = it is not paused.
    paused_by: str | None = None
    #: The sequence that it follows still has something to deliver.
    predecessor_waits: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterGroup:
    """Dead letters that have these values in common."""

    count: int
    direction: Direction
    #: The endpoint of outbound messages, the service of inbound ones.
    endpoint: str
    reason: str
    certainty: str
    #: When the first and the last of them became a dead letter.
    first_at: float
    last_at: float
    #: How many of them may take effect twice if they are redriven.
    may_repeat: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSeen:
    """A service, by its backlog and its state. Empty name: responses, for callbacks."""

    name: str
    waiting: Count
    #: Sequences whose first message fails in its handler.
    failing: int = 0
    oldest: float | None = None
    paused_at: float | None = None
    paused_by: str | None = None
    #: How many running nodes host it.
    nodes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointSeen:
    """The backlog to an endpoint."""

    endpoint: str
    waiting: Count
    oldest: float | None
    attempts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Depth:
    """How much waits in a store. Each figure is counted in the oldest `MOST_ROWS` rows of its table."""

    unsent: Count
    unacknowledged: Count
    unanswered: Count
    unhandled: Count
    dead_letters: Count
    in_doubt: Count
    #: When the oldest of each was handed over, received, or decided.
    oldest_unacknowledged: float | None = None
    oldest_unhandled: float | None = None
    oldest_in_doubt: float | None = None
    endpoints: tuple[EndpointSeen, ...] = field(default=())
    services: tuple[ServiceSeen, ...] = field(default=())
    failing: Count = field(default_factory=lambda: Count(0))
    suspended: Count = field(default_factory=lambda: Count(0))
    #: Branches that were finished by hand against the decision.
    heuristic: Count = field(default_factory=lambda: Count(0))
