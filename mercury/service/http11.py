"""HTTP/1.1 for Mercury's server: uvicorn's protocol with limits, which ignores offers of an upgrade.

To use it with your own uvicorn: ``uvicorn shop:app --http mercury.service.http11:Http11Protocol``.
"""

from __future__ import annotations

import asyncio
import math
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle
from uvicorn.server import ServerState

from mercury.service.connections import Activity, Connection, connections_of
from mercury.service.direct import DirectProtocol
from mercury.service.flow import AnswerTransport, Flow
from mercury.service.heads import Breach, reason_to_refuse, refusal, without_upgrade
from mercury.service.held import EXTENSION, Hold, Holder
from mercury.service.host import takes_attachments
from mercury.service.peer import tls_extension
from mercury.service.reading import Reading

#: Seconds that a peer has to read a refusal before the connection is cut.
LINGER = 2.0
#: The most bytes that are read and discarded during that time.
LINGER_BYTES = 4 * 1024 * 1024
#: Seconds after a body's deadline until this protocol refuses it. In that time the endpoint refuses it with a fault.
GRACE = 1.0
#: Requests that a connection may send ahead of their answers.
MAX_PIPELINED = 8


class Http11Protocol(DirectProtocol):
    """One connection.

    - An Upgrade header is ignored (RFC 9110, 7.8). The parser llhttp ends such a request after its header, so the
      header without Upgrade, and then the rest, are passed to a new parser. WebSocket is ignored too, whatever
      ``--ws`` says, because an upgraded connection would be outside of all limits and of the orderly stop. An
      application with WebSockets serves them with another uvicorn.
    - The request line, the header, the first byte, the body, the pause between two requests and the reading of an
      answer are limited by `HttpSettings`.
    - The peer's TLS certificate is in ``scope["extensions"]["tls"]`` (ASGI's TLS extension).
    """

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._connections = connections_of(server_state, lambda: takes_attachments(config.loaded_app))
        self._settings = settings = self._connections.settings
        self.known = self._connections.known
        self._max_line, self._max_head = settings.max_request_line, settings.max_header_bytes
        self._max_fields = settings.max_header_fields
        #: When the next part of a request must have arrived, and when the peer must have read what was written.
        self._read_deadline = self._write_deadline = math.inf
        #: When the last answer that filled the write buffer must have been sent.
        self._sent_by = 0.0
        self._reading = Reading.NOTHING
        #: When the whole body must have arrived, and the bytes of it since the last check of its rate.
        self._body_deadline = math.inf
        self._body_bytes = 0
        #: Bytes of the header that is being read: of complete fields, and after the last complete field.
        self._head_bytes = self._pending = 0
        self._fields = 0
        self._breach: Breach | None = None
        self.hold = Hold()
        #: The peer sends no more: the connection is closed after the outstanding answers.
        self._last = False
        #: The connection was refused or is being closed: further bytes are discarded.
        self._ended = False
        self._discarded = 0
        #: The TLS handshake that counted for the connection until now.
        self.before: Connection | None = None

    # --- the connection --------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.answer_transport = AnswerTransport(transport, self.hang_up)
        self.flow = Flow(transport, self.pipeline)
        if self.before is not None:
            self._connections.remove(self.before)
        self._read_deadline = self.loop.time() + self._settings.first_byte_timeout
        reason = self._connections.admit(self, self.client[0] if self.client else "")
        if reason is not None:
            self._connections.leave(self)
            self._write_refusal(503, f"{reason}; try again later")
            self._reading = Reading.BODY  # a request may follow: it is discarded
            self.hang_up()
            return
        tls = tls_extension(transport, self._connections.authorities)
        self.extensions = {EXTENSION: self, **(tls or {})}

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.remove(self)
        self._ended = True
        self.hold.end_soon()
        self._disconnect()
        super().connection_lost(exc)

    def eof_received(self) -> bool:  # type: ignore[override]
        """Keep the connection open for the answers to complete requests, except with TLS, which cannot close half a
        connection. Otherwise the transport closes after its write buffer is sent; the deadline bounds that."""
        if self._answering and self._reading is Reading.NOTHING and not self._ended and self.transport.can_write_eof():
            self._last = True
            self.hold.end_soon()  # a client that has left looks the same
            return True
        self._read_deadline = min(self._read_deadline, self.loop.time() + self._settings.receive_timeout)
        return False

    def pause_writing(self) -> None:
        self._write_deadline = self._sent_by = self.loop.time() + self._settings.receive_timeout
        super().pause_writing()

    def resume_writing(self) -> None:
        self._write_deadline = math.inf
        super().resume_writing()

    @property
    def deadline(self) -> float:
        return min(self._read_deadline, self._write_deadline)

    @property
    def activity(self) -> Activity:
        if self._write_deadline < math.inf:
            return Activity.TRANSFER
        if self._ended or self.transport.is_closing():
            return Activity.ENDING
        if self.hold.active:
            return Activity.HELD
        if self.awaits_body:
            return Activity.TRANSFER
        if self._answering:
            # Only the last request can have an incomplete body: those before it are being processed.
            incomplete = self._reading is Reading.BODY and self.running is self.cycle
            return Activity.TRANSFER if incomplete else Activity.BUSY
        return Activity.IDLE if self._reading is Reading.NOTHING else Activity.BEGINNING

    @property
    def since(self) -> float:
        return self.hold.since if self.hold.active else self.deadline

    def make_room(self) -> None:
        self.pass_on()
        if self._write_deadline < math.inf or self._ended or self.transport.is_closing():
            self.abort()  # of one that is being closed, nothing can be written any more
        elif self.hold.active and self.running is not None:
            self.pipeline.clear()
            self.running.keep_alive = False
            self.hold.give_up()
        elif self._answering or self._reading is Reading.HEAD:
            self._refuse(408, "the rest of the request did not come, and others wait for a connection")
        else:
            self.hang_up()

    def abort(self) -> None:
        self.transport.abort()

    def shutdown(self) -> None:
        self.pass_on()
        if not self.transport.is_closing():
            super().shutdown()  # a second close of a TLS transport of asyncio makes its `abort` fail
        self.hold.end_soon()
        if self.transport.is_closing():  # the stop does not wait for a peer that does not read
            self._read_deadline = self._sent_by = self.loop.time() + LINGER
            self._write_deadline = min(self._write_deadline, self._sent_by)

    @property
    def _answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def expire(self, now: float) -> None:
        self.pass_on()
        closing, between = self._ended or self.transport.is_closing(), self._reading is Reading.NOTHING
        only_writing = closing or (between and not self._answering)
        if self._write_deadline <= now:
            self.transport.abort()
        elif only_writing and now < self._sent_by and self.transport.get_write_buffer_size():
            # The peer still reads an answer, and `_sent_by` bounds how slowly.
            self._read_deadline = min(self._sent_by, now + self._settings.idle_timeout)
        elif closing:
            self.transport.abort()
        elif between:
            self._read_deadline = math.inf
            if not self._answering:
                self.hang_up()
        elif self._reading is Reading.BODY:
            self._body_expired(now)
        elif self._answering:  # the next request may be slow until this one is answered
            self._read_deadline = now + self._settings.header_timeout
        else:
            self._refuse(408, "the header of the request took too long to arrive")

    def _body_expired(self, now: float) -> None:
        least = self._settings.min_body_rate * self._settings.body_rate_window
        # While reading is paused, the application is slow, not the peer.
        fast_enough = self.flow.read_paused or self._body_bytes >= least
        if not self._answering:
            self.hang_up()
        elif now < self._body_deadline and fast_enough:
            self._start_rate_window(now)
        else:
            self._refuse(408, "the request took too long to arrive")

    def _start_body(self) -> None:
        now = self.loop.time()
        self._body_deadline = now + self._settings.receive_timeout + GRACE
        self._start_rate_window(now)

    def _start_rate_window(self, now: float) -> None:
        self._body_bytes = 0
        self._read_deadline = min(self._body_deadline, now + self._settings.body_rate_window)

    def hang_up(self) -> None:
        """Close the connection after the write buffer is sent, and cut it after `LINGER` seconds."""
        self.forget()
        self._ended = True
        if (self._reading is not Reading.NOTHING or self.flow.read_paused) and self.transport.can_write_eof():
            # Closing a socket with unread data resets the connection, and the peer may lose the answer.
            self.pipeline.clear()
            self.flow.resume_reading()
            self.transport.write_eof()
        else:
            self.transport.close()
        self._read_deadline = self.loop.time() + LINGER

    # --- reading ---------------------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        if self._ended:
            self._discarded += len(data)
            if self._discarded > LINGER_BYTES:
                self.transport.abort()
            return
        whole = self._reading is Reading.NOTHING
        if whole and self.begin_known(data):
            self._await_next()
            return
        self._pending += len(data)
        rest: bytes | memoryview = data
        while True:
            try:
                self.parser.feed_data(rest)
            except httptools.HttpParserUpgrade as upgrade:
                rest = memoryview(rest)[upgrade.args[0] :]
                if not self._read_head_again():
                    return
                continue
            except httptools.HttpParserError:
                self._refuse_breach()
                return
            break
        self.read_ends()
        if whole:
            self.learn(data)
        if self._head_bytes + self._pending > self._max_head and self._reading is not Reading.NOTHING:
            self._refuse(431, f"the header of the request has more than {self._max_head} bytes")

    def _read_head_again(self) -> bool:
        """Pass the header, without Upgrade, to a new parser; ``False`` = it refused it, and the refusal was sent."""
        head = without_upgrade(self.parser.get_method(), self.url, self.parser.get_http_version(), self.headers)
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        try:
            self.parser.feed_data(head)
        except httptools.HttpParserError:
            self._refuse_breach()
            return False
        return True

    def _should_upgrade(self) -> bool:
        """Overrides uvicorn's check for WebSocket."""
        return False

    # --- callbacks of the parser -----------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["extensions"] = self.extensions
        self._reading = Reading.HEAD
        self._head_bytes = self._pending = self._fields = 0
        self._read_deadline = self.loop.time() + self._settings.header_timeout

    def on_url(self, url: bytes) -> None:
        self.url += url
        if len(self.url) > self._max_line:
            self._exceeded(414, f"the request line has more than {self._max_line} bytes")

    def on_header(self, name: bytes, value: bytes) -> None:
        self._pending, self._head_bytes = 0, self._head_bytes + len(name) + len(value) + 4
        if self._head_bytes > self._max_head:
            self._exceeded(431, f"the header of the request has more than {self._max_head} bytes")
        self._fields += 1
        if self._fields > self._max_fields:
            self._exceeded(431, f"the header of the request has more than {self._max_fields} fields")
        if self._reading is Reading.HEAD:  # trailers are ignored
            name = name.lower()
            if name == b"expect" and value.lower() == b"100-continue":
                self.expect_100_continue = True
            self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        if self.parser.get_method() == b"CONNECT":
            self._exceeded(501, "this server is not a proxy")
        refused = reason_to_refuse(self.parser.get_http_version(), self.url, self.headers)
        if refused is not None:
            self._exceeded(*refused)
        if self.parser.should_upgrade():
            return
        if len(self.pipeline) >= MAX_PIPELINED:
            self._exceeded(503, f"more than {MAX_PIPELINED} requests ahead of their answers")
        self._reading = Reading.BODY
        self._head_bytes = self._pending = self._fields = 0
        self._start_body()
        self.head_ends()
        if self.running is not self.cycle:  # its body is not read before its turn
            self._read_deadline = math.inf

    def begin_cycle(self) -> None:
        super().begin_cycle()
        if self.cycle is not None:
            self.cycle.transport = self.answer_transport  # type: ignore[assignment]

    def on_body(self, body: bytes) -> None:
        self._pending, self._body_bytes = 0, self._body_bytes + len(body)
        if not self.pieces.add(body):
            self._exceeded(400, "the body of the request has too many small chunks")

    def on_message_complete(self) -> None:
        if self.parser.should_upgrade():  # the header is parsed again without it
            return
        self._reading = Reading.NOTHING
        self._pending = 0
        if not self.body_ends():
            super().on_message_complete()
        self._await_next()

    def _await_next(self) -> None:
        if self._answering:
            self._read_deadline = math.inf
        else:
            self._read_deadline = self.loop.time() + self._settings.idle_timeout

    def _exceeded(self, status: int, reason: str) -> NoReturn:
        self._breach = Breach(status, reason)
        raise self._breach

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self.running = cycle
        super()._start_asgi_task(cycle, partial(self._run, cycle, app))

    async def _run(self, cycle: RequestResponseCycle, app: Any, *arguments: Any) -> None:
        """Run the application for one request. If the server stops meanwhile, the request is cut without an error."""
        try:
            await app(*arguments)
        except asyncio.CancelledError:
            cycle.disconnected = True
            self.transport.abort()

    def _disconnect(self) -> None:
        """Report the disconnect to the running request, and drop the pipelined ones."""
        self.pipeline.clear()
        if self.running is not None and not self.running.response_complete:
            self.running.disconnected = True
            self.running.waiting_for_100_continue = False  # nothing can be written any more
            self.running.message_event.set()

    # --- answering -------------------------------------------------------------------------------------------------

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        if self._ended or self.transport.is_closing():
            return
        if self.pipeline:
            cycle, app = self.pipeline.pop()
            self._start_asgi_task(cycle, app)
            if self._reading is Reading.BODY and cycle is self.cycle:
                self._start_body()
        elif self._last:
            self.hang_up()
            return
        elif self._reading is Reading.NOTHING:
            self._read_deadline = self.loop.time() + self._settings.idle_timeout
        elif self._reading is Reading.BODY:  # the rest of an answered request is read only briefly
            self._read_deadline = self.loop.time() + LINGER
        self.flow.resume_reading()

    def _refuse(self, status: int, reason: str) -> None:
        """Refuse the request that is being received, and close the connection. The application does not answer it."""
        if self._answering:
            unanswered = self._reading is Reading.BODY and not self.pipeline and not self.cycle.response_started
            self._disconnect()
            if not unanswered:  # another answer is being written: the refusal must not mix with it
                self._ended = True
                self.transport.abort()
                return
        self._write_refusal(status, reason)
        self._reading = Reading.BODY  # the rest of the request is discarded
        self.hang_up()

    def _refuse_breach(self) -> None:
        breach = self._breach or Breach(400, "Invalid HTTP request received.")
        self._refuse(breach.status, str(breach))

    def _write_refusal(self, status: int, reason: str) -> None:
        self.transport.write(refusal(status, reason, self.server_state.default_headers))


if TYPE_CHECKING:

    def _conforms(protocol: Http11Protocol) -> tuple[Connection, Holder]:
        return protocol, protocol
