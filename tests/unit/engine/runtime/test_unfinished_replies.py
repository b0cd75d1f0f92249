"""The replies that are being received have a limit together, in the exchange loop's thread and over real sockets."""

from __future__ import annotations

import contextlib
import queue
import socket
import threading
from collections.abc import Iterator

import pytest

from mercury.engine.runtime.http_exchange import Post, Posted
from mercury.engine.runtime.transport import HttpTransport
from mercury.engine.runtime.unfinished_replies import FREE
from mercury.errors import TransportError
from mercury.wire.envelope import HttpMessage
from tests.acceptance.processes import eventually
from tests.unit.engine.runtime.test_transport import MESSAGE, PATIENCE, Server

LARGE = 1_000_000
HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n"
WHOLE = HEAD % LARGE + bytes(LARGE)


class Withholding:
    """A server that sends so many bytes of each reply, and the rest of ``LARGE`` when it is told to."""

    def __init__(self, *counts: int) -> None:
        self._counts = list(counts)
        self._connections: list[tuple[socket.socket, int]] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/"
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        with contextlib.suppress(OSError):
            for count in self._counts:
                connection, _ = self._listener.accept()
                self._connections.append((connection, count))
                connection.recv(65536)
                connection.sendall(HEAD % LARGE + bytes(count))

    def send_the_rest(self) -> None:
        for connection, count in self._connections:
            with contextlib.suppress(OSError):
                connection.sendall(bytes(LARGE - count))

    def close(self) -> None:
        self._listener.close()
        for connection, _ in self._connections:
            connection.close()


@contextlib.contextmanager
def withholding(*counts: int) -> Iterator[Withholding]:
    server = Withholding(*counts)
    try:
        yield server
    finally:
        server.close()


@pytest.fixture
def transport() -> Iterator[HttpTransport]:
    made = HttpTransport(PATIENCE, LARGE, max_receiving=3 * LARGE)
    yield made
    made.close()


def counted(transport: HttpTransport) -> int:
    return transport.loop._replies.total


def begun(transport: HttpTransport, url: str, count: int) -> queue.Queue[Posted]:
    ends: queue.Queue[Posted] = queue.Queue()
    transport.begin([Post(url, MESSAGE)] * count, lambda posted: [ends.put(each) for each in posted])
    return ends


def test_replies_above_the_limit_on_all_of_them_end_their_exchanges(transport: HttpTransport) -> None:
    with withholding(*[900_000] * 5) as server:
        ends = begun(transport, server.url, 5)
        failed = [ends.get(timeout=PATIENCE).result for _ in range(2)]
        assert all("http.max_receiving_bytes" in str(each) for each in failed)
        eventually(lambda: counted(transport) == 3 * (900_000 - FREE), "three have arrived as far as they are sent")
        server.send_the_rest()
        assert [len(body_of(ends)) for _ in range(3)] == [LARGE] * 3
        assert counted(transport) == 0


def body_of(ends: queue.Queue[Posted]) -> bytes:
    result = ends.get(timeout=PATIENCE).result
    assert isinstance(result, HttpMessage), result
    return result.body


def test_unfinished_replies_of_one_server_keep_no_large_reply_of_another_out(transport: HttpTransport) -> None:
    other = Server(WHOLE)
    with withholding(*[900_000] * 3) as server, contextlib.closing(other):
        ends = begun(transport, server.url, 3)
        eventually(lambda: counted(transport) == 3 * (900_000 - FREE), "the limit is nearly reached")
        assert len(transport.post(other.url, MESSAGE).body) == LARGE
        assert isinstance(ends.get(timeout=PATIENCE).result, TransportError)
        server.send_the_rest()
        assert [len(body_of(ends)) for _ in range(2)] == [LARGE] * 2


def test_first_bytes_of_each_reply_do_not_count(transport: HttpTransport) -> None:
    with withholding(*[FREE + 1000] * 60) as server:
        ends = begun(transport, server.url, 60)
        eventually(lambda: counted(transport) == 60 * 1000, "all are being received")
        assert ends.empty()


def test_one_reply_may_be_as_large_as_its_own_limit() -> None:
    server = Server(WHOLE)
    made = HttpTransport(PATIENCE, LARGE, max_receiving=1)
    with contextlib.closing(server), contextlib.closing(made):
        assert len(made.post(server.url, MESSAGE).body) == LARGE


def test_exchange_that_ends_without_its_reply_leaves_no_bytes_counted(transport: HttpTransport) -> None:
    with withholding(900_000) as server:
        ends = begun(transport, server.url, 1)
        eventually(lambda: counted(transport) > 0, "a part has arrived")
    assert isinstance(ends.get(timeout=PATIENCE).result, TransportError)
    assert counted(transport) == 0
