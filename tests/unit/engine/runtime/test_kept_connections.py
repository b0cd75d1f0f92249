"""Persistent connections to peers, over real sockets: their number and duration, and different forms of an address."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product

import pytest

from mercury.engine.addresses import endpoint_of, server_of
from mercury.engine.endpoint_errors import EndpointErrors
from mercury.engine.runtime import kept_connections
from mercury.engine.runtime.http_connection import HttpConnection
from mercury.engine.runtime.http_exchange import Origin
from mercury.engine.runtime.kept_connections import KeptConnections
from mercury.engine.runtime.sender_pool import MOST_OPEN
from mercury.engine.runtime.threads import RuntimeSettings
from mercury.engine.runtime.transport import HttpTransport
from mercury.errors import TransportError
from mercury.service import connections as service_connections
from mercury.testing.clock import FakeClock
from mercury.wire.envelope import HttpMessage
from tests.patience import patience

MESSAGE = HttpMessage(b"<a/>", "text/xml; charset=utf-8", '"urn:do"')
OK = b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"
#: Seconds.
PATIENCE = patience(60.0)


class Server:
    """Answers everything, and closes a connection only when the test says so."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port: int = self._listener.getsockname()[1]
        self.connections: list[socket.socket] = []
        self._gate = threading.Event()
        self._gate.set()
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self.connections.append(connection)
                threading.Thread(target=self._talk, args=(connection,), daemon=True).start()

    def _talk(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError):
            request = b""
            while piece := connection.recv(4096):
                request += piece
                if request.endswith(MESSAGE.body):
                    request = b""
                    self._gate.wait(PATIENCE)
                    connection.sendall(OK)

    @contextmanager
    def silent(self) -> Iterator[None]:
        """It answers when this is over."""
        self._gate.clear()
        yield
        self._gate.set()

    def hang_up(self) -> None:
        for connection in self.connections:
            connection.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._gate.set()
        for connection in [self._listener, *self.connections]:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()


@pytest.fixture
def server() -> Iterator[Server]:
    found = Server()
    yield found
    found.close()


@contextmanager
def posting(kept: KeptConnections[HttpConnection] | None = None) -> Iterator[HttpTransport]:
    transport = HttpTransport(timeout=PATIENCE, kept=KeptConnections() if kept is None else kept)
    with contextlib.closing(transport):
        yield transport


def spellings(port: int) -> list[str]:
    """A thousand ways to write one server: letters of either case, and zeros before the port."""
    hosts = ["".join(letters) for letters in product(*((each, each.upper()) for each in "localhost"))]
    found = [f"http://{host}:{'0' * zeros}{port}/" for zeros in (0, 3) for host in hosts]
    assert len(set(found)) >= 1000
    return found


def test_thousand_spellings_of_one_server_use_one_connection(server: Server) -> None:
    with posting() as transport:
        for url in spellings(server.port):
            assert transport.post(url, MESSAGE).status == 202
        assert len(server.connections) == 1
        assert len(transport.kept) == 1


def test_thousand_spellings_of_one_server_are_one_for_senders_and_for_errors() -> None:
    found, errors = spellings(8080), EndpointErrors()
    assert {server_of(url) for url in found} == {"http://localhost:8080"}
    assert {endpoint_of(url) for url in found} == {"http://localhost:8080/"}
    errors.failed(found[0], "refused", 0.0)
    assert {errors.get(url) for url in found} == {"refused"}


@pytest.mark.parametrize(
    ("spelling", "server"),
    [
        ("http://A.example/x", "http://a.example:80"),
        ("https://a.example:/x", "https://a.example:443"),
        ("http://[2001:DB8:0:0::1]:080", "http://2001:db8::1:80"),
        ("http://a:b@a.example", "http://a.example:80"),
    ],
)
def test_server_has_one_name_however_it_is_written(spelling: str, server: str) -> None:
    assert server_of(spelling) == server


def test_threads_use_the_connections_of_each_other(server: Server) -> None:
    with posting() as transport:
        for _ in range(8):
            thread = threading.Thread(target=transport.post, args=(f"http://127.0.0.1:{server.port}/", MESSAGE))
            thread.start()
            thread.join(PATIENCE)
        assert len(server.connections) == 1


def test_many_servers_leave_no_more_connections_than_the_limit() -> None:
    servers = [Server() for _ in range(8)]
    try:
        with posting(KeptConnections(3)) as transport:
            for each in servers:
                transport.post(f"http://127.0.0.1:{each.port}/", MESSAGE)
                assert len(transport.kept) <= 3
            # Those that were used last are the ones that are kept.
            for each in servers[-3:]:
                transport.post(f"http://127.0.0.1:{each.port}/", MESSAGE)
            assert [len(each.connections) for each in servers] == [1] * 8
            assert servers[0].connections[0].recv(1) == b""
    finally:
        for each in servers:
            each.close()


def test_connections_in_use_count_and_are_not_closed(server: Server) -> None:
    with posting(KeptConnections(2)) as transport, contextlib.ExitStack() as stack:
        stack.enter_context(server.silent())
        replies: list[int] = []
        url = f"http://127.0.0.1:{server.port}/"
        threads = [
            threading.Thread(target=lambda: replies.append(transport.post(url, MESSAGE).status)) for _ in range(5)
        ]
        for thread in threads:
            thread.start()
        wait_until(lambda: len(server.connections) == 5)
        stack.close()
        for thread in threads:
            thread.join(PATIENCE)
        assert replies == [202] * 5
        assert len(transport.kept) == 2


class Idle:
    """A connection that is open until it is closed."""

    def __init__(self, origin: Origin) -> None:
        self.origin = origin
        self.sock, self._other = socket.socketpair()

    @property
    def is_open(self) -> bool:
        return self.sock.fileno() >= 0

    def receive(self, data: bytes) -> None:
        self._other.sendall(data)

    def close(self) -> None:
        self.sock.close()
        self._other.close()


def test_connection_that_is_unused_for_long_is_closed() -> None:
    clock = FakeClock()
    kept: KeptConnections[Idle] = KeptConnections(kept_for=30.0, clock=clock)
    first, second = (Idle(Origin("http", "a.example", 80, number)) for number in range(2))
    assert kept.close_idle() is None
    for connection in (first, second):
        kept.add(connection)
        kept.keep(connection)
        clock.advance(10.0)
    assert kept.close_idle() == 10.0
    clock.advance(10.0)
    assert kept.close_idle() == 10.0
    assert (first.is_open, second.is_open) == (False, True)
    clock.advance(10.0)
    assert kept.take(second.origin) is None, "it is over, even if nobody has looked"
    assert (len(kept), second.is_open) == (0, False)


def test_connection_with_unsolicited_bytes_is_not_taken() -> None:
    kept: KeptConnections[Idle] = KeptConnections()
    connection = Idle(Origin("http", "a.example", 80, 0))
    kept.add(connection)
    kept.keep(connection)
    connection.receive(b"H")
    assert kept.take(connection.origin) is None
    assert not connection.is_open


def test_idle_connections_are_closed_without_another_post(server: Server) -> None:
    kept: KeptConnections[HttpConnection] = KeptConnections(kept_for=0.05)
    with posting(kept) as transport:
        for _ in range(2):  # whatever closed the first one is there for the second one
            transport.post(f"http://127.0.0.1:{server.port}/", MESSAGE)
            wait_until(lambda: len(kept) == 0)
    assert len(server.connections) == 2


def test_connection_that_the_server_has_closed_is_not_kept(server: Server) -> None:
    with posting() as transport:
        transport.post(f"http://127.0.0.1:{server.port}/", MESSAGE)
        server.hang_up()
        wait_until(lambda: len(transport.kept) == 0)


def test_server_that_refuses_leaves_nothing() -> None:
    with posting() as transport:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        with pytest.raises(TransportError):
            transport.post(f"http://127.0.0.1:{port}/", MESSAGE)
        assert len(transport.kept) == 0


def test_closed_transport_keeps_again_when_it_is_used_again(server: Server) -> None:
    with posting() as transport:
        for _ in range(2):
            transport.post(f"http://127.0.0.1:{server.port}/", MESSAGE)
            transport.post(f"http://127.0.0.1:{server.port}/", MESSAGE)
            transport.close()
            assert len(transport.kept) == 0
    assert len(server.connections) == 2


def test_service_leaves_descriptors_for_the_connections_that_are_kept() -> None:
    assert service_connections.RESERVED_DESCRIPTORS >= kept_connections.MOST + 128
    assert max(MOST_OPEN, RuntimeSettings().senders) <= kept_connections.MOST  # by default


@pytest.mark.parametrize(("soft", "most"), [(1024, 256), (256, 64), (4_000_000, 256)])
def test_process_with_few_descriptors_keeps_fewer_connections(
    monkeypatch: pytest.MonkeyPatch, soft: int, most: int
) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda _: (soft, soft))
    kept: KeptConnections[HttpConnection] = KeptConnections()
    assert kept.most == most


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        threading.Event().wait(0.005)
