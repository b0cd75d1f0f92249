"""Answers small requests to a SOAP endpoint without a task, events and ASGI's messages, which would cost more than the
rest of a request.

Every other request goes uvicorn's way: a large or slow one, and one to an application with a middleware. A direct
request goes that way too from the moment that its exchange is held for its response, or that its answer is large.
"""

from __future__ import annotations

import asyncio
import logging
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import (
    HEADER_VALUE_RE,
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)
from uvicorn.server import ServerState

from mercury.engine.runtime.body_pieces import BodyPieces
from mercury.service.asgi import App, Scope, fields_for, headers_of
from mercury.service.endpoint import SMALL, Endpoint
from mercury.service.flow import AnswerTransport
from mercury.service.host import SoapApplication
from mercury.service.known_requests import KnownRequest, KnownRequests
from mercury.wire.envelope import HttpMessage

if TYPE_CHECKING:
    from mercury.service.endpoint import Exchange

log = logging.getLogger("mercury.http")

#: Seconds that the body of a direct request may come after its header: many clients send the two apart.
BODY_DELAY = 0.05
#: The most pieces of such a body.
MOST_PIECES = 16
#: The answer after an unexpected error.
FAILED = HttpMessage(b"Internal Server Error\n", "text/plain; charset=utf-8", status=500)


class _NoEvent:
    """In the place of the event that tells an application that more of its request has come."""

    __slots__ = ()

    def set(self) -> None:
        """Nothing waits for it."""


class DirectExchange:
    """One request and its answer. It is in the place of uvicorn's `RequestResponseCycle`, and has those of its
    attributes that the protocol uses. Used in the event loop's thread only.

    :param scope: the ASGI scope of the request.
    """

    __slots__ = (
        "_protocol",
        "disconnected",
        "keep_alive",
        "message_event",
        "response_complete",
        "response_started",
        "scope",
        "waiting_for_100_continue",
    )

    def __init__(self, protocol: DirectProtocol, scope: Scope, *, keep_alive: bool) -> None:
        self._protocol = protocol
        self.scope = scope
        self.keep_alive = keep_alive
        self.disconnected = self.response_started = self.response_complete = self.waiting_for_100_continue = False
        self.message_event = _NoEvent()

    @property
    def is_over(self) -> bool:
        """Whether no answer can be written any more."""
        return self.disconnected or self.response_complete

    def begin(self, endpoint: Endpoint, headers: dict[str, str], body: bytes) -> None:
        """Let the endpoint process the request. After an unexpected error it is answered with HTTP status 500."""
        if self.is_over:
            return
        try:
            endpoint.begin(self, headers, body)
        except Exception:
            log.exception("a request could not be processed")
            self.answer(FAILED)

    def answer(self, message: HttpMessage, challenge: str | None = None) -> None:
        """Write the answer; does nothing if the client has left.

        :raises ValueError: a header field would have characters that end it.
        """
        if self.is_over:
            return
        about = (message.status, message.content_type, len(message.body), message.store, challenge)
        fields, self.keep_alive = _written(about, self.keep_alive)
        self.response_started = self.response_complete = True
        self._protocol.write_answer(self, message.status, fields, message.body)

    def go_on(self, app: App) -> None:
        """Let an ASGI application answer the request, which need not read it."""
        self._protocol.go_on(self, app)

    def cancel(self, msg: object = None) -> None:  # noqa: ARG002 - the argument of a task's method
        """Cut the connection: the server stops. uvicorn calls this as it cancels the task of another request."""
        self.disconnected = True
        self._protocol.transport.abort()


@lru_cache(maxsize=256)
def _written(about: tuple[int, str, int, str | None, str | None], keep_alive: bool) -> tuple[bytes, bool]:
    """The lines of the header fields of an answer, and whether the connection is kept after it. Most answers of a
    server have the same.

    :param about: the arguments of `fields_for`.
    :param keep_alive: whether the connection may be kept.
    """
    fields = fields_for(*about)
    if ("connection", "close") in fields:
        keep_alive = False
    elif not keep_alive:
        fields.append(("connection", "close"))
    lines = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in fields]
    for name, value in lines:
        if HEADER_VALUE_RE.search(value):
            raise ValueError(f"no value of the header field {name.decode()}: {value[:80]!r}")
    return b"".join(b"%b: %b\r\n" % line for line in lines), keep_alive


class DirectProtocol(HttpToolsProtocol):
    """uvicorn's protocol with direct requests. A subclass puts the bytes of a body into `pieces`, and passes them to
    the application unless `awaits_body`."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        app = config.loaded_app
        around = config.root_path or config.limit_concurrency is not None or self.access_log
        #: ``None`` = something around the application must see each request.
        whole = isinstance(app, SoapApplication) and type(app).__call__ is SoapApplication.__call__
        self._application = app if whole and not around else None
        #: ASGI's extensions in the scope of each request.
        self.extensions: dict[str, Any] = {}
        #: The headers of the server's requests; a subclass shares it among its connections.
        self.known = KnownRequests()
        #: What the header of the request says that was begun last and parsed.
        self._parsed: KnownRequest | None = None
        #: Answers the request whose body is awaited.
        self._endpoint: Endpoint | None = None
        self._until: asyncio.TimerHandle | None = None
        self.pieces = BodyPieces()
        #: The request that is processed now; `cycle` is the one that arrived last.
        self.running: RequestResponseCycle | DirectExchange | None = None
        #: What answers are written to; it closes the connection by `hang_up`.
        self.answer_transport: AnswerTransport | None = None

    def connection_lost(self, exc: Exception | None) -> None:
        self.forget()
        self.tasks.discard(self.running)
        super().connection_lost(exc)

    # --- reading ---------------------------------------------------------------------------------------------------

    @property
    def awaits_body(self) -> bool:
        """Whether the body of a direct request is awaited; the ASGI application does not know of the request yet."""
        return self._endpoint is not None

    def head_ends(self) -> None:
        """The header of a request is complete: await its body, or pass it to the ASGI application."""
        may_be = self._is_idle and not self.expect_100_continue and self.parser.get_method() == b"POST"
        if may_be and self._application is not None:
            self._endpoint = self._application.direct_endpoint(self.url.decode("latin-1"))
        if self._endpoint is None:
            self.begin_cycle()

    @property
    def _is_idle(self) -> bool:
        """Whether no request waits for its answer, and the peer reads its answers."""
        return (self.cycle is None or self.cycle.response_complete) and not self.flow.write_paused

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._parsed = None  # behind another request in one read: what was read is not that request alone

    def begin_known(self, data: bytes) -> bool:
        """Begin a direct request without parsing it, if its header has the same bytes as that of an earlier one.

        :param data: received by one read, while the parser is at the beginning of a request.
        :return: ``False`` = it has to be parsed; nothing has changed.
        """
        self._parsed = None
        found = self.known.find(data)
        if found is None or self._application is None or not self._is_idle:
            return False
        known, length, body = found
        path, headers = known.url.decode("latin-1"), {**known.headers, "content-length": length.decode("ascii")}
        endpoint = self._application.direct_endpoint(path)
        if endpoint is None or not endpoint.is_direct(headers, len(body)):
            return False
        super().on_message_begin()  # makes a scope; a subclass would await a header
        self.scope["extensions"] = self.extensions
        self.url = known.url
        self.headers += known.fields_with(length)
        self._new_exchange(path, keep_alive=True).begin(endpoint, headers, body)
        return True

    def learn(self, data: bytes) -> None:
        """Remember the header of the direct request that was parsed, if ``data`` is that request and nothing else."""
        if self._parsed is not None:
            self.known.learn(data, self._parsed)

    def read_ends(self) -> None:
        """All bytes that were read at once are parsed: for the rest of a body, wait `BODY_DELAY` seconds."""
        if self._endpoint is not None and (self.pieces.count > MOST_PIECES or self.pieces.size > SMALL):
            self.pass_on()
        elif self._endpoint is not None and self._until is None:
            self._until = self.loop.call_later(BODY_DELAY, self.pass_on)
        elif self._endpoint is None:
            self.pass_body()

    def body_ends(self) -> bool:
        """The body of a request is complete: let its endpoint answer it directly. ``False`` = the ASGI application
        answers it."""
        endpoint = self._endpoint
        headers = headers_of(self.headers) if endpoint is not None else {}
        if endpoint is None or not endpoint.is_direct(headers, self.pieces.size):
            self.pass_on()
            self.pass_body()
            return False
        self.forget()
        keep_alive = self.parser.get_http_version() != "1.0" and self.parser.should_keep_alive()
        self._parsed = KnownRequest(self.url, tuple(self.headers), dict(headers)) if keep_alive else None
        exchange = self._new_exchange(self.url.decode("latin-1"), keep_alive=keep_alive)
        # Not within a callback of the parser: the answer may close the connection or begin the next request.
        self.loop.call_soon(exchange.begin, endpoint, headers, self.pieces.take())
        return True

    def _new_exchange(self, path: str, *, keep_alive: bool) -> DirectExchange:
        scope: Scope = {**self.scope, "method": "POST", "path": path}
        exchange = DirectExchange(self, scope, keep_alive=keep_alive)
        self.running = exchange
        self.cycle = exchange  # type: ignore[assignment]
        self.tasks.add(exchange)  # type: ignore[arg-type]
        return exchange

    def pass_on(self) -> None:
        """Pass a request whose body is awaited to the ASGI application."""
        if self._endpoint is not None:
            self.forget()
            self.begin_cycle()
            self.pass_body()

    def forget(self) -> None:
        """Await no body any more."""
        self._endpoint = None
        if self._until is not None:
            self._until.cancel()
            self._until = None

    def begin_cycle(self) -> None:
        """Pass the request whose header is complete to the ASGI application."""
        super().on_headers_complete()

    def pass_body(self) -> None:
        """Pass the pieces of a body to the ASGI application, as one."""
        if body := self.pieces.take():
            super().on_body(body)

    # --- answering -------------------------------------------------------------------------------------------------

    def write_answer(self, exchange: DirectExchange, status: int, fields: bytes, body: bytes) -> None:
        """Write the answer to a direct request at once, and go on with the next request.

        :param fields: the lines of its header fields.
        """
        before = [b"%b: %b\r\n" % field for field in self.server_state.default_headers]
        self.transport.write(b"%b%b%b\r\n%b" % (STATUS_LINE[status], b"".join(before), fields, body))
        self.tasks.discard(exchange)
        if not exchange.keep_alive:
            self.hang_up()
        self.on_response_complete()

    def hang_up(self) -> None:
        """Close the connection when the peer has read the answer."""
        self.transport.close()

    def go_on(self, exchange: DirectExchange, app: App) -> None:
        """Let an ASGI application answer a direct request."""
        self.tasks.discard(exchange)
        cycle = RequestResponseCycle(
            scope=exchange.scope,  # type: ignore[arg-type]
            transport=self.answer_transport,  # type: ignore[arg-type]
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=False,
            default_headers=self.server_state.default_headers,
            message_event=asyncio.Event(),
            expect_100_continue=False,
            keep_alive=exchange.keep_alive,
            on_response=self.on_response_complete,
        )
        cycle.more_body = False
        newest: object = self.cycle
        if newest is exchange:
            self.cycle = cycle
        self._start_asgi_task(cycle, app)  # type: ignore[arg-type]


if TYPE_CHECKING:

    def _conforms(exchange: DirectExchange) -> Exchange:
        return exchange
