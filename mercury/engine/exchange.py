"""Messages that are sent and received, as values."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import InitVar, dataclass, field, replace

from mercury.engine.addresses import server_of
from mercury.statemachine.messages import BatchLimits
from mercury.storage.callers import network_of
from mercury.storage.names import request_name
from mercury.storage.records import SequenceKey
from mercury.wire.envelope import EMPTY, Envelope, HttpMessage, MessageBatch, Payload, Undecodable
from mercury.wire.verified import Verified


class Purpose(enum.Enum):
    """Why something is posted."""

    CREATE = "CreateSequence"
    MESSAGE = "message"
    ACK_REQUEST = "AckRequested"
    CLOSE = "CloseSequence"
    TERMINATE = "TerminateSequence"
    ACKNOWLEDGEMENT = "SequenceAcknowledgement"
    #: CloseSequence or TerminateSequence of the destination.
    DESTINATION_END = "end by the destination"
    #: A request for messages that wait at the peer.
    POLL = "MakeConnection"
    #: The answer to a request whose ReplyTo is an address. Posted once; a repeated request causes another post.
    ANSWER = "answer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """One envelope to post; the transaction that decided it is committed."""

    url: str
    envelope: Envelope
    purpose: Purpose
    #: The source sequence it belongs to.
    key: SequenceKey | None = None
    record_id: str | None = None
    number: int | None = None
    #: Of a batch: the number of its last message; ``number`` is that of the first.
    last: int | None = None
    #: The destination sequence it belongs to.
    rmd: str | None = None
    #: The identifier of the offered sequence, if it ends together with this one (anonymous pairs).
    pair: str | None = None
    #: Of a message, and of one that creates, closes or terminates: it was sent before.
    repeated: bool = False
    #: The response arrives on the connection of the message; the server may hold the exchange open for it.
    held: bool = False
    #: The peer whose request caused the post (`Arrival.owner`); empty = this side.
    owner: str = ""
    #: The id of the store that it is meant for (`RmsRecord.store`); ``None`` = unknown.
    store: str | None = None

    # Made once, because the sender pool needs them several times for each post.
    #: Two messages with the same slot have the same content: while one waits, the other is not needed.
    slot: tuple[str, str, int] = field(init=False, repr=False, compare=False)
    #: The scheme, host and port of the URL, in normalized form.
    server: str = field(init=False, repr=False, compare=False)
    #: The name of the endpoint in `EndpointErrors`: the URL, except for answers: those to one server share a name,
    #: because each request may name another path.
    error_name: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        name, server = self.record_id or self.rmd or self.envelope.message_id or "", server_of(self.url)
        object.__setattr__(self, "slot", (self.purpose.value, name, self.number or 0))
        object.__setattr__(self, "server", server)
        object.__setattr__(self, "error_name", f"answers to {server}" if self.purpose is Purpose.ANSWER else self.url)


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """One HTTP message that was received."""

    http: HttpMessage
    #: The service whose endpoint received it; ``None`` = the endpoint for responses, or a back-channel.
    service: str | None = None
    #: The URL that it was sent to.
    url: str = ""
    #: The network address of the sender.
    peer: str = ""
    #: The identity of the sender, established by WS-Security or by the HTTP layer; ``None`` = unknown.
    identity: str | None = None
    #: The security tokens of the message that were checked (`Verified.tokens`).
    tokens: frozenset[str] = frozenset()
    #: The posted message that this is the reply to.
    request: Outgoing | None = None
    #: The decoded ``http``, if it is decoded already; then the committer does not decode it.
    envelope: Envelope | Undecodable | None = None

    @property
    def owner(self) -> str:
        """The peer whose quota counts a sequence that this message creates."""
        return self.identity or network_of(self.peer)

    def proved(self, verified: Verified | None) -> Arrival:
        """The arrival with what its WS-Security header proves, which counts more than the connection."""
        return self if verified is None else replace(self, identity=verified.identity, tokens=verified.tokens)

    @property
    def verified(self) -> Verified | None:
        """What WS-Security proved of the message; ``None`` = nothing."""
        return self.envelope.verified if isinstance(self.envelope, Envelope) else None

    @property
    def is_acknowledgement(self) -> bool:
        """Whether it is the reply to a post and has nothing but acknowledgements."""
        envelope = self.envelope
        return (
            self.request is not None
            and isinstance(envelope, Envelope)
            and envelope.body is EMPTY
            and envelope.sequence is None
            and bool(envelope.acknowledgements)
            and not (envelope.ack_requests or envelope.problems)
        )

    @property
    def size(self) -> int:
        """The bytes of the bodies and header blocks that are stored for it; those of attachments do not count."""
        size = size_of(self.envelope) if isinstance(self.envelope, Envelope) else None
        return len(self.http.body) if size is None else size

    @property
    def fetched(self) -> bool:
        """Whether the message was fetched by MakeConnection."""
        return self.request is not None and self.request.purpose is Purpose.POLL

    @property
    def sender(self) -> str:
        """The sender, by which a repeated CreateSequence is recognised (`create_key`)."""
        return self.identity or self.peer


def size_of(envelope: Envelope) -> int | None:
    """The bytes of the bodies of application messages, and of the other header blocks, which are stored with each of
    them; ``None`` = the envelope has no application message."""
    headers = sum(map(len, envelope.headers))
    match envelope.body:
        case Payload(xml=xml):
            return len(xml) + headers
        case MessageBatch(messages=messages):
            return sum([len(message.payload.xml) for message in messages]) + headers * len(messages)
    return None


def messages_in(envelope: Envelope | Undecodable | None) -> int:
    """How many messages of a sequence an envelope has."""
    if not isinstance(envelope, Envelope) or envelope.sequence is None:
        return 0
    return len(envelope.body.messages) if isinstance(envelope.body, MessageBatch) else 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingResponse:
    """The response that may still be sent on this exchange."""

    #: MessageID of the request.
    message_id: str
    #: The request's sequence, and its number there.
    sequence: str
    number: int = 0
    #: The request was received before: a response may have been sent already.
    repeated: bool = False
    #: The lowest number of the sequence that is not received.
    first_missing: int = 0
    #: The request is delivered only after a message that is not received yet.
    behind_a_gap: bool = False
    #: The client is known to fetch the response if it does not come on this exchange: it is Mercury, which repeats the
    #: request, or it uses MakeConnection.
    fetches: bool = False
    #: The response is sent as an MTOM message, because the request is one.
    mtom: bool = False
    #: The name by which the response is found; see `request_name`.
    request: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "request", request_name(self.sequence, self.number))


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """A response that can go out on the connection of its request: its number is committed."""

    #: The request; see `request_name`.
    request: str
    #: The response, without AckRequested.
    envelope: Envelope
    #: The HTTP status; ``None`` = the status that belongs to the envelope.
    status: int | None = None
    #: The batches in which it may leave; ``None`` = it leaves alone.
    batches: BatchLimits | None = None
    #: The encoded message, once it is encoded: for first and for repeated requests, with and without MTOM.
    written: dict[tuple[bool, bool], HttpMessage] = field(default_factory=dict, compare=False, repr=False)


@dataclass(slots=True, eq=False)
class HeldExchange:
    """An exchange that is held open.

    :param stored: the responses that exist already.
    """

    #: For the response to its request, or to each request of its batch; the lowest number comes first.
    waiting: tuple[PendingResponse, ...]
    stored: InitVar[Iterable[Response]] = ()
    #: Its result is the responses; ``None`` if none is sent on this exchange.
    response: Future[HttpMessage | None] = field(init=False, default_factory=Future)
    #: It is answered without the response because other exchanges of the same request are held.
    superseded: bool = field(init=False, default=False)
    #: The responses that exist, and those that do not, by request.
    found: dict[str, Response] = field(init=False, default_factory=dict)
    missing: dict[str, PendingResponse] = field(init=False)
    #: The bytes of those that exist, and the most that one envelope may have.
    _bytes: int = field(init=False, default=0)
    _most: float = field(init=False, default=math.inf)

    def __post_init__(self, stored: Iterable[Response]) -> None:
        self.missing = {each.request: each for each in self.waiting}
        for response in stored:
            self.add(response)

    @property
    def first(self) -> PendingResponse:
        """The response to its request, or to the first one of its batch."""
        return self.waiting[0]

    @property
    def is_batch(self) -> bool:
        """Whether it is that of a batch of requests."""
        return len(self.waiting) > 1

    @property
    def is_complete(self) -> bool:
        """Whether nothing is to be waited for: it has all its responses, or as many bytes as an envelope may have, or
        one that leaves alone."""
        return not self.missing or self._bytes >= self._most

    def add(self, response: Response) -> None:
        """Note that a response exists."""
        self.found[response.request] = response
        self.missing.pop(response.request, None)
        self._bytes += size_of(response.envelope) or 0
        self._most = min(self._most, 0 if response.batches is None else response.batches.size)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer to an arrival whose transaction is committed, unless it is ``postponed``."""

    #: The reply, unless responses arrive in time on a held exchange.
    http: HttpMessage
    #: The responses that the exchange may be held for: one, or those to a batch of requests.
    waiting: tuple[PendingResponse, ...] = ()
    #: Those of them that exist already.
    stored: tuple[Response, ...] = ()
    #: The exchange, if it is held open for the response.
    held: HeldExchange | None = None
    posts: tuple[Outgoing, ...] = ()
    #: Nothing was done: another transaction has locked a sequence of the arrival, which is to be handled again.
    postponed: bool = False


@dataclass(slots=True)
class Step:
    """The result of one ``run_once``."""

    posts: list[Outgoing] = field(default_factory=list)
    #: How many sequences were worked on.
    progress: int = 0
    #: Whether more may be due than this turn has worked on.
    more: bool = True
    #: Other threads of this process work on everything that is due, and poll again when they have finished.
    shared: bool = False
    #: Whether nothing is left that was due before the turn, so that the store need not be asked when the next work is
    #: due. What becomes due meanwhile is announced by a commit.
    drained: bool = False
    #: After a drained turn, when work of this process is due as far as it knows without the store; it may change.
    due: Callable[[], float | None] = field(default=lambda: None)
    #: Responses that can now go out on a back-channel.
    responses: list[Response] = field(default_factory=list)
    #: The keys of sequences that were due, and on which the work had no effect: a defect.
    stalled: list[SequenceKey] = field(default_factory=list)
    #: What is to be called behind the commit, before the posts; only of `SourceWorker.send_in`.
    actions: list[Callable[[], None]] = field(default_factory=list)

    def add(self, other: Step) -> None:
        self.posts += other.posts
        self.progress += other.progress
        self.responses += other.responses
        self.stalled += other.stalled


#: HTTP 202 with an empty body.
ACCEPTED = HttpMessage(b"", "", None, 202)


#: Called once with the answer to an arrival, in a committer's thread. For an exchange that is held for its response
#: (``answer.held``), the callee calls ``runtime.held_exchanges.let_go`` at the end.
OnAnswer = Callable[[Answer], None]
#: An arrival that waits for its transaction, and what gets its answer.
Waiting = tuple[Arrival, OnAnswer | None]
