"""The records of a store. They are mutable copies: a change counts once it is saved and its transaction committed.

All times are seconds since the epoch. Identifiers are opaque strings.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from mercury.statemachine.copies import shallow
from mercury.statemachine.invoker import InvokerBuffer
from mercury.statemachine.messages import ANONYMOUS, ANONYMOUS_ENDPOINT, EndpointReference, is_polled
from mercury.statemachine.policy import SourcePolicy
from mercury.statemachine.protocol import Protocol
from mercury.statemachine.rmd import RMDSequence
from mercury.statemachine.rms import RMSSequence
from mercury.statemachine.settled import is_settled, may_go, replays
from mercury.statemachine.trace import Trace
from mercury.storage.attachments import Attachments
from mercury.storage.callers import create_key, network_of
from mercury.storage.names import fetch_name, key_digest
from mercury.storage.sizes import RESPONSE, attached_size, stored_size


@dataclass(frozen=True, slots=True, order=True)
class SequenceKey:
    """The internal key: messages with the same endpoint and name share a sequence (decision 4)."""

    endpoint: str
    name: str

    def __str__(self) -> str:
        return f"{self.endpoint}#{self.name}"

    @property
    def digest(self) -> str:
        """A short, stable name of the key; stores index by it and claims use it.

        A key without an endpoint comes from a damaged row, of which only the digest is known: it is the key's ``name``.
        """
        return key_digest(self.endpoint, self.name) if self.endpoint else self.name


class Role(enum.Enum):
    """The purpose of a source sequence."""

    #: The application's own messages.
    REQUEST = "request"
    #: Responses to a peer's requests.
    RESPONSE = "response"
    #: Responses outside any sequence: their numbers are internal and never on the wire (LIVE-06).
    REPLY = "reply"


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel:
    """Everything that a process needs to create the sequence of a key; stored with the messages that use it."""

    key: SequenceKey
    policy: SourcePolicy = field(default_factory=SourcePolicy)
    #: The endpoint for acknowledgements and responses: an address of this side, or anonymous.
    reply_to: EndpointReference = ANONYMOUS_ENDPOINT
    role: Role = Role.REQUEST
    #: The identifier of the other sequence of the pair; with RESPONSE, of the peer's sequence of requests.
    pair: str | None = None
    #: The identity that owns the endpoint: the one that created the sequence of requests. With REQUEST, the identity
    #: that is configured for the peer, or else the one that answered CreateSequence by a separate post; ``None`` =
    #: unknown.
    identity: str | None = None
    #: wsa:To of what is sent; ``None`` = the endpoint's URL.
    wsa_to: str | None = None
    #: Among keys that are due, those with a higher priority come first: 0 to 9 (`turns.HEAD_START`).
    priority: int = 0

    def __hash__(self) -> int:  # of the key alone: few channels have the same one, and texts remember their hashes
        return hash((self.key.endpoint, self.key.name))

    @property
    def endpoint(self) -> str:
        return self.key.endpoint

    @property
    def to(self) -> str:
        """wsa:To of what is sent."""
        return self.key.endpoint if self.wsa_to is None else self.wsa_to

    @property
    def names(self) -> tuple[str | None, ...]:
        """The texts that a peer may choose, without `reply_to`."""
        return (self.key.endpoint, self.key.name, self.pair, self.identity, self.wsa_to)

    @property
    def back_channel(self) -> bool:
        """Whether nothing can be posted: a message waits until a request of the client fetches it (HTTP-05)."""
        return self.key.endpoint == ANONYMOUS

    @property
    def polled(self) -> bool:
        """Whether nothing can be posted: the client fetches its messages by MakeConnection (MC-05)."""
        return is_polled(self.key.endpoint)

    @property
    def plain(self) -> bool:
        """Whether its messages are sent outside any sequence."""
        return self.role is Role.REPLY


class OutboundKind(enum.Enum):
    """What a row of the RMS buffer stands for."""

    MESSAGE = "message"
    #: The application's end of the sequence.
    END = "end"
    #: The application's end of the sequence, without waiting for acknowledgements.
    ABANDON = "abandon"


@dataclass(kw_only=True)
class OutboundMessage:
    """A row of the RMS buffer. It is inserted without a number; the holder of the key's claim numbers it."""

    message_id: str
    channel: Channel
    kind: OutboundKind = OutboundKind.MESSAGE
    action: str = ""
    #: Standalone XML of one element, or empty.
    payload: bytes = b""
    is_fault: bool = False
    #: No message of the sequence comes after this one.
    last: bool = False
    headers: tuple[bytes, ...] = ()
    #: Reference parameters of the endpoint that a response goes to.
    to_parameters: tuple[bytes, ...] = ()
    relates_to: str | None = None
    #: A response is expected; the row is kept until the response is consumed.
    expects_response: bool = False
    #: The registered name of the callback that consumes the response.
    callback: str | None = None
    #: For a response that is fetched: the request that it answers; see `request_name`.
    request: str | None = None
    correlation: str | None = None
    created_at: float = 0.0
    #: It is not delivered from this time on, and not sent before that one; ``None`` = no limit.
    expires_at: float | None = None
    not_before: float | None = None
    #: The order of insertion; the store sets it.
    position: int = 0
    #: Of an end without a number: the only sequence that it ends; ``None`` = it ends the key.
    sequence_id: str | None = None
    number: int | None = None
    #: Transmissions so far.
    attempts: int = 0
    #: When the next transmission is due.
    due: float = 0.0
    acknowledged: bool = False
    #: The response is stored. For a response: it is never acknowledged, and is retained to be fetched again.
    answered: bool = False
    in_doubt: bool = False  #: It may have been delivered by an earlier sequence, or before it was a dead letter.
    damaged: bool = False  #: It must not be sent.
    unread: bool = False  #: Its body was not read, because of a limit on the bytes of one query (`responses_to`).
    #: For a response: the owner of the request (`RmdRecord.owner`), whose limits count its bytes; ``None`` = none.
    owner: str | None = None
    #: The binary parts of the payload that are stored in pieces; ``None`` = none is.
    attachments: Attachments | None = None
    trace: Trace | None = None  #: The span that it was sent in; ``None`` = none is known.

    @property
    def size(self) -> int:
        """Its size in a store, in bytes: see `stored_size`. A response in a sequence counts at least `RESPONSE`."""
        names = (self.message_id, self.action, self.relates_to, *self.channel.names)
        size = stored_size(self.payload, self.headers, (self.channel.reply_to,), names, self.to_parameters)
        size += attached_size(self.attachments)
        return max(size, RESPONSE) if self.channel.role is Role.RESPONSE else size

    @property
    def retained(self) -> bool:
        """A reply outside any sequence that may be fetched again: it does not wait for an acknowledgement."""
        return self.relates_to is not None and self.answered

    @property
    def is_response(self) -> bool:
        """Whether it answers a request of a peer, by its channel: other columns of the row may be damaged."""
        return self.channel.role is not Role.REQUEST

    @property
    def settled(self) -> bool:
        """No transmission is needed any more."""
        return is_settled(acknowledged=self.acknowledged, answered=self.answered, replays=self.replays)

    @property
    def replays(self) -> bool:
        """With a back-channel a request is repeated until it is answered (HTTP-05)."""
        return replays(expects_response=self.expects_response, fetches=self.channel.reply_to.anonymous)

    @property
    def may_go(self) -> bool:
        """Whether this sequence no longer needs the row: it is acknowledged, and no response is expected."""
        return may_go(acknowledged=self.acknowledged, expects_response=self.expects_response)

    def copy(self) -> OutboundMessage:
        return shallow(self)


@dataclass(kw_only=True)
class RmsRecord:
    """A sequence at its source."""

    id: str
    channel: Channel
    machine: RMSSequence
    created_at: float
    #: The MessageID of CreateSequence, the same at every repetition (RM-CS-13).
    create_message_id: str
    #: The identifier of the offered sequence; the same at every repetition of CreateSequence, until it is refused.
    offered: str | None = None
    #: Present when the peer accepted the offer.
    offer_accepted: bool = False
    #: The identifier of the sequence whose successor this one is.
    follows: str | None = None
    #: When work is due next; ``None`` = not before the next event.
    due: float | None = None
    #: When ``due`` was computed. It lies in the future only if the clock was set back since.
    planned_at: float = 0.0
    #: Rows of its key wait until its window opens, or until enough of its requests are answered.
    window_full: bool = False
    #: It takes no more messages. A successor starts when none of its own can arrive late, and rows of its key wait.
    holds_successor: bool = False
    #: When the sequence ended or failed: its tombstone lasts from this time.
    ended_at: float | None = None
    last_error: str | None = None
    #: On a polled channel: the time from which a MakeConnection can fetch a message; ``None`` = none waits.
    fetch_due: float | None = None
    #: At a client that fetches: the time of the next MakeConnection, ``None`` = no message is expected; and the number
    #: of MakeConnections since a message was sent or fetched.
    poll_due: float | None = None
    polls: int = 0
    #: The peer for fair scheduling: for responses the owner of the requests (`RmdRecord.owner`); empty = this side.
    owner: str = ""
    #: The most messages of a batch, and bytes of bodies. 0 = none, no sign of Mercury; 1 = none since it refused one.
    batch_messages: int = 0
    batch_size: int = 0
    #: Rows of its key get no number until this time, because of the time of one of them; ``None`` = no such row.
    rows_wait_until: float | None = None
    store: str | None = None  #: The id of its destination's store; ``None`` = the destination states none.

    @property
    def holds_rows(self) -> bool:
        """Whether rows of its key get no number yet."""
        return self.window_full or self.holds_successor or self.rows_wait_until is not None

    @property
    def fetched_by(self) -> str | None:
        """The name by which a MakeConnection finds it (`fetch_name`); ``None`` = there is nothing to fetch."""
        channel = self.channel
        return fetch_name(channel.endpoint, channel.identity) if self.fetch_due is not None else None

    def copy(self) -> RmsRecord:
        own = shallow(self)
        own.machine = self.machine.copy()
        return own


@dataclass(kw_only=True)
class RmdRecord:
    """A sequence at its destination."""

    machine: RMDSequence
    protocol: Protocol
    acks_to: EndpointReference
    created_at: float
    #: The service it was created at; ``None`` = a sequence of responses to requests of this side.
    service: str | None = None
    #: MessageID of its CreateSequence, to recognise a repetition.
    create_message_id: str | None = None
    #: The channel of the offer that was accepted with it.
    response_channel: Channel | None = None
    #: The URL it was created at, as the peer wrote it.
    to: str = ""
    #: The network address that CreateSequence came from; of a sequence that this side offered, its server.
    peer: str = ""
    #: The identity that created it, established by WS-Security, TLS, or ``authenticate`` of the application;
    #: ``None`` = unknown.
    identity: str | None = None
    #: The security token that CreateSequence bound the sequence to (SEC-02); ``None`` = it is not bound.
    token: str | None = None
    #: The identifier that CreateSequence offered for responses.
    offered: str | None = None
    #: Of a sequence that this side offered: the endpoint it was offered to.
    offered_to: str = ""
    #: How many acknowledgements in succession could not be posted.
    ack_failures: int = 0
    due: float | None = None
    #: Bytes of all messages that were put into its buffer; see `InboundMessage.size`.
    received_bytes: int = 0
    #: This side ends it to make room; its source may not know this yet.
    given_up: bool = False
    #: CreateSequence shows that its source is Mercury, which fetches a response that did not come on its connection.
    source_is_mercury: bool = False
    #: This side has stated to its source that it takes batches.
    takes_batches: bool = False

    @property
    def identifier(self) -> str:
        return self.machine.identifier

    @property
    def owner(self) -> str:
        """The peer whose quota counts it: the identity if one is known, else the network address (`network_of`) or the
        server."""
        return self.identity or network_of(self.peer)

    @property
    def fetched_by(self) -> str | None:
        """The name by which a MakeConnection finds its acknowledgement, or the end that this side has begun
        (`fetch_name`); ``None`` = none waits."""
        waits = self.machine.ack_due is not None or self.machine.own_end is not None
        return fetch_name(self.acks_to.address, self.identity) if waits and self.acks_to.polled else None

    @property
    def create_key(self) -> str | None:
        """The value by which a repeated CreateSequence is recognised; see `create_key`."""
        message_id, sender = self.create_message_id, self.identity or self.peer
        if message_id is None:
            return None
        return create_key(message_id, self.acks_to.address, self.service, self.offered, sender)

    def copy(self) -> RmdRecord:
        own = shallow(self)
        own.machine = self.machine.copy()
        return own


@dataclass(kw_only=True)
class InvokerRecord:
    """The buffer between a destination sequence and the application."""

    #: The identifier of the RMD sequence.
    sequence: str
    machine: InvokerBuffer
    #: ``None`` = responses, for callbacks.
    service: str | None = None
    #: The peer for fair scheduling and for the limits on dead letters: `RmdRecord.owner` of its sequence, or the sender
    #: of a single reply.
    owner: str = ""
    #: Grows with every delivery: the conditional update of the delivery compares it.
    version: int = 0
    #: Failed attempts of the next message.
    attempts: int = 0
    #: When the next attempt is due.
    retry_at: float | None = None
    #: The number of the message that an operator has parked: it becomes a dead letter when it is next.
    parked: int | None = None
    last_error: str | None = None
    #: The predecessor of its sequence, which is delivered first.
    follows: str | None = None
    #: The channels of responses to this sequence's requests; they end with it. For a sequence of responses: the
    #: channels of the requests.
    response_channels: tuple[Channel, ...] = ()
    #: Bytes of all messages that have left it; the rest of its sequence's `received_bytes` is undelivered.
    consumed_bytes: int = 0
    #: Bytes of stored responses to its requests: the result of the last query, plus those stored since.
    response_bytes: int = 0
    #: Bytes of all dead letters of its messages; some may be removed by now.
    letter_bytes: int = 0

    def copy(self) -> InvokerRecord:
        own = shallow(self)
        own.machine = self.machine.copy()
        return own


class InboundKind(enum.Enum):
    """What a row of the invoker buffer stands for."""

    MESSAGE = "message"
    #: The last number became known: `number`.
    END = "end"
    #: The sequence ended incomplete.
    CUT = "cut"


@dataclass(frozen=True, slots=True, kw_only=True)
class InboundMessage:
    """A row of the invoker buffer."""

    sequence: str
    number: int
    kind: InboundKind = InboundKind.MESSAGE
    last: bool = False
    message_id: str | None = None
    action: str = ""
    payload: bytes = b""
    #: The name of the payload's element in Clark notation.
    element: str = ""
    is_fault: bool = False
    headers: tuple[bytes, ...] = ()
    relates_to: str | None = None
    reply_to: EndpointReference | None = None
    fault_to: EndpointReference | None = None
    received_at: float = 0.0
    #: Its handler is not called from this time on, in seconds since the epoch; ``None`` = no limit.
    expires_at: float | None = None
    correlation: str | None = None
    #: The order of insertion; the store sets it for markers.
    position: int = 0
    #: The row is damaged: it must not be delivered.
    damaged: bool = False
    #: The binary parts of the payload that are stored in pieces; ``None`` = none is.
    attachments: Attachments | None = None
    trace: Trace | None = None  #: The span that it was sent in; ``None`` = none is known.
    sent_at: float | None = None  #: When its sender sent it, by the sender's clock; ``None`` = unknown.

    @property
    def size(self) -> int:
        """Its size in a store, in bytes: see `stored_size`."""
        names = (self.message_id, self.action, self.element, self.relates_to)
        return attached_size(self.attachments) + stored_size(
            self.payload, self.headers, (self.reply_to, self.fault_to), names
        )
