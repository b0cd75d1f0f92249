"""The SOAP endpoint: an ASGI callable that turns HTTP requests into arrivals and answers into replies.

FastAPI's layers around a route cost three times as much (docs/architecture.md): they are gone through only where an
application has put something into them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any, Protocol

from mercury.engine.exchange import ACCEPTED, Answer, Arrival, HeldExchange
from mercury.engine.ids import Ids
from mercury.engine.refusal import refuse, with_status
from mercury.engine.runtime.held_exchanges import HeldExchanges
from mercury.engine.runtime.threads import Runtime
from mercury.errors import Overloaded
from mercury.service.bodies import Bodies, RequestRefused
from mercury.service.held import abort_of, held, unsent_of
from mercury.service.identity import Authenticate, identify
from mercury.service.shares import FREE, Share
from mercury.storage.callers import network_of
from mercury.wire.envelope import HttpMessage

log = logging.getLogger("mercury.endpoint")

#: Bytes up to which a message is decoded at once, in the event loop: another thread costs more than that.
SMALL = 64 * 1024

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class Host(Protocol):
    """What an endpoint needs of the process it stands in."""

    @property
    def ids(self) -> Ids: ...

    @property
    def running_runtime(self) -> Runtime | None:
        """The runtime, while it runs."""

    def refused_unstarted(self) -> None:
        """A message came while nothing runs: log it."""

    @property
    def bodies(self) -> Bodies:
        """Those of all requests to the process, and of their answers."""

    @property
    def authenticate(self) -> Authenticate | None:
        """Says who sends a request; ``None`` = its TLS certificate does."""

    @property
    def back_channel_wait(self) -> float:
        """Seconds that an exchange is held open for its response."""


class Endpoint:
    """Where messages for one service arrive, or (without one) responses to this process's own requests."""

    def __init__(self, host: Host, service: str | None) -> None:
        self._host = host
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise TypeError(f"a SOAP endpoint speaks HTTP, not {scope['type']}")
        headers = _headers(scope)
        if scope["method"] != "POST":
            await _send_text(send, 405, "This is a SOAP endpoint: messages are posted to it.\n", (("allow", "POST"),))
            return
        try:
            reply = await self._reply(scope, headers, receive)
        except RequestRefused as refused:
            content_type = headers.get("content-type", "")
            reply = with_status(refuse(refused.fault, content_type, self._host.ids), refused.status)
            await _send(send, reply, refused.challenge)
            return
        if len(reply.body) > FREE:
            await self._send_large(scope, send, reply)
        else:
            await _send(send, reply)

    async def _send_large(self, scope: Scope, send: Send, reply: HttpMessage) -> None:
        """Send an answer that counts until it is written; when there is no room, the request has to be repeated."""
        answers, now = self._host.bodies.answers, asyncio.get_running_loop().time()
        share = Share(network_of(_peer(scope)), now, abort_of(scope), unsent_of(scope))
        # One that is larger than all may be goes out too, when there is room for half of them.
        if not answers.grow(share, min(len(reply.body), answers.limit // 2), now):
            log.info(
                "an answer of %d bytes is not sent: too many are not read yet (http.max_sending_bytes)", len(reply.body)
            )
            await _send(send, ACCEPTED)
            return
        try:
            await _send(send, reply, whole=False)
            await send({"type": "http.response.body", "body": b""})  # is taken once the peer has read the rest
        finally:
            answers.drop(share)

    async def _reply(self, scope: Scope, headers: dict[str, str], receive: Receive) -> HttpMessage:
        encoding = headers.get("content-encoding", "identity").strip().lower()
        if encoding not in ("", "identity"):
            raise RequestRefused(415, f"The Content-Encoding {encoding} is not taken.")
        identity = identify(scope, headers, self._host.authenticate)
        body, share = await self._host.bodies.read(headers, receive, _peer(scope))
        try:
            runtime, answer = await self._submit(self._host.running_runtime, scope, headers, body, identity)
        finally:
            self._host.bodies.release(share)
        if answer.held is None:
            return answer.http
        held_exchanges, waiting = runtime.held_exchanges, answer.held
        try:
            with held(scope, lambda: held_exchanges.give_up(waiting)):
                return await _response(held_exchanges, waiting, self._host.back_channel_wait) or answer.http
        finally:
            _let_go(runtime, answer)

    async def _submit(
        self, runtime: Runtime | None, scope: Scope, headers: dict[str, str], body: bytes, identity: str | None
    ) -> tuple[Runtime, Answer]:
        if runtime is None:
            self._host.refused_unstarted()
            raise RequestRefused(503, "This endpoint is not running; send it again later.", busy=True)
        http = HttpMessage(body, headers.get("content-type", ""), headers.get("soapaction"))
        if len(body) <= SMALL:
            envelope = runtime.decode(http, self._service)
        else:
            envelope = await asyncio.to_thread(runtime.decode, http, self._service)
        arrival = Arrival(
            http=http,
            envelope=envelope,
            service=self._service,
            url=f"{scope.get('scheme', 'http')}://{headers.get('host', '')}{scope.get('path', '')}",
            peer=_peer(scope),
            identity=identity,
        )
        return runtime, await _answer(runtime, arrival)


async def _answer(runtime: Runtime, arrival: Arrival) -> Answer:
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Answer] = loop.create_future()
    try:
        runtime.submit(arrival, lambda answer: _resolve(loop, future, answer, lambda: _let_go(runtime, answer)))
    except Overloaded as error:
        raise RequestRefused(503, str(error), busy=True) from error
    return await future


async def _response(held_exchanges: HeldExchanges, held: HeldExchange, seconds: float) -> HttpMessage | None:
    """Hold the exchange for its response (HTTP-05); ``None`` = it did not come in time, or cannot come soon."""
    future = asyncio.wrap_future(held.response)
    patience = held_exchanges.patience(held)
    if patience is not None and patience < seconds:
        done, _ = await asyncio.wait([future], timeout=patience)
        if not done and held_exchanges.patience(held) is not None:
            return None
        seconds -= patience
    try:
        async with asyncio.timeout(seconds):
            return await future
    except TimeoutError:
        return None


def _let_go(runtime: Runtime, answer: Answer) -> None:
    if answer.held is not None:
        runtime.held_exchanges.let_go(answer.held)


def _resolve(
    loop: asyncio.AbstractEventLoop, future: asyncio.Future[Any], value: object, unwanted: Callable[[], None]
) -> None:
    """Set a future's result from another thread; a peer that has gone meanwhile needs none."""

    def resolve() -> None:
        if future.done():
            unwanted()
        else:
            future.set_result(value)

    # The loop may be closed when the process ends while an exchange is held.
    if not loop.is_closed():
        loop.call_soon_threadsafe(resolve)


def _headers(scope: Scope) -> dict[str, str]:
    """By name; what is there several times is joined (RFC 9110, 5.3).

    Some servers add the trailers of a request to its header: a peer must not replace by one what a proxy has said.
    """
    fields = [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in scope["headers"]]
    headers = dict(fields)
    if len(headers) < len(fields):
        headers = {}
        for name, value in fields:
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


def _peer(scope: Scope) -> str:
    client = scope.get("client")
    return str(client[0]) if client else ""


async def _send(send: Send, message: HttpMessage, challenge: str | None = None, *, whole: bool = True) -> None:
    headers = [("content-length", str(len(message.body)))]
    if message.body:
        headers.append(("content-type", message.content_type))
    if message.status in (408, 413):
        headers.append(("connection", "close"))
    if message.status == 503:
        headers.append(("retry-after", "1"))
    if challenge is not None:
        headers.append(("www-authenticate", challenge))
    await _send_raw(send, message.status, headers, message.body, whole=whole)


async def _send_text(send: Send, status: int, text: str, headers: Iterable[tuple[str, str]]) -> None:
    body = text.encode()
    every = [*headers, ("content-type", "text/plain; charset=utf-8"), ("content-length", str(len(body)))]
    await _send_raw(send, status, every, body)


async def _send_raw(
    send: Send, status: int, headers: list[tuple[str, str]], body: bytes, *, whole: bool = True
) -> None:
    raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": body, "more_body": not whole})
