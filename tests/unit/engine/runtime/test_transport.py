"""Posting over real sockets, to servers that use the freedom of HTTP, and to servers that violate it."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from mercury.engine.runtime.http_reply import (
    LONGEST_HEAD,
    MAX_HEADERS,
    MAX_INTERIM,
    MOST_HEADS,
    KnownHeads,
    Reply,
)
from mercury.engine.runtime.transport import HttpTransport
from mercury.errors import ConfigurationError, StorageError, TransportError
from mercury.wire.envelope import HttpMessage, Rest
from tests.patience import patience

MESSAGE = HttpMessage(b"<a/>", "text/xml; charset=utf-8", '"urn:do"')
OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/xml\r\nContent-Length: 4\r\n\r\n<b/>"
#: Seconds.
PATIENCE = patience(60.0)
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
TOO_MUCH_HEADER = f"the header of the reply has more than {MAX_HEADERS} bytes"


class Server:
    """Answers each request with the next of the given bytes; ``None`` = it closes the connection instead.

    What is called as an answer is given the connection, in the thread that reads from it.

    :param closes: whether it closes each connection after one answer.
    """

    def __init__(
        self,
        *answers: bytes | Callable[[socket.socket], None] | None,
        closes: bool = False,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._answers = list(answers)
        self._closes = closes
        self._listener = socket.create_server(("127.0.0.1", 0))
        if tls is not None:
            self._listener = tls.wrap_socket(self._listener, server_side=True)
        self.requests: list[bytes] = []
        self.connections = 0
        #: The connection that it talks on.
        self.connection: socket.socket | None = None
        scheme = "http" if tls is None else "https"
        self.url = f"{scheme}://127.0.0.1:{self._listener.getsockname()[1]}/services/x?y=1"
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while self._answers:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.connections += 1
            self.connection = connection
            with connection, contextlib.suppress(OSError):  # with TLS the end of a connection has errors of its own
                self._talk(connection)

    def _talk(self, connection: socket.socket) -> None:
        while self._answers:
            request = bytearray()
            while not request.endswith(MESSAGE.body):
                piece = connection.recv(65536)
                if not piece:
                    return
                request += piece
            self.requests.append(bytes(request))
            answer = self._answers.pop(0)
            if answer is None:
                return
            if callable(answer):
                answer(connection)
            else:
                connection.sendall(answer)
            if self._closes:
                return

    def close(self) -> None:
        self._answers.clear()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


@contextmanager
def serving(*answers: bytes | None, closes: bool = False) -> Iterator[tuple[Server, HttpTransport]]:
    server, transport = Server(*answers, closes=closes), HttpTransport(timeout=5.0, max_reply=1000)
    try:
        yield server, transport
    finally:
        transport.close()
        server.close()


def test_a_message_is_posted_and_its_reply_read() -> None:
    with serving(OK) as (server, transport):
        reply = transport.post(server.url, MESSAGE)
    assert reply == HttpMessage(b"<b/>", "text/xml", None, 200)
    (request,) = server.requests
    head = request.split(b"\r\n")
    assert head[0] == b"POST /services/x?y=1 HTTP/1.1"
    assert {b"Content-Type: text/xml; charset=utf-8", b'SOAPAction: "urn:do"', b"Content-Length: 4"} < set(head)


def test_a_connection_is_kept() -> None:
    with serving(OK, OK, OK) as (server, transport):
        assert [transport.post(server.url, MESSAGE).body for _ in range(3)] == [b"<b/>"] * 3
    assert server.connections == 1


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        (b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n", b""),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n<b\r\n2;x=y\r\n/>\r\n0\r\nA: b\r\n\r\n", b"<b/>"),
        (CHUNKED + b"4  \r\n<b/>\r\n0 \r\n\r\n", b"<b/>"),
        (b"HTTP/1.1 100 Continue\r\nContent-Type: a/b\r\n\r\n" + OK, b"<b/>"),
        (b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n" + OK, b"<b/>"),
    ],
    ids=["empty", "no content", "chunked", "spaces after chunk sizes", "continue first", "hints first"],
)
def test_every_kind_of_reply_leaves_the_connection_usable(answer: bytes, body: bytes) -> None:
    with serving(answer, OK) as (server, transport):
        first = transport.post(server.url, MESSAGE)
        assert first.body == body
        assert first.content_type in ("", "text/xml")
        assert transport.post(server.url, MESSAGE).body == b"<b/>"
    assert server.connections == 1


@pytest.mark.parametrize("more", [OK.replace(b"<b/>", b"<!/>"), b"H", b"\r\n"])
def test_unsolicited_bytes_on_an_idle_connection_are_no_reply_to_the_next_request(more: bytes) -> None:
    with serving(OK, OK, OK) as (server, transport):
        transport.post(server.url, MESSAGE)
        assert server.connection is not None
        server.connection.sendall(more)
        assert [transport.post(server.url, MESSAGE).body for _ in range(2)] == [b"<b/>"] * 2
    assert server.connections == 2


def test_a_reply_as_long_as_the_limit_is_read() -> None:
    large = b"HTTP/1.1 500 Oops\r\nContent-Type: text/xml\r\nContent-Length: 1000\r\n\r\n" + b"x" * 1000
    with serving(large) as (server, transport):
        reply = transport.post(server.url, MESSAGE)
    assert (reply.status, len(reply.body)) == (500, 1000)


def test_bytes_outside_bodies_do_not_count_for_the_limit_of_bodies() -> None:
    """The body may have 1,000 bytes: here is that, in chunks of one, between headers of 60,000 bytes."""
    pad = b"A: " + b"x" * 20_000 + b"\r\n"
    head = b"HTTP/1.1 103 Early Hints\r\n" + pad + b"\r\n" + CHUNKED[:-2] + pad + b"\r\n"
    chunks = b"1;a=bcdefgh\r\nx\r\n" * 1000 + b"0\r\n" + pad + b"\r\n"
    with serving(head + chunks, OK) as (server, transport):
        assert len(transport.post(server.url, MESSAGE).body) == 1000
        assert transport.post(server.url, MESSAGE).body == b"<b/>"
    assert server.connections == 1


@pytest.mark.parametrize("host", ["slow.example", "localhost"])
def test_resolver_that_does_not_answer_is_given_up_at_the_deadline_and_called_once(
    monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    over = threading.Event()
    asked: list[str] = []
    real = socket.getaddrinfo

    def resolve(name: str, *rest: Any, flags: int = 0, **more: Any) -> Any:
        if flags & socket.AI_NUMERICHOST:
            return real(name, *rest, flags=flags, **more)
        asked.append(name)
        over.wait(PATIENCE)
        return real("127.0.0.1", *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    transport = HttpTransport(timeout=0.2)
    begun = time.monotonic()
    try:
        for _ in range(3):
            with pytest.raises(TransportError, match=r"within 0.2 s \(http.timeout\)"):
                transport.post(f"http://{host}:1/", MESSAGE)
        assert time.monotonic() - begun < PATIENCE / 2
        assert asked == [host]
    finally:
        over.set()
        transport.close()


def test_host_is_looked_up_by_its_name() -> None:
    with serving(OK) as (server, transport):
        assert transport.post(server.url.replace("127.0.0.1", "localhost"), MESSAGE).body == b"<b/>"


def test_name_of_no_host_is_an_error() -> None:
    transport = HttpTransport(timeout=PATIENCE)
    with pytest.raises(TransportError, match=r"nobody\.invalid"):
        transport.post("http://nobody.invalid/", MESSAGE)


def test_reply_in_tiny_pieces_takes_little_more_than_its_bytes() -> None:
    reply = Reply(1_000_000)
    tracemalloc.start()
    try:
        reply.feed(CHUNKED)
        for _ in range(50_000):
            reply.feed(b"4\r\nabcd\r\n")
        reply.feed(b"0\r\n\r\n")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(reply.body) == 200_000
    assert peak < 1_000_000


def test_a_body_without_a_length_ends_with_the_connection() -> None:
    with serving(b"HTTP/1.0 200 OK\r\nContent-Type: text/xml\r\n\r\n<b/>", OK, closes=True) as (server, transport):
        assert transport.post(server.url, MESSAGE) == HttpMessage(b"<b/>", "text/xml", None, 200)
        assert transport.post(server.url, MESSAGE).body == b"<b/>"
    assert server.connections == 2


def test_a_server_that_closes_after_each_reply_is_connected_to_anew() -> None:
    answer = OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n", 1)
    with serving(answer, answer, closes=True) as (server, transport):
        assert [transport.post(server.url, MESSAGE).body for _ in range(2)] == [b"<b/>"] * 2
    assert server.connections == 2


def test_redirect_is_not_followed_and_its_target_is_read() -> None:
    found = b"HTTP/1.1 302 Found\r\nLocation: /other\r\nContent-Length: 0\r\n\r\n"
    with serving(found, found, OK) as (server, transport):
        assert [transport.post(server.url, MESSAGE).location for _ in range(3)] == ["/other", "/other", None]
    assert server.connections == 1


def test_a_kept_connection_that_was_closed_meanwhile_is_replaced() -> None:
    with serving(OK, None, OK) as (server, transport):
        transport.post(server.url, MESSAGE)
        assert transport.post(server.url, MESSAGE).body == b"<b/>"
    assert server.connections == 2
    assert len(server.requests) == 3


def test_a_new_connection_that_is_closed_without_a_reply_is_an_error() -> None:
    with serving(None) as (server, transport), pytest.raises(TransportError, match="without a reply"):
        transport.post(server.url, MESSAGE)


@pytest.mark.parametrize(("size", "read"), [(1, False), (2, False), (5, True), (20, True), (4000, True)])
def test_reply_in_tiny_chunks_is_refused_before_it_takes_memory(size: int, read: bool) -> None:
    length = 400_000
    chunk = b"%x\r\n%s\r\n" % (size, b"x" * size)
    server = Server(CHUNKED + chunk * (length // size) + b"0\r\n\r\n")
    transport = HttpTransport(timeout=30.0, max_reply=8 * 1024 * 1024)
    tracemalloc.start()
    try:
        if read:
            assert len(transport.post(server.url, MESSAGE).body) == length
        else:
            with pytest.raises(TransportError, match="too many small chunks"):
                transport.post(server.url, MESSAGE)
        assert tracemalloc.get_traced_memory()[1] < 5 * 1024 * 1024 + length * len(chunk) // size
    finally:
        tracemalloc.stop()
        transport.close()
        server.close()


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (OK[:-1], "IncompleteRead"),
        (OK[:20], "without a reply"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n<b", "IncompleteRead"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\n<b/>", "Content-Length"),
        (b"HTTP/1.1 200 OK\r\nContent-Type: a/b;\r\n\tc=d\r\nContent-Length: 4\r\n\r\n<b/>", "whitespace after header"),
        (b"HTTP/1.1 200 OK\r\nContent-Length : 4\r\n\r\n<b/>", "header field char"),
        (b"HTTP/1.1 200 OK\r\nContent-Type: a\x01/b\r\nContent-Length: 4\r\n\r\n<b/>", "header value char"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n" + b"x" * 1001, "longer than 1000 bytes"),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 1001, "longer than 1000 bytes"),
        (b"HTTP/1.1 200 OK\r\nA: " + b"x" * (MAX_HEADERS + 2000) + b"\r\n\r\n", TOO_MUCH_HEADER),
        (b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * MAX_HEADERS + b"\r\n", TOO_MUCH_HEADER),
        (CHUNKED + b"1\r\nx\r\n0\r\n" + b"A: b\r\n" * MAX_HEADERS + b"\r\n", TOO_MUCH_HEADER),
        ((b"HTTP/1.1 103 Early Hints\r\nA: " + b"x" * 9000 + b"\r\n\r\n") * 8 + OK, TOO_MUCH_HEADER),
        (CHUNKED + b"1;" + b"x" * (MAX_HEADERS * 3) + b"\r\nx\r\n0\r\n\r\n", TOO_MUCH_HEADER),
        (b"HTTP/1.1 100 Continue\r\n\r\n" * (MAX_INTERIM + 1) + OK, "more than 16 interim replies"),
        (b"HTTP/1.1 000 OK\r\nContent-Length: 0\r\n\r\n", "the reply has the status 000"),
        (b"HTTP/1.1 099 OK\r\nContent-Length: 0\r\n\r\n", "the reply has the status 099"),
        (b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n", "another protocol"),
    ],
    ids=[
        *(
            "cut",
            "cut head",
            "cut chunk",
            "not HTTP",
            "two lengths",
            "fold",
            "space",
            "control character",
            "long",
            "endless",
            "long head",
            "many fields",
        ),
        *(
            "long trailer",
            "interim headers",
            "chunk extension",
            "interim replies",
            "no status",
            "low status",
            "upgrade",
        ),
    ],
)
def test_incomplete_reply_is_an_error_and_the_next_post_works(answer: bytes, why: str) -> None:
    with serving(answer, OK, closes=True) as (server, transport):
        with pytest.raises(TransportError, match=why):
            transport.post(server.url, MESSAGE)
        assert transport.post(server.url, MESSAGE).body == b"<b/>"
    assert server.connections == 2


@pytest.mark.parametrize("more", [b"garbage", OK, b"HTTP/1.1 500 Oops\r\n\r\n"])
def test_unsolicited_bytes_after_a_reply_are_no_reply_to_the_next_request(more: bytes) -> None:
    with serving(OK.replace(b"<b/>", b"<1/>") + more, OK, closes=True) as (server, transport):
        first = transport.post(server.url, MESSAGE)
        assert (first.status, first.body) == (200, b"<1/>")
        assert transport.post(server.url, MESSAGE).body == b"<b/>"
    assert server.connections == 2


@pytest.mark.parametrize("message", [HttpMessage(b"", "text/xml\r\nX: y"), HttpMessage(b"", "text/xml", "urn:\nx")])
def test_nobody_smuggles_a_header(message: HttpMessage) -> None:
    with serving(OK) as (server, transport), pytest.raises(TransportError):
        transport.post(server.url, message)
    assert server.requests == []


def test_a_silent_server_is_given_up_after_a_while() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    transport = HttpTransport(timeout=0.05)
    try:
        with pytest.raises(TransportError, match="timed out"):
            transport.post(f"http://127.0.0.1:{listener.getsockname()[1]}/", MESSAGE)
    finally:
        transport.close()
        listener.close()


@pytest.mark.parametrize("beginning", [b"HTTP/1.1 200 OK\r\nX-A: ", b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n"])
def test_answer_that_trickles_is_given_up_at_the_deadline_of_the_whole_exchange(beginning: bytes) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    over = threading.Event()

    def trickle() -> None:
        connection, _ = listener.accept()
        with connection, contextlib.suppress(OSError):
            connection.sendall(beginning)
            while not over.wait(0.02):
                connection.sendall(b"a")

    thread = threading.Thread(target=trickle)
    thread.start()
    transport = HttpTransport(timeout=0.3)
    begun = time.monotonic()
    try:
        with pytest.raises(TransportError, match=r"timed out: no whole answer within 0.3 s \(http.timeout\)"):
            transport.post(f"http://127.0.0.1:{listener.getsockname()[1]}/", MESSAGE)
        assert time.monotonic() - begun < 5
    finally:
        over.set()
        transport.close()
        thread.join()
        listener.close()


@contextmanager
def cutting(answer: bytes) -> Iterator[str]:
    """A server that reads the beginning of one request, answers, and closes the connection on the rest."""

    def talk() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(4096)
            connection.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=talk, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
        thread.join(PATIENCE)


def test_refusal_of_a_body_that_is_still_on_its_way_is_read() -> None:
    refusal = b"HTTP/1.1 413 Too Large\r\nContent-Length: 4\r\nConnection: close\r\n\r\n<b/>"
    transport = HttpTransport(timeout=PATIENCE, max_reply=1000)
    with cutting(refusal) as url, contextlib.closing(transport):
        assert transport.post(url, HttpMessage(bytes(50_000_000), "text/xml")).status == 413


def test_connection_that_is_cut_while_the_body_is_sent_is_an_error() -> None:
    transport = HttpTransport(timeout=PATIENCE, max_reply=1000)
    with cutting(b"") as url, contextlib.closing(transport), pytest.raises(TransportError, match=r"reset|Broken pipe"):
        transport.post(url, HttpMessage(bytes(50_000_000), "text/xml"))


def test_a_timeout_of_nothing_makes_no_sense() -> None:
    with pytest.raises(ConfigurationError, match=r"http\.timeout"):
        HttpTransport(timeout=0)


# --- headers that were parsed before --------------------------------------------------------------------------------


def reply_with(body: bytes, header: bytes = b"", length: int | None = None) -> bytes:
    size = len(body) if length is None else length
    return b"HTTP/1.1 200 OK\r\nContent-Type: text/xml\r\n%bContent-Length: %d\r\n\r\n%b" % (header, size, body)


def parsed(data: bytes) -> Reply:
    reply = Reply(1000)
    reply.feed(data)
    return reply


def test_reply_with_a_known_header_is_not_parsed_again() -> None:
    heads = KnownHeads()
    first = reply_with(b"<1/>")
    assert heads.read(first) is None
    heads.learn(first, parsed(first))
    assert heads.read(reply_with(b"<2/>")) == HttpMessage(b"<2/>", "text/xml", None, 200)


@pytest.mark.parametrize(
    "data",
    [
        reply_with(b"<2/>") + b"H",
        reply_with(b"<2/>")[:-1],
        reply_with(b"<2/>")[:30],
        reply_with(b"<22/>"),
        reply_with(b"<2/>", b"Connection: close\r\n"),
        b"",
    ],
    ids=["unsolicited bytes", "cut", "cut header", "other length", "other header", "nothing"],
)
def test_other_reply_than_one_with_a_known_header_is_parsed(data: bytes) -> None:
    heads = KnownHeads()
    heads.learn(first := reply_with(b"<1/>"), parsed(first))
    assert heads.read(data) is None


@pytest.mark.parametrize(
    "data",
    [
        CHUNKED + b"0\r\n\r\n",
        reply_with(b"<1/>", b"Connection: close\r\n"),
        reply_with(b"<1/>", b"A: " + b"x" * LONGEST_HEAD + b"\r\n"),
        b"HTTP/1.1 100 Continue\r\n\r\n" + reply_with(b"<1/>"),
        reply_with(b"<1/>") + b"H",
    ],
    ids=["chunked", "closes", "long", "interim", "unsolicited bytes"],
)
def test_header_of_such_a_reply_is_not_remembered(data: bytes) -> None:
    heads = KnownHeads()
    heads.learn(data, parsed(data))
    assert heads.read(data) is None


def test_remembered_headers_are_bounded() -> None:
    heads = KnownHeads()
    for number in range(3 * MOST_HEADS):
        data = reply_with(b"<1/>", b"Date: %d\r\n" % number)
        heads.learn(data, parsed(data))
        assert heads.read(data) is not None
        assert len(heads._heads) <= MOST_HEADS


def test_replies_with_one_header_are_told_apart() -> None:
    bodies = [b"<%d/>" % number for number in range(5)]
    with serving(*map(reply_with, bodies)) as (server, transport):
        assert [transport.post(server.url, MESSAGE).body for _ in bodies] == bodies
    assert server.connections == 1


def test_unsolicited_bytes_after_a_reply_with_a_known_header_are_no_reply_to_the_next_request() -> None:
    with serving(OK, OK + OK.replace(b"<b/>", b"<!/>"), OK) as (server, transport):
        assert [transport.post(server.url, MESSAGE).body for _ in range(3)] == [b"<b/>"] * 3
    assert server.connections == 2


# --- bodies that are not in memory -----------------------------------------------------------------------------------


@pytest.mark.parametrize("in_memory", [False, True])
def test_body_in_pieces_is_sent_with_its_length_and_again_from_its_beginning(in_memory: bool) -> None:
    message = HttpMessage(b"<start/>", "text/xml", None, rest=Rest(8, lambda: iter([b"rest", b"<a/>"]), in_memory))
    with serving(OK, OK, closes=True) as (server, transport):
        for _ in range(2):  # the second time the kept connection is closed, and another one is made
            assert transport.post(server.url, message).body == b"<b/>"
    assert [request.partition(b"\r\n\r\n")[2] for request in server.requests] == [b"<start/>rest<a/>"] * 2
    for request in server.requests:
        assert b"\r\nContent-Length: 16\r\n" in request
        assert b"chunked" not in request.lower()


def test_body_that_the_store_does_not_have_any_more_is_a_failed_exchange() -> None:
    def gone() -> Iterator[bytes]:
        yield b"<r"
        raise StorageError("it is not there")

    message = HttpMessage(b"<start/>", "text/xml", None, rest=Rest(8, gone))
    with (
        serving(OK) as (server, transport),
        pytest.raises(TransportError, match="cannot be read from the store: it is not there"),
    ):
        transport.post(server.url, message)
