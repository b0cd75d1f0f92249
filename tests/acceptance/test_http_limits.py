"""The HTTP server's limits for bytes, time and connections of its peers (raw sockets)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mercury import Mercury, Settings
from mercury.engine.runtime.body_pieces import BYTES_PER_PIECE, FREE_PIECES
from mercury.engine.runtime.peers import TlsSettings
from mercury.service.http11 import MAX_PIPELINED
from mercury.service.serving import BackgroundServer
from mercury.settings import HttpSettings
from tests.acceptance.processes import PATIENCE, Serving, eventually, get
from tests.acceptance.test_endpoint import DESK, SOAP12, Reply, create_sequence, exchange, head, read_reply

MIB = 1024 * 1024
#: How often the application looks once everything is sent.
LOOKS = 10


@contextlib.contextmanager
def served(**http: float) -> Iterator[tuple[str, int]]:
    """A Mercury that listens, with these values of `HttpSettings`."""
    mercury = Mercury("memory:", settings=Settings(http=HttpSettings(**http)))  # type: ignore[arg-type]
    url = mercury.listen()
    host, port = url.removeprefix("http://").split(":")
    try:
        yield host, int(port)
    finally:
        mercury.stop()


def connect(address: tuple[str, int]) -> socket.socket:
    return socket.create_connection(address, PATIENCE)


def flood(peer: socket.socket, piece: bytes, most: int) -> tuple[int, Reply | None]:
    """Send a text repeatedly until the server answers; returns the number of bytes sent, and the answer."""
    sent = 0
    with contextlib.suppress(ConnectionError):
        while sent < most:
            peer.setblocking(False)
            try:
                if peer.recv(1, socket.MSG_PEEK):
                    break
            except BlockingIOError:
                pass
            finally:
                peer.settimeout(PATIENCE)
            peer.sendall(piece)
            sent += len(piece)
    return sent, read_reply(peer)


def closed(peer: socket.socket) -> bool:
    """Whether the server closes the connection without sending more."""
    with contextlib.suppress(ConnectionError):
        return peer.recv(1) == b""
    return True


# --- bytes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "piece",
    [
        pytest.param(b"X-A: " + b"a" * 1000 + b"\r\n", id="many fields"),
        pytest.param(b"a" * 1000, id="one long value"),
        pytest.param(b"a: b\r\n" * 100, id="many short fields"),
    ],
)
def test_header_above_the_limit_is_refused_with_431_before_it_is_buffered(piece: bytes) -> None:
    with served(max_header_bytes=20_000) as address, connect(address) as peer:
        peer.sendall(b"POST /services/desk HTTP/1.1\r\nHost: x\r\nX-B: ")
        sent, reply = flood(peer, piece, 100 * MIB)
    assert reply is not None
    assert reply.status == 431
    assert reply.headers["connection"] == "close"
    assert sent < 5 * MIB


def test_fields_above_their_number_are_refused_with_431_whatever_they_are_for() -> None:
    with served(max_header_fields=10) as address:
        for offer in ("", "Connection: upgrade\r\nUpgrade: h2c\r\n"):
            own = 1 + offer.count("\r\n")
            for fields, status in ((10, 200), (11, 431)):
                with connect(address) as peer:
                    more = "A:\r\n" * (fields - own)
                    peer.sendall(f"GET /healthz HTTP/1.1\r\nHost: x\r\n{offer}{more}\r\n".encode())
                    assert read_reply(peer).status == status, (offer, fields)
        with connect(address) as peer:  # before the header is at its end
            peer.sendall(b"POST /services/desk HTTP/1.1\r\n" + b"A:\r\n" * 12)
            assert read_reply(peer).status == 431


def chunked(size: int, body: bytes) -> bytes:
    """A post whose body comes in chunks of ``size`` bytes."""
    header = b"POST /services/desk HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
    pieces = [body[at : at + size] for at in range(0, len(body), size)]
    coded = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)
    return header + b"Content-Type: application/soap+xml\r\n\r\n" + coded + b"0\r\n\r\n"


@pytest.mark.parametrize(
    ("size", "count", "status"),
    [
        pytest.param(1, FREE_PIECES, 404, id="some of one byte"),
        pytest.param(1, 100 * FREE_PIECES, 400, id="many of one byte"),
        pytest.param(BYTES_PER_PIECE, 20 * FREE_PIECES, 404, id="very many that are not tiny"),
    ],
)
def test_body_with_too_many_tiny_chunks_is_refused(size: int, count: int, status: int) -> None:
    with served() as address, connect(address) as peer:
        peer.sendall(chunked(size, b"a" * size * count))
        reply = read_reply(peer)
    assert reply.status == status
    assert (b"small chunks" in reply.body) is (status == 400)


@pytest.mark.parametrize("body", [b"zz\r\n", b"1\r\nx\r\n" * 100 * FREE_PIECES], ids=["bad chunk", "tiny chunks"])
def test_refused_body_of_a_client_that_expects_100_continue_leaves_no_error_in_the_log(
    body: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    header = b"POST /mercury/responses HTTP/1.1\r\nHost: x\r\nContent-Type: text/xml\r\nTransfer-Encoding: chunked\r\n"
    header += b"Expect: 100-continue\r\n\r\n"
    with served() as address:
        for _ in range(5):
            with connect(address) as peer:
                peer.sendall(header + body)
                assert read_reply(peer).status == 400
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []


def test_body_that_is_written_byte_by_byte_is_taken() -> None:
    with served() as address, connect(address) as peer:
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        size = 2 * FREE_PIECES
        peer.sendall(f"POST /services/desk HTTP/1.1\r\nHost: x\r\nContent-Length: {size}\r\n\r\n".encode())
        for _ in range(size):
            peer.sendall(b"a")
        assert read_reply(peer).status == 404


def test_pipelined_bytes_stay_unread_while_an_earlier_answer_is_pending() -> None:
    """The application polls for the peer's disconnect, for which uvicorn would go on reading."""
    all_sent, asked = threading.Event(), 0

    async def app(scope: Any, receive: Any, send: Any) -> None:
        nonlocal asked
        assert scope["type"] == "http"
        await receive()
        watches: list[asyncio.Future[Any]] = []
        if scope["path"] == "/held":
            while asked < LOOKS:
                watches.append(asyncio.ensure_future(receive()))
                await asyncio.sleep(0.01)
                asked += all_sent.is_set()  # what is read behind it by now is too much
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})
        await asyncio.gather(*watches)

    background = BackgroundServer("127.0.0.1", 0, TlsSettings())
    background.start(app, HttpSettings(shutdown_deadline=1.0))  # type: ignore[arg-type]
    host, port = background.url.removeprefix("http://").split(":")
    try:
        with connect((host, int(port))) as peer:
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            peer.sendall(b"GET /held HTTP/1.1\r\nHost: x\r\n\r\n")
            for _ in range(MAX_PIPELINED + 1):
                time.sleep(0.005)
                peer.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            all_sent.set()
            received = b""
            while received.count(b"HTTP/1.1 ") < 2 + MAX_PIPELINED:
                piece = peer.recv(65536)
                assert piece, received
                received += piece
        assert received.count(b"HTTP/1.1 200 ") == 2 + MAX_PIPELINED
    finally:
        background.stop()


def test_name_of_a_field_without_end_is_refused_with_431() -> None:
    with served(max_header_bytes=20_000) as address, connect(address) as peer:
        peer.sendall(b"POST /services/desk HTTP/1.1\r\nHost: x\r\n")
        _, reply = flood(peer, b"a" * 1000, 100 * MIB)
    assert reply is not None
    assert reply.status == 431


def test_trailer_above_the_limit_ends_the_connection() -> None:
    with served(max_header_bytes=20_000) as address, connect(address) as peer:
        peer.sendall(head(SOAP12, "Transfer-Encoding: chunked") + b"1\r\nx\r\n0\r\nX-A: ")
        sent, reply = flood(peer, b"a" * 1000, 100 * MIB)
    assert reply is not None
    assert sent < 5 * MIB


def test_request_line_above_the_limit_is_refused_with_414() -> None:
    with served(max_request_line=1000) as address, connect(address) as peer:
        peer.sendall(b"GET /")
        _, reply = flood(peer, b"a" * 500, 100 * MIB)
    assert reply is not None
    assert reply.status == 414


def test_header_and_request_line_at_the_limit_are_taken() -> None:
    with served(max_request_line=100, max_header_bytes=2000) as address, connect(address) as peer:
        target = "/healthz?" + "a" * 91
        for extra, status in ((0, 200), (1, 431)):
            rest = 2000 - len("Host: x\r\n") - len("X-A: \r\n") + extra
            peer.sendall(f"GET {target} HTTP/1.1\r\nHost: x\r\nX-A: {'a' * rest}\r\n\r\n".encode())
            assert read_reply(peer).status == status


def test_bodies_in_all_are_limited_and_small_messages_still_get_in() -> None:
    with served(max_receiving_bytes=MIB) as address, contextlib.ExitStack() as stack:
        first = stack.enter_context(connect(address))
        first.sendall(responses_head(MIB) + b" " * (MIB - 1))
        netloc = f"{address[0]}:{address[1]}"

        def large() -> int:
            # Of what is announced, nothing needs to be sent.
            with connect(address) as other:
                other.sendall(responses_head(MIB))
                other.settimeout(0.3)
                try:
                    return read_reply(other).status
                except TimeoutError:
                    return 0

        eventually(lambda: large() == 503, "the first one counts")
        assert exchange(netloc, create_sequence(), path="/mercury/responses").status == 200
        # A chunked one announces nothing: it is refused at the byte that is too many.
        second = stack.enter_context(connect(address))
        second.sendall(head_at("/mercury/responses", "Transfer-Encoding: chunked"))
        for _ in range(4):
            second.sendall(b"40000\r\n" + b" " * 0x40000 + b"\r\n")
        refused = read_reply(second)
        assert (refused.status, refused.headers["retry-after"]) == (503, "1")
        first.sendall(b" ")
        assert read_reply(first).status in (400, 500)
        eventually(lambda: large() == 0, "the first one counts no more")


def responses_head(length: int) -> bytes:
    return head_at("/mercury/responses", f"Content-Length: {length}")


def head_at(path: str, framing: str) -> bytes:
    return head(SOAP12, framing).replace(DESK.encode(), path.encode())


# --- time ----------------------------------------------------------------------------------------------------------


def test_silent_connection_is_closed_after_the_first_byte_timeout() -> None:
    with served(first_byte_timeout=0.1) as address, connect(address) as peer:
        assert closed(peer)


def test_blank_lines_are_no_first_byte() -> None:
    with served(first_byte_timeout=0.3) as address, connect(address) as peer:
        trickle(peer, b"\r\n")
        assert closed(peer)


def test_header_that_trickles_is_refused_with_408() -> None:
    with served(header_timeout=0.3) as address, connect(address) as peer:
        peer.sendall(b"POST /services/desk HTTP/1.1\r\nHost: x\r\nX-A: ")
        trickle(peer, b"a")
        assert read_reply(peer).status == 408


def trickle(peer: socket.socket, piece: bytes) -> None:
    """Send a few bytes repeatedly until the server answers."""
    until = time.monotonic() + PATIENCE
    peer.settimeout(0.02)
    with contextlib.suppress(ConnectionError):
        while time.monotonic() < until:
            try:
                peer.recv(1, socket.MSG_PEEK)
                break
            except TimeoutError:
                peer.sendall(piece)
    peer.settimeout(PATIENCE)


def test_idle_connection_is_closed_and_a_busy_one_is_kept() -> None:
    with served(idle_timeout=0.3, first_byte_timeout=30) as address, connect(address) as peer:
        begun = time.monotonic()
        while time.monotonic() < begun + 0.9:
            peer.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            assert read_reply(peer).status == 200
            time.sleep(0.05)
        assert closed(peer)


def test_body_that_trickles_to_an_unserved_path_ends_too() -> None:
    with served(receive_timeout=0.2) as address, connect(address) as peer:
        peer.sendall(b"POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n")
        assert read_reply(peer).status == 404
        trickle(peer, b"a")
        peer.settimeout(PATIENCE)
        until = time.monotonic() + PATIENCE
        while not _over(peer):
            assert time.monotonic() < until


@pytest.mark.parametrize(("rest", "status"), [(b"5678", 200), (b"", 408)], ids=["comes", "does not come"])
def test_body_behind_a_request_that_is_held_has_its_time_from_the_answer_on(rest: bytes, status: int) -> None:
    """Nothing of that body is read meanwhile."""
    begun, over = threading.Event(), threading.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        assert scope["type"] == "http"
        if scope["path"] == "/held":
            begun.set()
            await asyncio.to_thread(over.wait, PATIENCE)
        while (await receive()).get("more_body"):
            pass
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})

    half = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 8\r\n\r\n1234"
    background = BackgroundServer("127.0.0.1", 0, TlsSettings())
    background.start(app, HttpSettings(receive_timeout=0.5, shutdown_deadline=1.0))  # type: ignore[arg-type]
    host, port = background.url.removeprefix("http://").split(":")
    try:
        with connect((host, int(port))) as peer, connect((host, int(port))) as other:
            peer.sendall(b"GET /held HTTP/1.1\r\nHost: x\r\n\r\n" + half)
            assert begun.wait(PATIENCE)
            other.sendall(half)
            assert read_reply(other).status == 408
            over.set()
            assert read_reply(peer).status == 200
            peer.sendall(rest)
            assert read_reply(peer).status == status
    finally:
        over.set()
        background.stop()


def _over(peer: socket.socket) -> bool:
    try:
        peer.sendall(b"a")
        return peer.recv(1000) == b""
    except ConnectionError:
        return True


def test_peer_that_does_not_read_its_answers_is_cut_off() -> None:
    with served(receive_timeout=0.3, idle_timeout=0.3) as address, connect(address) as peer:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        ask = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n" * 16
        peer.setblocking(False)
        until = time.monotonic() + PATIENCE
        with contextlib.suppress(ConnectionError):
            while time.monotonic() < until:
                try:
                    peer.send(ask)
                except BlockingIOError:
                    time.sleep(0.001)
        assert time.monotonic() < until


# --- connections ---------------------------------------------------------------------------------------------------


def test_connections_of_one_address_above_the_limit_are_refused_with_503() -> None:
    with served(max_connections_per_address=3) as address, contextlib.ExitStack() as stack:
        held = [stack.enter_context(connect(address)) for _ in range(3)]
        for each in held:
            each.sendall(responses_head(10))  # else it makes room
        with connect(address) as peer:
            reply = read_reply(peer)
            assert (reply.status, reply.headers["retry-after"]) == (503, "1")
            assert b"http.max_connections_per_address" in reply.body
        held.pop().close()
        netloc = f"{address[0]}:{address[1]}"

        def taken() -> bool:
            with contextlib.suppress(OSError):
                return get(netloc, "/healthz")[0] == 200
            return False

        eventually(taken, "another one is taken")


def test_idle_connection_makes_room_for_a_new_one_and_busy_ones_do_not() -> None:
    with served(max_connections=2) as address, contextlib.ExitStack() as stack:
        busy = stack.enter_context(connect(address))
        busy.sendall(responses_head(10))
        idle = stack.enter_context(connect(address))
        third = stack.enter_context(connect(address))
        assert closed(idle)
        third.sendall(responses_head(10))
        eventually(lambda: _refused(address), "both are busy")
        busy.sendall(b" " * 10)
        assert read_reply(busy).status in (400, 500)


def test_oldest_unfinished_header_makes_room_for_a_new_connection() -> None:
    with served(max_connections=2, header_timeout=600) as address, contextlib.ExitStack() as stack:
        slow = [stack.enter_context(connect(address)) for _ in range(2)]
        for each in slow:
            each.sendall(b"POST /services/desk HTTP/1.1\r\nX-A: ")
            time.sleep(0.05)
        with connect(address) as peer:
            peer.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            assert read_reply(peer).status == 200
        reply = read_reply(slow[0])
        assert (reply.status, reply.headers["connection"]) == (408, "close")
        slow[1].sendall(b"b\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
        assert read_reply(slow[1]).status != 408  # it was not the oldest


def _refused(address: tuple[str, int]) -> bool:
    with connect(address) as peer:
        peer.settimeout(0.1)
        try:
            return read_reply(peer).status == 503
        except TimeoutError:
            return False


def test_requests_far_ahead_of_their_answers_end_the_connection() -> None:
    with served() as address, connect(address) as peer:
        peer.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n" * 1000)
        received = b""
        with contextlib.suppress(ConnectionError):
            while piece := peer.recv(65536):
                received += piece
        assert received.count(b'{"status":"ok"}') < 1000


LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))
import os, threading
from tests.acceptance.app import app

@app.get("/use-up-descriptors")
def use_up_descriptors() -> None:
    files = []
    def give_back() -> None:
        for file in files:
            os.close(file)
    try:
        while True:
            files.append(os.open("/dev/null", os.O_RDONLY))
    except OSError:
        threading.Timer(3.0, give_back).start()

sys.argv = ["mercury", "serve", "tests.acceptance.app:app", "--port", "0"]
from mercury.cli.main import run
run()
"""


class Limited(Serving):
    """``mercury serve`` in a process that may have 128 files open."""

    def __init__(self, **settings: str) -> None:
        super(Serving, self).__init__(sys.executable, "-c", LIMITED, MERCURY_LOG_LEVEL="WARNING", **settings)
        self.url = self.says(r"(http://[^\s\"]+)")


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such limits")
def test_process_of_few_files_takes_fewer_connections_and_says_so() -> None:
    with Limited() as serving, contextlib.ExitStack() as stack:
        for _ in range(150):
            stack.enter_context(serving.connection())
        assert get(serving.netloc, "/healthz")[0] == 200
        assert "http.max_connections: 64 are accepted instead of 512" in serving.err
        assert "Traceback" not in serving.err


@pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")
def test_server_survives_running_out_of_file_descriptors_and_does_not_spin() -> None:
    limited = Limited(MERCURY_HTTP_FIRST_BYTE_TIMEOUT="600")
    with limited as serving, contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            get(serving.netloc, "/use-up-descriptors")
        for _ in range(20):
            stack.enter_context(serving.connection())
        pid = serving._process.pid
        before = cpu_seconds(pid)
        time.sleep(1.0)
        assert cpu_seconds(pid) - before < 0.5
        stack.close()
        eventually(lambda: answers(serving), "it answers again")


def answers(serving: Serving) -> bool:
    try:
        return get(serving.netloc, "/healthz")[0] == 200
    except OSError:
        return False


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
