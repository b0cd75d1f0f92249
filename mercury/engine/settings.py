"""The settings of an engine."""

from __future__ import annotations

from dataclasses import dataclass, field

from mercury.engine.addresses import AddressPolicy
from mercury.statemachine.bounds import above, at_least
from mercury.wire.scan import Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """The settings of an engine. Times are seconds.

    :raises ConfigurationError: a number is out of range; the text begins with its name.
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
    #: Sequences that one ``run_once`` reads.
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
    #: Seconds between two searches of stuck buffers for rows that the store gives back altered.
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
