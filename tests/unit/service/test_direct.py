"""Requests that are answered without a task: what they cost, and when they go the usual way instead."""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, ParamSpec, cast

import pytest
import uvicorn
from uvicorn.server import ServerState

from mercury.engine.exchange import Answer, Arrival, HeldExchange
from mercury.engine.runtime.threads import Runtime
from mercury.errors import Overloaded
from mercury.service.answers import AnswerQueue
from mercury.service.bodies import Bodies
from mercury.service.connections import Connections, keep
from mercury.service.direct import BODY_DELAY, MOST_PIECES
from mercury.service.endpoint import SMALL, Endpoint, Host
from mercury.service.held import EXTENSION
from mercury.service.host import SoapApplication
from mercury.service.http11 import Http11Protocol
from mercury.service.known_requests import LONGEST_HEAD, MOST_HEADS, KnownRequest, KnownRequests
from mercury.service.shares import FREE
from mercury.settings import HttpSettings
from mercury.wire.envelope import HttpMessage

P = ParamSpec("P")


def in_loop(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run a test in an event loop."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


DONE = Answer(http=HttpMessage(b"<done/>", "text/xml; charset=utf-8"))
BODY = b"<a/>"


class Transport(asyncio.Transport):
    """Records what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []
        self.closing = self.aborted = False

    def write(self, data: Any) -> None:
        self.writes.append(bytes(data))

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        self.closing = True

    def abort(self) -> None:
        self.closing = self.aborted = True

    def can_write_eof(self) -> bool:
        return False

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", 5000) if name in ("peername", "sockname") else default


@dataclass
class Timer:
    when: float
    cancelled: bool = False

    def cancel(self) -> None:
        self.cancelled = True


class Loop:
    """The running loop, whose timers never run."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.timers: list[tuple[Timer, Callable[..., object]]] = []
        self.tasks = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)

    def call_later(self, delay: float, function: Callable[..., object], *_: object) -> Timer:
        self.timers.append((Timer(delay), function))
        return self.timers[-1][0]

    def create_task(self, coroutine: Coroutine[Any, Any, None], **options: Any) -> asyncio.Task[None]:
        self.tasks += 1
        return self._loop.create_task(coroutine, **options)


class HeldExchanges:
    def __init__(self) -> None:
        self.released: list[HeldExchange] = []

    def let_go(self, held: HeldExchange) -> None:
        self.released.append(held)


class Engine:
    """In the place of the runtime: arrivals wait for `answer`."""

    store_id: str | None = None

    def __init__(self) -> None:
        self.arrivals: list[tuple[Arrival, Callable[[Answer], None]]] = []
        self.held_exchanges = HeldExchanges()
        self.secured = self.full = False
        self.error: Exception | None = None

    def is_secured(self, _service: str | None) -> bool:
        return self.secured

    def decode(self, _http: HttpMessage, _service: str | None) -> None:
        if self.error is not None:
            raise self.error

    def submit(self, arrival: Arrival, on_answer: Callable[[Answer], None]) -> None:
        if self.full:
            raise Overloaded("too many messages wait")
        self.arrivals.append((arrival, on_answer))

    def answer(self, answer: Answer = DONE) -> None:
        for _, on_answer in self.arrivals:
            on_answer(answer)
        self.arrivals.clear()


@dataclass
class Process:
    """The `Host` of the endpoint."""

    max_bytes: int
    engine: Engine = field(default_factory=Engine)
    ids: Any = None
    authenticate: Any = None
    address: Any = None
    back_channel_wait: float = 1.0
    response_wait: float = 1.0

    def __post_init__(self) -> None:
        self.bodies = Bodies(self.max_bytes, HttpSettings())

    def runtime_for(self, service: str | None) -> Runtime:
        del service
        return cast("Runtime", self.engine)


class Server:
    """One connection to a server with one endpoint."""

    def __init__(self, *, takes_attachments: bool = False, max_bytes: int = 1 << 20, **options: Any) -> None:
        self.loop, self.state, self.transport, self.process = Loop(), ServerState(), Transport(), Process(max_bytes)
        self.engine = self.process.engine
        endpoint = Endpoint(cast("Host", self.process), "s", takes_attachments=takes_attachments)
        self.app = SoapApplication({"/s": endpoint})
        config = uvicorn.Config(
            self.app,
            log_config=None,
            access_log=False,
            lifespan="off",
            **{"proxy_headers": False} | options,
        )
        config.load()
        keep(self.state, Connections(HttpSettings()))
        self.protocol = Http11Protocol(config, self.state, {}, cast("asyncio.AbstractEventLoop", self.loop))
        self.protocol.connection_made(self.transport)

    async def read(self, *parts: bytes) -> None:
        for part in parts:
            self.protocol.data_received(part)
            await self.settle()

    async def settle(self) -> None:
        for _ in range(8):
            await asyncio.sleep(0)

    async def answer(self, answer: Answer = DONE) -> None:
        self.engine.answer(answer)
        await self.settle()


def request(body: bytes = BODY, *fields: bytes) -> bytes:
    head = [b"POST /s HTTP/1.1", b"Host: h", b"Content-Type: text/xml", b"Content-Length: %d" % len(body), *fields]
    return b"\r\n".join([*head, b"", body])


@in_loop
async def test_small_request_costs_no_task_and_one_write() -> None:
    server = Server()
    await server.read(request())
    ((arrival, _),) = server.engine.arrivals
    assert arrival.http == HttpMessage(BODY, "text/xml")
    assert (arrival.service, arrival.url, arrival.peer) == ("s", "http://h/s", "127.0.0.1")
    await server.answer()
    (written,) = server.transport.writes
    head, _, body = written.partition(b"\r\n\r\n")
    assert head.split(b"\r\n") == [
        b"HTTP/1.1 200 OK",
        b"content-length: 7",
        b"content-type: text/xml; charset=utf-8",
    ]
    assert body == b"<done/>"
    assert (server.loop.tasks, server.loop.timers, len(server.state.tasks)) == (0, [], 0)
    assert server.state.total_requests == 1
    await server.read(request())
    await server.answer()
    assert len(server.transport.writes) == 2


@in_loop
async def test_answers_of_one_transaction_wake_the_loop_once() -> None:
    woken, taken = 0, []

    class Counting(Loop):
        def call_soon_threadsafe(self, function: Callable[[], None]) -> None:
            nonlocal woken
            woken += 1
            self._loop.call_soon(function)

    answers = AnswerQueue(cast("asyncio.AbstractEventLoop", Counting()))
    for _ in range(3):
        for number in range(64):
            answers.put(lambda _, number=number: taken.append(number), DONE)  # type: ignore[misc]
        await asyncio.sleep(0)
    assert woken == 3
    assert taken == 3 * list(range(64))


@in_loop
async def test_failure_with_one_answer_loses_no_other(caplog: pytest.LogCaptureFixture) -> None:
    taken: list[Answer] = []

    def fail(_: Answer) -> None:
        raise RuntimeError("cannot be written")

    answers = AnswerQueue(asyncio.get_running_loop())
    answers.put(fail, DONE)
    answers.put(taken.append, DONE)
    await asyncio.sleep(0.0)
    await asyncio.sleep(0.0)
    assert taken == [DONE]
    assert "could not be written" in caplog.text


class Unread:
    """In the place of a parser that must not be used."""

    def feed_data(self, data: bytes) -> None:
        raise AssertionError(f"{data!r} is parsed")


def scope_of(server: Server) -> dict[str, Any]:
    """What the application would be told of the request that was begun last."""
    cycle: Any = server.protocol.cycle
    assert cycle.scope["extensions"][EXTENSION] is server.protocol
    return {name: value for name, value in cycle.scope.items() if name not in ("state", "headers", "extensions")}


@pytest.mark.parametrize(
    "fields",
    [
        (),
        (b'SOAPAction: ""', b"Accept: a", b"Accept: b"),
        (b"Mercury-Store:  f0e1 ", b"Connection: keep-alive"),
        (b"X-Length: Content-Length: 7",),
    ],
    ids=["few", "repeated", "blanks", "odd"],
)
@in_loop
async def test_request_with_a_known_header_is_not_parsed_and_means_the_same(fields: tuple[bytes, ...]) -> None:
    server, seen = Server(), list[Any]()
    server.process.authenticate = lambda asked: seen.append((asked.path, asked.client, dict(asked.headers)))
    for body in (BODY, b"<other/>"):
        await server.read(request(body, *fields))
        ((arrival, _),) = server.engine.arrivals
        seen.append((arrival, scope_of(server), server.protocol.headers))
        await server.answer()
    parsed = Server()
    parsed.process.authenticate = server.process.authenticate
    await parsed.read(request(b"<other/>", *fields))
    ((arrival, _),) = parsed.engine.arrivals
    seen.append((arrival, scope_of(parsed), parsed.protocol.headers))
    assert seen[2:4] == seen[4:6], "as on a connection to a server that knows nothing"
    server.protocol.parser = Unread()
    await server.read(request(b"<a>third</a>", *fields))
    await server.answer()
    assert [written.rpartition(b"\r\n")[2] for written in server.transport.writes] == [b"<done/>"] * 3
    assert (server.loop.tasks, server.loop.timers, len(server.state.tasks)) == (0, [], 0)
    assert server.state.total_requests == 3


@pytest.mark.parametrize(
    "parts",
    [
        (request() + request(b"<b/>"),),
        (request()[:-1], request()[-1:]),
        (request() + b"POST /s HT", b"TP/1.1\r\n" + request(b"<b/>").partition(b"\r\n")[2]),
        (request().replace(b"Length: 4", b"Length: 04"),),
        (request().replace(b"Length: 4", b"length: 4"),),
        (b"\r\n" + request(),),
        (request(b"<a/>\r\n\r\nContent-Length: 2\r\n\r\n"),),
    ],
    ids=[
        "two requests",
        "two reads",
        "a part of the next",
        "zeros",
        "other letters",
        "a blank line before",
        "look-alike",
    ],
)
@in_loop
async def test_a_read_that_is_not_one_request_with_a_known_header_is_parsed(parts: tuple[bytes, ...]) -> None:
    server = Server()
    await server.read(request())
    await server.answer()
    await server.read(*parts)
    for _ in parts:
        await server.answer()
    await server.answer()
    sent = sum(part.count(b"POST") for part in parts)
    assert server.state.total_requests == 1 + sent
    assert not server.transport.closing


def behind(body: bytes, other: bytes) -> bytes:
    """Two requests, as one read: only the header of the second one has its length in the letters that are looked for,
    and only there another host."""
    first = request(body).replace(b"Content-Length", b"content-length")
    return first + request(other).replace(b"Host: h", b"Host: other")


@in_loop
async def test_two_requests_of_one_read_are_never_taken_for_one() -> None:
    server = Server()
    for bodies in ((b"<a/>", b"<b/>"), (b"<a/>", b"<longer/>"), (b"<c/>", b"<d/>"), (b"<a/>", b"<b/>")):
        await server.read(behind(*bodies))
        for host, body in zip((b"h", b"other"), bodies, strict=True):
            ((arrival, _),) = server.engine.arrivals
            assert (arrival.url, arrival.http.body) == (f"http://{host.decode()}/s", body)
            await server.answer()
    assert server.state.total_requests == 8
    assert len(server.protocol.known) == 0


@pytest.mark.parametrize("next_one", [request(b"<b/>"), b"P"], ids=["whole", "its first byte"])
@in_loop
async def test_header_is_not_to_be_remembered_if_another_request_begins_in_the_same_read(next_one: bytes) -> None:
    server, offered = Server(), list[bytes]()
    server.protocol.known.learn = lambda data, _: offered.append(data)  # type: ignore[method-assign]
    await server.read(request() + next_one)
    assert offered == []
    server = Server()
    server.protocol.known.learn = lambda data, _: offered.append(data)  # type: ignore[method-assign]
    await server.read(request())
    assert offered == [request()]


def test_header_is_not_remembered_with_the_length_of_another_request() -> None:
    fields = ((b"host", b"h"), (b"content-length", b"4"))
    read = KnownRequest(b"/s", fields, {"host": "h", "content-length": "4"})
    known = KnownRequests()
    known.learn(behind(b"<a/>", b"<b/>"), read)
    assert len(known) == 0
    known.learn(request(b"<a/>"), read)
    assert len(known) == 1


def test_header_whose_blank_line_is_missing_is_not_remembered() -> None:
    head = b"POST /s HTTP/1.1\r\nX: %b\r\nContent-Length: 97\r\n"
    data = head % (b"x" * (100 - len(head) + 2))
    assert len(data) == 100, "as if a blank line were before its first byte, and then 97 bytes of a body"
    known = KnownRequests()
    known.learn(data, KnownRequest(b"/s", ((b"content-length", b"97"),), {"content-length": "97"}))
    assert len(known) == 0
    assert known.find(data) is None


@in_loop
async def test_requests_with_a_known_header_ahead_of_their_answers_are_answered_in_their_order() -> None:
    server = Server()
    await server.read(request())
    await server.answer()
    await server.read(request(b"<b/>"), request(b"<c/>"))
    assert [arrival.http.body for arrival, _ in server.engine.arrivals] == [b"<b/>"], "the next one waits"
    await server.answer()
    assert [arrival.http.body for arrival, _ in server.engine.arrivals] == [b"<c/>"]
    await server.answer()
    assert server.state.total_requests == 3


@pytest.mark.parametrize(
    "data",
    [
        request(BODY, b"Connection: close"),
        request().replace(b"HTTP/1.1", b"HTTP/1.0"),
        request(BODY, b"traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        request(BODY, b"X-Long: " + b"x" * LONGEST_HEAD),
        request().replace(b"Content-Length: 4", b"Transfer-Encoding: chunked").replace(BODY, b"4\r\n<a/>\r\n0\r\n\r\n"),
    ],
    ids=["closes", "HTTP/1.0", "a trace", "long", "chunks"],
)
@in_loop
async def test_some_headers_are_always_parsed(data: bytes) -> None:
    server = Server()
    await server.read(data)
    await server.answer()
    assert server.state.total_requests == 1
    assert len(server.protocol.known) == 0


@in_loop
async def test_so_many_headers_are_known_at_most() -> None:
    server = Server()
    for number in range(3 * MOST_HEADS):
        await server.read(request(BODY, b"X-Number: %d" % number))
        await server.answer()
        assert len(server.protocol.known) <= MOST_HEADS


@in_loop
async def test_body_that_follows_its_header_costs_no_task() -> None:
    server = Server()
    head, _, body = request().partition(b"\r\n\r\n")
    await server.read(head + b"\r\n\r\n")
    ((timer, _),) = server.loop.timers
    assert (timer.when, timer.cancelled) == (BODY_DELAY, False)
    await server.read(body)
    assert timer.cancelled
    await server.answer()
    assert server.loop.tasks == 0
    assert len(server.transport.writes) == 1


@in_loop
async def test_body_that_is_late_goes_the_usual_way() -> None:
    server = Server()
    data = request()
    await server.read(data[:-2])
    ((_, expired),) = server.loop.timers
    expired()
    assert server.loop.tasks == 1
    await server.read(data[-2:])
    await server.answer()
    assert b"".join(server.transport.writes).endswith(b"<done/>")


@in_loop
async def test_body_in_many_pieces_goes_the_usual_way() -> None:
    server = Server()
    data = request(b"x" * 100)
    await server.read(data[:-50])
    for at in range(len(data) - 50, len(data) - 50 + MOST_PIECES):
        await server.read(data[at : at + 1])
    assert server.loop.tasks == 1
    await server.read(data[len(data) - 50 + MOST_PIECES :])
    ((arrival, _),) = server.engine.arrivals
    assert arrival.http.body == b"x" * 100


@pytest.mark.parametrize("lost", ["shut down", "make room", "expired"])
@in_loop
async def test_incomplete_body_is_known_to_whoever_ends_the_connection(lost: str) -> None:
    server = Server()
    await server.read(request()[:-2])
    if lost == "shut down":
        server.protocol.shutdown()
        assert not server.transport.closing
        await server.read(request()[-2:])
        await server.answer()
        assert b"connection: close" in b"".join(server.transport.writes)
    elif lost == "make room":
        server.protocol.make_room()
        assert b" 408 " in server.transport.writes[0]
    else:
        server.protocol.expire(1e12)
        assert b" 408 " in server.transport.writes[0]
    await server.settle()
    assert server.transport.closing


@in_loop
async def test_connection_is_closed_after_the_answer_if_the_client_wishes_it() -> None:
    server = Server()
    await server.read(request(BODY, b"Connection: close"))
    await server.answer()
    assert b"\r\nconnection: close\r\n" in server.transport.writes[0]
    assert server.transport.closing


@in_loop
async def test_requests_ahead_of_their_answers_are_answered_in_their_order() -> None:
    server = Server()
    await server.read(request(b"<a/>") + request(b"<b/>") + request(b"<c/>"))
    for body in (b"<a/>", b"<b/>", b"<c/>"):
        ((arrival, _),) = server.engine.arrivals
        assert arrival.http.body == body
        await server.answer(Answer(http=HttpMessage(body, "text/xml")))
    assert b"".join(server.transport.writes).count(b"HTTP/1.1 200 OK") == 3
    assert server.transport.writes[-1] == b"<c/>"


@in_loop
async def test_client_that_has_left_gets_nothing_and_its_exchange_is_released() -> None:
    server = Server()
    await server.read(request())
    server.protocol.connection_lost(None)
    assert not server.state.tasks
    held = HeldExchange(())
    await server.answer(Answer(http=DONE.http, held=held))
    assert server.transport.writes == []
    assert server.engine.held_exchanges.released == [held]


@in_loop
async def test_server_that_stops_cuts_an_unanswered_request() -> None:
    server = Server()
    await server.read(request())
    for task in server.state.tasks:
        task.cancel(msg="Task cancelled")
    assert server.transport.aborted
    await server.answer()
    assert server.transport.writes == []


@in_loop
async def test_unexpected_error_is_answered_with_500(caplog: pytest.LogCaptureFixture) -> None:
    server = Server()
    server.engine.error = RuntimeError("a defect")
    with caplog.at_level(logging.ERROR, "mercury.http"):
        await server.read(request())
    assert server.transport.writes[0].startswith(b"HTTP/1.1 500 ")
    assert "a defect" in caplog.text


@in_loop
async def test_full_queue_is_answered_as_busy() -> None:
    server = Server()
    server.process.ids = type("Ids", (), {"new": staticmethod(lambda: "urn:uuid:1")})()
    server.engine.full = True
    await server.read(request())
    (written,) = server.transport.writes
    assert written.startswith(b"HTTP/1.1 503 ")
    assert b"\r\nretry-after: 1\r\n" in written


@in_loop
async def test_large_answer_goes_the_usual_way() -> None:
    server = Server()
    await server.read(request())
    await server.answer(Answer(http=HttpMessage(b"x" * (FREE + 1), "text/xml")))
    assert server.loop.tasks == 1
    assert b"".join(server.transport.writes).endswith(b"x" * (FREE + 1))
    assert not server.state.tasks
    await server.read(request())
    await server.answer()
    assert server.transport.writes[-1].endswith(b"<done/>")


def package() -> bytes:
    return request().replace(b"text/xml", b'multipart/related; type="application/xop+xml"; boundary=b')


@pytest.mark.parametrize(
    ("data", "options"),
    [
        pytest.param(request(BODY, b"Content-Encoding: gzip"), {}, id="encoded"),
        pytest.param(request(b"x" * (SMALL + 1)), {}, id="large"),
        pytest.param(request(BODY, b"Expect: 100-continue"), {}, id="expects to be told to go on"),
        pytest.param(request().replace(b"POST", b"PUT"), {}, id="another method"),
        pytest.param(request().replace(b"/s", b"/other"), {}, id="another path"),
        pytest.param(request().replace(b"/s", b"/s?x"), {}, id="query"),
        pytest.param(package(), {"takes_attachments": True}, id="attachments"),
        pytest.param(request(), {"root_path": "/root"}, id="below a path"),
        pytest.param(request(), {"limit_concurrency": 5}, id="a limit of uvicorn"),
        pytest.param(request(), {"proxy_headers": True}, id="a proxy's headers"),
    ],
)
@in_loop
async def test_other_requests_go_the_usual_way(data: bytes, options: dict[str, Any]) -> None:
    server = Server(**options)
    await server.read(data)
    assert server.loop.tasks == 1


@in_loop
async def test_body_above_the_limit_goes_the_usual_way() -> None:
    server = Server(max_bytes=1000)
    await server.read(request(b"x" * 1001))
    assert server.loop.tasks == 1
    server = Server(max_bytes=1000)
    await server.read(request(b"x" * 1000))
    assert server.loop.tasks == 0


@in_loop
async def test_secured_service_is_reached_the_usual_way() -> None:
    server = Server()
    server.engine.secured = True
    await server.read(request())
    assert server.loop.tasks == 1


@in_loop
async def test_request_is_passed_to_a_middleware_that_is_added() -> None:
    server = Server()
    server.app.add_middleware(cast("Any", lambda app: app))
    await server.read(request())
    assert server.loop.tasks == 1


@in_loop
async def test_peer_that_does_not_read_its_answers_is_answered_the_usual_way() -> None:
    server = Server()
    server.protocol.pause_writing()
    await server.read(request())
    assert server.loop.tasks == 1
