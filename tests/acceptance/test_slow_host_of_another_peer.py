"""A peer names addresses at the host of another peer: posts to these addresses must not delay posts to the other
peer."""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from mercury import AddressPolicy, Mercury, Service, Settings
from mercury.engine.runtime.threads import RuntimeSettings
from mercury.engine.settings import EngineSettings
from mercury.wire.envelope import HttpMessage
from tests.acceptance.app import Note
from tests.acceptance.processes import PATIENCE, eventually
from tests.scenario.foreign import Foreign, identifier_in

OTHER, PEER = "127.0.0.5", "127.0.0.6"
#: A network address with many ports that accept connections and never answer.
SILENT = "127.0.0.7"


class Host:
    """Serves /peer; answers 404 at /nothing when the test releases it."""

    def __init__(self) -> None:
        self.peer: list[bytes] = []
        self.nothing: list[bytes] = []
        self.may = threading.Semaphore(0)
        host = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.path == "/peer":
                    host.peer.append(body)
                else:
                    host.nothing.append(body)
                    assert host.may.acquire(timeout=PATIENCE)
                self.send_response(202 if self.path == "/peer" else 404)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def close(self) -> None:
        self.may.release(100_000)
        self._server.shutdown()
        self._thread.join(PATIENCE)
        self._server.server_close()


class Client:
    """A client with an IP address of its own."""

    def __init__(self, url: str, address: str) -> None:
        host, _, port = url.removeprefix("http://").partition(":")
        self._connection = http.client.HTTPConnection(host, int(port), source_address=(address, 0), timeout=PATIENCE)
        self.foreign = Foreign(name=address)

    def post(self, message: HttpMessage) -> HttpMessage:
        self._connection.request("POST", "/services/desk", message.body, {"Content-Type": message.content_type})
        reply = self._connection.getresponse()
        return HttpMessage(reply.read(), reply.headers["Content-Type"] or "", None, reply.status)

    def close(self) -> None:
        self._connection.close()


@contextmanager
def scene() -> Iterator[tuple[Host, Client, Client]]:
    """A host on the list of allowed addresses, a client that names /nothing there, and one that names /peer."""
    service, host = Service("desk"), Host()

    @service.operation
    def note(what: Note) -> None: ...

    engine = EngineSettings(addresses=AddressPolicy((host.url, f"http://{SILENT}:*")))
    mercury = Mercury("memory:", settings=Settings(engine=engine, runtime=RuntimeSettings(senders=8)))
    try:
        with mercury:
            url = mercury.listen(service)
            other, peer = Client(url, OTHER), Client(url, PEER)
            try:
                yield host, other, peer
            finally:
                other.close()
                peer.close()
                host.may.release(100_000)
    finally:
        host.close()


def test_peer_gets_its_answer_although_another_has_too_many_for_the_same_host() -> None:
    with scene() as (host, other, peer):
        for _ in range(150):
            unread = other.foreign.create(f"{host.url}/nothing", reply_to=f"{host.url}/nothing")
            assert other.post(unread).status == 202
        asked = peer.foreign.create(f"{host.url}/peer", reply_to=f"{host.url}/peer")
        assert peer.post(asked).status == 202
        host.may.release(3)
        eventually(lambda: host.peer, "the peer gets its CreateSequenceResponse")
        assert b"CreateSequenceResponse" in host.peer[0]
        assert len(host.nothing) <= 2 + 3


def test_peer_gets_its_answer_although_many_acknowledgements_of_another_wait_for_the_same_host() -> None:
    with scene() as (host, other, peer):
        for _ in range(40):
            made = other.post(other.foreign.create(f"{host.url}/nothing"))
            asking = other.foreign.ack_requested(identifier_in(made))
            assert other.post(other.foreign.alone(asking)).status == 202
        eventually(lambda: len(host.nothing) == 3, "they have the share of their peer, which is half of the exchanges")
        asked = peer.foreign.create(f"{host.url}/peer", reply_to=f"{host.url}/peer")
        assert peer.post(asked).status == 202
        eventually(lambda: host.peer, "the peer gets its CreateSequenceResponse although none of them has ended")
        assert b"CreateSequenceResponse" in host.peer[0]
        assert len(host.nothing) == 3


def test_peer_gets_its_answer_although_another_names_many_hosts_that_never_answer() -> None:
    with scene() as (host, other, peer), ExitStack() as stack:
        for _ in range(20):
            silent = stack.enter_context(socket.create_server((SILENT, 0)))
            made = other.post(other.foreign.create(f"http://{SILENT}:{silent.getsockname()[1]}/"))
            asking = other.foreign.ack_requested(identifier_in(made))
            assert other.post(other.foreign.alone(asking)).status == 202
        for number in range(1, 11):
            asked = peer.foreign.create(f"{host.url}/peer", reply_to=f"{host.url}/peer")
            assert peer.post(asked).status == 202
            eventually(lambda: len(host.peer) == number, "the peer gets its CreateSequenceResponse", 10)  # noqa: B023
