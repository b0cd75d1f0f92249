"""What goes to the wire and what comes from it, as values."""

from __future__ import annotations

import enum
from concurrent.futures import Future
from dataclasses import dataclass, field

from mercury.engine.addresses import server_of
from mercury.storage.callers import network_of
from mercury.storage.names import request_name
from mercury.storage.records import SequenceKey
from mercury.wire.envelope import Envelope, HttpMessage, Undecodable


class Purpose(enum.Enum):
    """Why something is posted."""

    CREATE = "CreateSequence"
    MESSAGE = "message"
    CLOSE = "CloseSequence"
    TERMINATE = "TerminateSequence"
    ACKNOWLEDGEMENT = "SequenceAcknowledgement"
    #: The answer to a request whose ReplyTo is an address. Posted once: the peer's repetition brings it again.
    ANSWER = "answer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """One envelope to post, decided upon by a committed transaction."""

    url: str
    envelope: Envelope
    purpose: Purpose
    #: The source sequence it belongs to.
    key: SequenceKey | None = None
    record_id: str | None = None
    number: int | None = None
    #: The destination sequence it belongs to.
    rmd: str | None = None
    #: The offered sequence, when its life follows this one's (anonymous pairs).
    pair: str | None = None
    #: Of a message that creates, closes or terminates: it was sent before.
    repeated: bool = False
    #: A message whose response comes back on its connection: the server may hold the exchange open for it.
    held: bool = False
    #: Who asked for it (`Arrival.owner`); empty: this side.
    owner: str = ""

    @property
    def slot(self) -> tuple[str, str, int]:
        """Two with the same slot say the same: while one waits, the other is not needed."""
        return (self.purpose.value, self.record_id or self.rmd or self.envelope.message_id or "", self.number or 0)

    @property
    def server(self) -> str:
        return server_of(self.url)

    @property
    def error_name(self) -> str:
        """The name under which `EndpointErrors` know of it.

        That is the URL, but all answers to one server have one name: each request may name another path for its answer.
        """
        return f"answers to {self.server}" if self.purpose is Purpose.ANSWER else self.url


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """One HTTP message that came in."""

    http: HttpMessage
    #: The service whose endpoint it came to; ``None`` = the endpoint for responses, or a back-channel.
    service: str | None = None
    #: The URL it came to.
    url: str = ""
    #: The network address it came from.
    peer: str = ""
    #: Who sent it, as the HTTP layer established it; ``None`` = unknown.
    identity: str | None = None
    #: It is the reply to this.
    request: Outgoing | None = None
    #: What ``http`` says, if somebody has decoded it already: the committer then need not.
    envelope: Envelope | Undecodable | None = None

    @property
    def owner(self) -> str:
        """Whose quota a sequence that is made by it counts against."""
        return self.identity or network_of(self.peer)

    @property
    def sender(self) -> str:
        """By whom a repeated CreateSequence is known (`create_key`)."""
        return self.identity or self.peer


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingResponse:
    """The response that may still go out on this exchange."""

    #: MessageID of the request.
    message_id: str
    #: The request's sequence, and its number there.
    sequence: str
    number: int = 0
    #: The request came before: a response may have been sent already.
    repeated: bool = False
    #: The lowest number that has not been received of it.
    first_missing: int = 0
    #: The application gets the request only after something that has not been received yet.
    behind_a_gap: bool = False

    @property
    def request(self) -> str:
        """By what its response is found."""
        return request_name(self.sequence, self.number)


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """A response that can go out on the connection of its request: its number is committed."""

    #: The request; see `request_name`.
    request: str
    #: Without AckRequested.
    envelope: Envelope
    #: The HTTP status; ``None`` = as the envelope has it.
    status: int | None = None
    #: What goes out, once it is written: to a request that came first, and to repetitions.
    written: dict[bool, HttpMessage] = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class HeldExchange:
    """An exchange that is held open."""

    waiting: PendingResponse
    #: Is done with the response; with ``None`` when it does not come here.
    response: Future[HttpMessage | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What to do about an arrival, now that everything is committed."""

    #: The reply, unless ``waiting`` brings a better one in time.
    http: HttpMessage
    waiting: PendingResponse | None = None
    #: The exchange, once it is held for that.
    held: HeldExchange | None = None
    posts: tuple[Outgoing, ...] = ()


@dataclass(slots=True)
class Step:
    """What one ``run_once`` did."""

    posts: list[Outgoing] = field(default_factory=list)
    #: Sequences worked on.
    progress: int = 0
    #: All that is due is being worked on by other threads of this process, which poll again when they have finished.
    shared: bool = False
    #: Responses that can now go out on a back-channel.
    responses: list[Response] = field(default_factory=list)

    def add(self, other: Step) -> None:
        self.posts += other.posts
        self.progress += other.progress
        self.responses += other.responses


#: Accepted, nothing to say.
ACCEPTED = HttpMessage(b"", "", None, 202)
