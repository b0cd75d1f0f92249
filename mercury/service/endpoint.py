"""The SOAP endpoint: an ASGI callable that passes HTTP requests to the engine and sends the engine's answers.

It is plain ASGI because FastAPI's routing costs three times as much time (docs/architecture.md); requests go through
FastAPI only where the application has added a middleware or a dependency.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Protocol

from mercury.engine.exchange import ACCEPTED, Answer, Arrival, HeldExchange
from mercury.engine.ids import Ids
from mercury.engine.log_limiter import LOG_INTERVAL, LogLimiter
from mercury.engine.members import Members
from mercury.engine.refusal import refuse, with_status
from mercury.engine.runtime.held_exchanges import HeldExchanges
from mercury.engine.runtime.threads import Runtime
from mercury.errors import ConfigurationError, Overloaded
from mercury.service import publishing
from mercury.service.answers import AnswerQueue
from mercury.service.asgi import App, Receive, Scope, Send, headers_of, peer_of, send_message, send_text
from mercury.service.bodies import Bodies, RequestRefused
from mercury.service.held import Hold, abort_of, hold_of, unsent_of
from mercury.service.identity import Authenticate, identify
from mercury.service.publishing import TEXT_TYPE, Documents, Page, Wanted, address_of, no_wsdl, page, wanted
from mercury.service.shares import FREE, Share
from mercury.service.stores import check_store, named
from mercury.statemachine.trace import read_trace
from mercury.storage.callers import network_of
from mercury.wire.envelope import Envelope, HttpMessage, Undecodable
from mercury.wire.media import is_package
from mercury.wire.spool import Spool
from mercury.wire.verified import Verified

log = logging.getLogger("mercury.endpoint")

#: Messages of up to this size, in bytes, are decoded in the event loop, because a change of threads costs more.
SMALL = 64 * 1024

#: Seconds for which the exchange of a batch, when it has some of its responses, waits for another one.
ANOTHER = 0.5

#: The answer to a GET when ``http.max_sending_bytes`` is reached.
_UNSENT = HttpMessage(b"Too many answers are being sent; try again later.\n", TEXT_TYPE, status=503)


class Host(Protocol):
    """The process of an endpoint."""

    @property
    def ids(self) -> Ids: ...

    def runtime_for(self, service: str | None) -> Runtime | None:
        """The runtime that takes the messages to a service, or (``None``) responses; ``None`` = it is not running."""

    def log_not_running(self) -> None:
        """Log that a message was refused because the runtime is not running."""

    @property
    def bodies(self) -> Bodies:
        """Counts the bodies of all requests to the process, and of their answers."""

    @property
    def authenticate(self) -> Authenticate | None:
        """The hook that identifies a request's sender; ``None`` = the TLS certificate does."""

    @property
    def address(self) -> str | None:
        """The URL at which peers reach the process; ``None`` = the URL that their requests name."""

    @property
    def members(self) -> Members | None:
        """The members that clients may use; ``None`` = they are not named (``failover.public_address``)."""

    def documents(self, service: str) -> Documents:
        """The WSDL and the schemas of a service that is hosted here."""

    @property
    def back_channel_wait(self) -> float:
        """The longest time, in seconds, that an exchange is held open for its response if the client fetches a late
        one."""

    @property
    def response_wait(self) -> float:
        """The longest time, in seconds, that an exchange is held open for any other client, if that is longer."""


class Exchange(Protocol):
    """A request that is answered in the event loop, without a task (`mercury.service.direct`)."""

    @property
    def scope(self) -> Scope:
        """The ASGI scope of the request."""

    @property
    def is_over(self) -> bool:
        """Whether no answer can be written any more."""

    def answer(self, message: HttpMessage, challenge: str | None = None) -> None:
        """Write the answer; does nothing if the client has left."""

    def go_on(self, app: App) -> None:
        """Let an ASGI application answer the request, which need not read it."""


class Endpoint:
    """Receives the messages for one service.

    :param service: the service's name; ``None`` = the endpoint for responses to this process's own requests.
    :param takes_attachments: an operation takes binary content in pieces, so that a large message may be in a file.
    """

    def __init__(self, host: Host, service: str | None, *, takes_attachments: bool = False) -> None:
        self._host = host
        #: Whether a large message may be in a file.
        self.takes_attachments = takes_attachments
        #: The name of the service; ``None`` = responses arrive here.
        self.service = service
        self._documents: Documents | None = None
        #: Whether it has been logged that the service has no documents.
        self._logged_no_wsdl = False
        self._refusals = LogLimiter(1, LOG_INTERVAL)
        #: For the event loop that was used last.
        self._answers: AnswerQueue | None = None

    @property
    def host(self) -> Host:
        """The process that hosts the service."""
        return self._host

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise TypeError(f"a SOAP endpoint speaks HTTP, not {scope['type']}")
        headers = headers_of(scope["headers"])
        which = wanted(scope.get("query_string", b"")) if scope["method"] == "GET" else None
        if which is not None and self.service is not None:
            await self._publish(which, scope, headers, send)
            return
        if scope["method"] != "POST":
            await send_text(send, 405, "This is a SOAP endpoint: messages are posted to it.\n", (("allow", "POST"),))
            return
        try:
            reply = await self._reply(scope, headers, receive)
        except RequestRefused as refused:
            await send_message(send, self._refusal(refused, headers), refused.challenge)
            return
        await self._send_reply(scope, send, reply)

    def _refusal(self, refused: RequestRefused, headers: dict[str, str]) -> HttpMessage:
        fault = refuse(refused.fault, headers.get("content-type", ""), self._host.ids)
        return named(with_status(fault, refused.status), self._host.runtime_for(self.service))

    async def _send_reply(self, scope: Scope, send: Send, reply: HttpMessage) -> None:
        reply = named(reply, self._host.runtime_for(self.service))
        if len(reply.body) > FREE:
            await self._send_large(scope, send, reply)
        else:
            await send_message(send, reply)

    # --- requests that are answered without a task -----------------------------------------------------------------

    def is_direct(self, headers: dict[str, str], size: int) -> bool:
        """Whether `begin` can process a request with these headers, whose body of ``size`` bytes is complete."""
        runtime = self._host.runtime_for(self.service)
        return (
            size <= min(SMALL, self._host.bodies.max_bytes)
            and runtime is not None
            and not runtime.is_secured(self.service)
            and "content-encoding" not in headers
            and "upgrade" not in headers
            and not (self.takes_attachments and is_package(headers.get("content-type", "")))
        )

    def begin(self, exchange: Exchange, headers: dict[str, str], body: bytes) -> None:
        """Process a request for which `is_direct` holds; it is answered later, in the event loop."""
        runtime = self._host.runtime_for(self.service)
        try:
            identity = self._identity(exchange.scope, headers)
            if runtime is None:
                raise self._not_running()
            check_store(runtime, headers)
            http = _http(headers, body)
            arrival = self._arrival(exchange.scope, headers, http, runtime.decode(http, self.service), identity)
            self._queue(runtime, arrival, lambda answer: self._end(exchange, runtime, answer, headers))
        except RequestRefused as refused:
            exchange.answer(self._refusal(refused, headers), refused.challenge)

    def _end(self, exchange: Exchange, runtime: Runtime, answer: Answer, headers: dict[str, str]) -> None:
        if exchange.is_over:
            _release(runtime, answer)
        elif answer.held is None and len(answer.http.body) <= FREE:
            exchange.answer(named(answer.http, runtime))
        else:
            exchange.go_on(lambda scope, _receive, send: self._finish(scope, send, runtime, answer, headers))

    async def _finish(
        self, scope: Scope, send: Send, runtime: Runtime, answer: Answer, headers: dict[str, str]
    ) -> None:
        """Answer a request whose exchange is held, or whose answer is large."""
        try:
            reply = await self._held_reply(scope, runtime, answer)
        except RequestRefused as refused:
            await send_message(send, self._refusal(refused, headers), refused.challenge)
        else:
            await self._send_reply(scope, send, reply)

    # --- requests that ASGI passes ---------------------------------------------------------------------------------

    def _identity(self, scope: Scope, headers: dict[str, str]) -> str | None:
        """The identity of a request's sender. One refusal of each network is logged in `LOG_INTERVAL`."""
        try:
            return identify(scope, headers, self._host.authenticate)
        except RequestRefused as refused:
            network = network_of(peer_of(scope))
            if refused.status in (401, 403) and self._refusals.allow(network, asyncio.get_running_loop().time()):
                text = "requests from %s are refused with %d: %r; further ones within %.0f s are not logged"
                log.warning(text, network, refused.status, str(refused), LOG_INTERVAL)
            raise

    def documents(self) -> Documents:
        """The WSDL and the schemas of its service.

        :raises ConfigurationError: the endpoint has no service, or no WSDL can be written for it.
        """
        if self._documents is None:
            self._documents = self._host.documents(self.service or "")
        return self._documents

    async def _publish(self, which: Wanted, scope: Scope, headers: dict[str, str], send: Send) -> None:
        """Answer a GET with the WSDL, a schema or the members; only clients that may post may read it."""
        challenge: str | None = None
        try:
            self._identity(scope, headers)
            if which.kind == "members":
                answer = publishing.members_page(self._host.members, scope)
            else:
                answer = page(self.documents(), which, address_of(self._host.address, scope, headers))
        except RequestRefused as refused:
            answer = Page(refused.status, TEXT_TYPE, f"{refused.fault.reason}\n".encode())
            challenge = refused.challenge
        except ConfigurationError as error:
            if not self._logged_no_wsdl:
                log.error("the WSDL of %s cannot be written: %s", self.service, error)
            self._logged_no_wsdl = True
            answer = no_wsdl(error)
        reply = HttpMessage(answer.body, answer.content_type, status=answer.status)
        if len(reply.body) > FREE:
            await self._send_large(scope, send, reply, _UNSENT)
        else:
            await send_message(send, reply, challenge)

    async def _send_large(self, scope: Scope, send: Send, reply: HttpMessage, unsent: HttpMessage = ACCEPTED) -> None:
        """Send an answer whose bytes count against ``http.max_sending_bytes`` until the peer has read them.

        :param unsent: the answer when the limit is reached. For a message it is 202 without a body, because the peer
            sends its request again later.
        """
        answers, now = self._host.bodies.answers, asyncio.get_running_loop().time()
        share = Share(network_of(peer_of(scope)), now, abort_of(scope), unsent_of(scope))
        # An answer larger than the whole limit would never be sent: it counts for half of the limit.
        if not answers.grow(share, min(len(reply.body), answers.limit // 2), now):
            log.info("an answer of %d bytes is not sent: unread answers fill http.max_sending_bytes", len(reply.body))
            await send_message(send, unsent)
            return
        try:
            await send_message(send, reply, whole=False)
            await send({"type": "http.response.body", "body": b""})  # returns when the peer has read nearly all of it
        finally:
            answers.drop(share)

    async def _reply(self, scope: Scope, headers: dict[str, str], receive: Receive) -> HttpMessage:
        encoding = headers.get("content-encoding", "identity").strip().lower()
        if encoding not in ("", "identity"):
            raise RequestRefused(415, f"The Content-Encoding {encoding} is not supported.")
        runtime, answer, verified = await self._receive(scope, headers, receive)
        reply = await self._held_reply(scope, runtime, answer)
        if not reply.body or not runtime.is_secured(self.service):
            return reply
        network, turns = network_of(peer_of(scope)), self._host.bodies.turns
        return await turns.call(network, lambda: runtime.secured_reply(reply, self.service, verified))

    async def _held_reply(self, scope: Scope, runtime: Runtime, answer: Answer) -> HttpMessage:
        """The answer to a request, with its response if that comes while the exchange is held."""
        if answer.held is None:
            return answer.http
        held_exchanges, waiting = runtime.held_exchanges, answer.held
        limits, hold = (self._host.back_channel_wait, self._host.response_wait), hold_of(scope)
        try:
            with hold.holding(lambda: held_exchanges.give_up(waiting), asyncio.get_running_loop().time()):
                response = await _response(held_exchanges, waiting, hold, limits)
            if response is None and not waiting.first.fetches and not waiting.superseded:
                # Its caller would take an empty 202 for an empty response. CXF repeats the request after 503.
                raise RequestRefused(503, "The response does not exist yet; send the request again later.", busy=True)
            return response or answer.http
        finally:
            _release(runtime, answer)

    async def _receive(
        self, scope: Scope, headers: dict[str, str], receive: Receive
    ) -> tuple[Runtime, Answer, Verified | None]:
        """Read and process a request. When it returns, the body is no longer in memory, however long the exchange is
        held. The last of what it returns is what WS-Security proved of the request."""
        identity = self._identity(scope, headers)
        runtime = self._host.runtime_for(self.service)
        check_store(runtime, headers)
        secured = runtime is not None and runtime.is_secured(self.service)
        in_file = self.takes_attachments and not secured and is_package(headers.get("content-type", ""))
        body, share = await self._host.bodies.read(headers, receive, peer_of(scope), in_file=in_file)
        spool = body if isinstance(body, Spool) else None
        try:
            if runtime is None:
                raise self._not_running()
            http = _http(headers, body)
            if len(body) <= SMALL and not secured:
                envelope = runtime.decode(http, self.service)
            else:
                turns, decode = self._host.bodies.turns, partial(runtime.decode, http, self.service)
                envelope = await turns.call(network_of(peer_of(scope)), decode)
                # The envelope has its own copy of what is stored: the message itself is not needed while it waits.
                http = replace(http, body=b"")
                del decode
            del body
            return await self._submit(runtime, self._arrival(scope, headers, http, envelope, identity))
        finally:
            if spool is not None:
                spool.close()
            self._host.bodies.release(share)

    async def _submit(self, runtime: Runtime, arrival: Arrival) -> tuple[Runtime, Answer, Verified | None]:
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

        def end(answer: Answer) -> None:
            if future.done():  # the request was cancelled meanwhile
                _release(runtime, answer)
            else:
                future.set_result(answer)

        self._queue(runtime, arrival, end)
        return runtime, await future, arrival.verified

    # --- both ------------------------------------------------------------------------------------------------------

    def _not_running(self) -> RequestRefused:
        self._host.log_not_running()
        return RequestRefused(503, "This endpoint is not running; send it again later.", busy=True)

    def _arrival(
        self,
        scope: Scope,
        headers: dict[str, str],
        http: HttpMessage,
        envelope: Envelope | Undecodable,
        identity: str | None,
    ) -> Arrival:
        return Arrival(
            http=http,
            envelope=envelope,
            service=self.service,
            url=f"{scope.get('scheme', 'http')}://{headers.get('host', '')}{scope.get('path', '')}",
            peer=peer_of(scope),
            identity=identity,
        )

    def _queue(self, runtime: Runtime, arrival: Arrival, end: Callable[[Answer], None]) -> None:
        """Queue an arrival for the committer.

        :param end: called in the event loop with the answer.
        :raises RequestRefused: the queue is full (503).
        """
        loop = asyncio.get_running_loop()
        answers = self._answers
        if answers is None or answers.loop is not loop:
            self._answers = answers = AnswerQueue(loop)
        try:
            runtime.submit(arrival, partial(answers.put, end))
        except Overloaded as error:
            raise RequestRefused(503, str(error), busy=True) from error


def _http(headers: dict[str, str], body: bytes | Spool) -> HttpMessage:
    data, spool = (b"", body) if isinstance(body, Spool) else (body, None)
    trace = read_trace(headers["traceparent"], headers.get("tracestate")) if "traceparent" in headers else None
    return HttpMessage(data, headers.get("content-type", ""), headers.get("soapaction"), spool=spool, trace=trace)


async def _response(
    held_exchanges: HeldExchanges, held: HeldExchange, hold: Hold, limits: tuple[float, float]
) -> HttpMessage | None:
    """Hold the exchange open for its response, or for those to a batch of requests (HTTP-05).

    :param limits: the longest times, in seconds: if the client fetches a late response, and otherwise.
    :returns: the responses; ``None`` = none came in time, or the exchange cannot expect any soon.
    """
    clock, future = asyncio.get_running_loop().time, asyncio.wrap_future(held.response)
    begun, prolonged = clock(), held.first.fetches
    end = begun + limits[0]
    while not held.response.done():
        patience = held_exchanges.time_left(held)
        if patience is not None and patience <= 0:
            break
        left, so_far = end - clock(), len(held.found)
        if left > 0:
            await asyncio.wait([future], timeout=min(left, patience or left, ANOTHER if held.is_batch else left))
            if 0 < len(held.found) == so_far:
                break
        elif not prolonged and hold.prolong():
            prolonged, end = True, begun + limits[1]
        else:
            break
    return await future if held.response.done() else held_exchanges.so_far(held)


def _release(runtime: Runtime, answer: Answer) -> None:
    if answer.held is not None:
        runtime.held_exchanges.let_go(answer.held)
