"""The settings of an engine."""

from __future__ import annotations

from dataclasses import dataclass, field

from mercury.engine.addresses import AddressPolicy
from mercury.engine.rates import RateSettings
from mercury.statemachine.bounds import above, at_least
from mercury.wire.scan import Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """The settings of an engine. Times are seconds.

    :raises ConfigurationError: a number is out of range; the text begins with its name.
    """

    limits: Limits = field(default_factory=Limits)
    addresses: AddressPolicy = field(default_factory=AddressPolicy)
    #: Limits on messages a second.
    rates: RateSettings = field(default_factory=RateSettings)
    #: The most open destination sequences. At the limit, an idle sequence is ended to make room; else the peer with
    #: by far the most sequences loses one to a peer with few; else CreateSequence is refused as busy.
    max_sequences: int = 10_000
    #: The most open destination sequences of one peer: of one identity, or else of one network address.
    max_sequences_per_peer: int = 1_000
    #: At either limit, sequences without a message for this long are ended to make room, the oldest first.
    idle_sequence: float = 3600.0
    #: The most tombstones of destination sequences; above it the oldest are deleted early.
    max_ended: int = 10_000
    #: The most tombstones of one peer.
    max_ended_per_peer: int = 2_000
    #: How long a tombstone is kept at least. If no older one can be deleted at a limit, CreateSequence is refused as
    #: busy. Exception: at ``max_ended``, tombstones of the peer with by far the most are deleted for a peer with few.
    remember_ended: float = 60.0
    #: The most bytes of undelivered messages; above it a message that is not the next is refused as busy.
    max_backlog_bytes: int = 4 * 1024**3
    #: The most bytes of undelivered messages of one peer.
    max_backlog_bytes_per_peer: int = 512 * 1024**2
    #: The most unacknowledged messages of one key; above it `send` raises `Overloaded`.
    max_outbound_backlog: int = 1_000_000
    #: The most rows that get a number in one transaction.
    number_batch: int = 256
    #: The most messages of one sequence that are delivered in one transaction; for a service whose handlers take larger
    #: lists (``batch``), as many as those.
    invoke_batch: int = 50
    #: The most sequences that one ``run_once`` reads.
    sequence_batch: int = 64
    #: How long a claim on a sequence lasts unless it is prolonged.
    lease: float = 30.0
    #: How long an unacknowledged response sequence without an address is kept after the end of its request sequence.
    back_channel_grace: float = 60.0
    #: How many responses to one request sequence are kept if no sequence was offered for them; the newest are kept.
    replies_kept: int = 1024
    #: The most response addresses that the requests of one sequence may name; each address gets a separate sequence.
    max_response_addresses: int = 8
    #: How long a response sequence is kept after the end of its request sequence, if its address has never answered or
    #: its client does not fetch it; and how long an address with such a sequence may be silent after the request
    #: sequence was forgotten.
    response_grace: float = 3600.0
    #: Seconds between two searches of stuck buffers for damaged rows.
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
