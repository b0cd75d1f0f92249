"""What every part of the engine shares."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mercury.engine.addresses import AddressPolicy
from mercury.engine.claims import ClaimKeeper
from mercury.engine.doing import Doing
from mercury.engine.expired import Expired
from mercury.engine.stored import StoredResponses
from mercury.engine.troubles import Troubles
from mercury.statemachine.bounds import above, at_least
from mercury.statemachine.retransmission import is_due
from mercury.storage.outages import PAUSES, Outages
from mercury.wire.scan import Limits

if TYPE_CHECKING:
    from mercury.engine.application import Application
    from mercury.engine.ids import Ids
    from mercury.engine.observers import Observers
    from mercury.storage.api import StorageManager


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """What an engine may be told. Times are seconds.

    :raises ConfigurationError: a figure makes no sense; the text begins with its name.
    """

    limits: Limits = field(default_factory=Limits)
    addresses: AddressPolicy = field(default_factory=AddressPolicy)
    #: Destination sequences that may be open at once; above it those that nobody uses make room, then who has by far
    #: the most gives up one for a peer with few, or CreateSequence is refused as busy.
    max_sequences: int = 10_000
    #: The same for the sequences of one peer: of one identity, or else of one network address.
    max_sequences_per_peer: int = 1_000
    #: Above either, a sequence nothing was heard of for so long ends, the oldest first, and makes room.
    idle_sequence: float = 3600.0
    #: Ended sequences of peers that are remembered; above it the oldest ones are forgotten before their time.
    max_ended: int = 10_000
    #: The same for the ended sequences of one peer.
    max_ended_per_peer: int = 2_000
    #: An ended sequence is remembered for so long at least; above a limit CreateSequence is refused as busy meanwhile,
    #: except that above the limit for all those of who has by far the most are forgotten for a peer with few.
    remember_ended: float = 60.0
    #: Bytes of received messages that may wait for the application; above it what is not next is refused as busy.
    max_backlog_bytes: int = 4 * 1024**3
    #: The same for the messages of one peer.
    max_backlog_bytes_per_peer: int = 512 * 1024**2
    #: Messages of one key that may wait to be acknowledged; above it `send` raises `Overloaded`.
    max_outbound_backlog: int = 1_000_000
    #: Rows that get a number in one transaction.
    number_batch: int = 256
    #: Messages of one sequence that are invoked in one transaction.
    invoke_batch: int = 50
    #: Sequences that one ``run_once`` looks at.
    sequence_batch: int = 64
    #: How long a claim on a sequence lasts unless it is prolonged.
    lease: float = 30.0
    #: How long a response sequence without an address outlives the request sequence while it is not acknowledged.
    back_channel_grace: float = 60.0
    #: Responses to requests of one sequence that are kept when no sequence was offered for them: the newest ones.
    replies_kept: int = 1024
    #: Addresses that the requests of one sequence may name for their responses: each gets a sequence of its own.
    max_response_addresses: int = 8
    #: How long a response sequence that its address has never answered outlives the sequence of its requests.
    response_grace: float = 3600.0
    #: How often buffers that are stuck are looked through for rows that the store gives back altered.
    integrity_interval: float = 60.0

    def __post_init__(self) -> None:
        at_least(1, max_sequences=self.max_sequences, max_sequences_per_peer=self.max_sequences_per_peer)
        at_least(1, max_ended=self.max_ended, max_ended_per_peer=self.max_ended_per_peer)
        at_least(1, max_outbound_backlog=self.max_outbound_backlog, max_backlog_bytes=self.max_backlog_bytes)
        at_least(1, max_backlog_bytes_per_peer=self.max_backlog_bytes_per_peer)
        at_least(1, number_batch=self.number_batch, invoke_batch=self.invoke_batch, sequence_batch=self.sequence_batch)
        at_least(1, replies_kept=self.replies_kept, max_response_addresses=self.max_response_addresses)
        above(0, lease=self.lease, integrity_interval=self.integrity_interval)
        at_least(0, back_channel_grace=self.back_channel_grace, idle_sequence=self.idle_sequence)
        at_least(0, response_grace=self.response_grace, remember_ended=self.remember_ended)


class PutOff:
    """Work that failed is left alone for a while, longer each time, so that the rest goes on.

    Safe to be used by many threads, each of them for other names.
    """

    def __init__(self) -> None:
        #: How often it has failed, and until when it waits.
        self._failed: dict[str, tuple[int, float]] = {}

    def add(self, name: str, now: float) -> None:
        """It failed."""
        failures = self._failed.get(name, (0, 0.0))[0] + 1
        self._failed[name] = (failures, now + PAUSES.delay(failures, 0.0))

    def waits(self, name: str, now: float) -> bool:
        """Whether it is to be left alone."""
        failed = self._failed.get(name)
        return failed is not None and not is_due(failed[1], now, PAUSES.cap)

    def worked(self, name: str) -> None:
        """It did not fail."""
        self._failed.pop(name, None)


class Said:
    """What the log says again after a minute at the earliest, however often it is so."""

    PAUSE = 60.0

    def __init__(self) -> None:
        self._at: float | None = None

    def again(self, now: float) -> bool:
        """Whether it is to be said now."""
        if self._at is not None and 0 <= now - self._at < self.PAUSE:
            return False
        self._at = now
        return True


class NoRoom:
    """Who found nothing a moment ago that makes room for its sequence: the store is not looked through again so soon.

    Safe to be used by many threads.
    """

    #: Seconds it is remembered.
    LASTS = 1.0

    def __init__(self) -> None:
        #: How many sequences it had open, and when that was.
        self._found: tuple[int, float] | None = None

    def remember(self, open_sequences: int, now: float) -> None:
        """There was no room for a peer with so many sequences; not to be told again before that is over."""
        if not self.holds(open_sequences, now):
            self._found = (open_sequences, now)

    def holds(self, open_sequences: int, now: float) -> bool:
        """Whether there was no room a moment ago for a peer with so many, or fewer: who has more finds none either."""
        found = self._found
        return found is not None and open_sequences >= found[0] and 0 <= now - found[1] < self.LASTS


@dataclass(slots=True, kw_only=True)
class Parts:
    """The engine's surroundings, given by whoever builds it."""

    store: StorageManager
    application: Application
    observers: Observers
    ids: Ids
    settings: EngineSettings
    claims: ClaimKeeper
    outages: Outages = field(default_factory=Outages)
    #: What the application is doing.
    doing: Doing = field(default_factory=Doing)
    #: Endpoints whose last exchange failed, with the reason.
    troubles: Troubles = field(default_factory=Troubles)
    #: Whether sequences of peers that were refused a moment ago would be refused still.
    no_room: NoRoom = field(default_factory=NoRoom)
    #: That dead letters of peers fill a limit.
    letters_said: Said = field(default_factory=Said)
    #: Whose sequences were made for a moment only.
    expired: Expired = field(init=False)
    #: What is stored of responses, without a question to the store.
    stored: StoredResponses = field(init=False)

    def __post_init__(self) -> None:
        self.stored = StoredResponses(self.settings.max_sequences)
        self.expired = Expired(self.settings.max_ended, self.settings.remember_ended)
