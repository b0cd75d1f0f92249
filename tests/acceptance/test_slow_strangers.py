"""A stranger names the host of a peer that listens there: what it has posted there holds up nothing of that peer's."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from mercury import AddressPolicy, Mercury, Service, Settings
from mercury.engine.runtime.threads import RuntimeSettings
from mercury.engine.settings import EngineSettings
from mercury.wire.envelope import HttpMessage
from tests.acceptance.app import Note
from tests.acceptance.processes import PATIENCE, eventually
from tests.scenario.foreign import Foreign, identifier_in

STRANGER, FRIEND = "127.0.0.5", "127.0.0.6"


class Host:
    """Something listens at /friend, and nothing at /nothing, which the host says when it is let go."""

    def __init__(self) -> None:
        self.friend: list[bytes] = []
        self.nothing: list[bytes] = []
        self.may = threading.Semaphore(0)
        host = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.path == "/friend":
                    host.friend.append(body)
                else:
                    host.nothing.append(body)
                    assert host.may.acquire(timeout=PATIENCE)
                self.send_response(202 if self.path == "/friend" else 404)
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
    """Posts from an address of its own."""

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
    """A host that is allowed, a stranger and a friend."""
    service, host = Service("desk"), Host()

    @service.operation
    def note(what: Note) -> None: ...

    engine = EngineSettings(addresses=AddressPolicy((host.url,)))
    mercury = Mercury("memory:", settings=Settings(engine=engine, runtime=RuntimeSettings(senders=8)))
    try:
        with mercury:
            url = mercury.listen(service)
            stranger, friend = Client(url, STRANGER), Client(url, FRIEND)
            try:
                yield host, stranger, friend
            finally:
                stranger.close()
                friend.close()
                host.may.release(100_000)
    finally:
        host.close()


def test_friend_gets_its_answer_though_those_of_a_stranger_to_the_same_host_are_too_many() -> None:
    with scene() as (host, stranger, friend):
        for _ in range(150):
            assert stranger.post(stranger.foreign.terminate("urn:no", reply_to=f"{host.url}/nothing")).status == 202
        asked = friend.foreign.create(f"{host.url}/friend", reply_to=f"{host.url}/friend")
        assert friend.post(asked).status == 202
        host.may.release(3)
        eventually(lambda: host.friend, "the friend gets its CreateSequenceResponse")
        assert b"CreateSequenceResponse" in host.friend[0]
        assert len(host.nothing) <= 2 + 3


def test_friend_gets_its_answer_though_many_acknowledgements_of_a_stranger_wait_for_the_same_host() -> None:
    with scene() as (host, stranger, friend):
        for _ in range(40):
            made = stranger.post(stranger.foreign.create(f"{host.url}/nothing"))
            asking = stranger.foreign.ack_requested(identifier_in(made))
            assert stranger.post(stranger.foreign.alone(asking)).status == 202
        eventually(lambda: len(host.nothing) == 6, "they have the host's share")
        asked = friend.foreign.create(f"{host.url}/friend", reply_to=f"{host.url}/friend")
        assert friend.post(asked).status == 202
        host.may.release(1)
        eventually(lambda: host.friend, "the friend gets its CreateSequenceResponse with the next exchange")
        assert b"CreateSequenceResponse" in host.friend[0]
