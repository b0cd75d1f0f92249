"""A peer that answers one byte at a time must not slow down a healthy one."""

from __future__ import annotations

import contextlib
import socket
import threading
import urllib.request
from collections.abc import Iterator

import pytest

from mercury import AddressPolicy, Mercury, Service, Settings
from mercury.engine.runtime.threads import RuntimeSettings
from mercury.engine.settings import EngineSettings
from mercury.settings import HttpSettings
from tests.acceptance.app import Note
from tests.acceptance.processes import PATIENCE, eventually
from tests.scenario.foreign import Foreign


@contextlib.contextmanager
def trickling() -> Iterator[tuple[str, list[socket.socket]]]:
    """A server that answers every request with a byte of a header at a time, and its connections."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=100)
    over, connections = threading.Event(), list[socket.socket]()

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection = listener.accept()[0]
                connection.sendall(b"HTTP/1.1 200 OK\r\nX-A: ")
                connections.append(connection)

    def trickle() -> None:
        while not over.wait(0.05):
            for connection in list(connections):
                with contextlib.suppress(OSError):
                    connection.send(b"a")

    threads = [threading.Thread(target=accept), threading.Thread(target=trickle)]
    for thread in threads:
        thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/services/desk", connections
    finally:
        over.set()
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        for thread in threads:
            thread.join(PATIENCE)
        for connection in connections:
            connection.close()


def test_peer_that_trickles_delays_no_other_and_is_logged() -> None:
    service = Service("desk")
    texts: list[str] = []

    @service.operation
    def note(what: Note) -> None:
        texts.append(what.text)

    server = Mercury("memory:")
    url = server.listen(service) + "/services/desk"
    settings = Settings(http=HttpSettings(timeout=600.0), runtime=RuntimeSettings(senders=8))
    quick = Settings(http=HttpSettings(timeout=0.5))
    try:
        with trickling() as (slow, connections):
            with Mercury("memory:", settings=settings) as client:
                for number in range(20):
                    client.to(slow, key=f"{number}").send(Note("never"))
                eventually(lambda: len(connections) == 6, "the slow one has its share of the senders")
                healthy = client.to(url)
                healthy.send(Note("soon"))
                assert healthy.wait(PATIENCE)
                eventually(lambda: texts == ["soon"], "it is handled, perhaps after its acknowledgement")
                client.stop(0.1)
            with Mercury("memory:", settings=quick) as client:
                desk = client.to(slow)
                desk.send(Note("never"))
                trouble = eventually(lambda: desk.last_error, "it is named")
                assert trouble is not None
                assert slow in trouble
                assert "no whole answer within 0.5 s (http.timeout)" in trouble
    finally:
        server.stop()


def test_answers_to_many_paths_of_a_server_are_one_error(caplog: pytest.LogCaptureFixture) -> None:
    service, foreign = Service("desk"), Foreign()

    @service.operation
    def note(what: Note) -> None: ...

    settings = Settings(engine=EngineSettings(addresses=AddressPolicy(("http://127.0.0.1:*",))))
    with Mercury("memory:", settings=settings) as mercury, Mercury("memory:") as other:
        url, friend = mercury.listen(service), other.listen(service)
        for number in range(30):
            path = f"{friend}/nothing/{number}"
            asked = foreign.create(path, reply_to=path)
            request = urllib.request.Request(f"{url}/services/desk", asked.body, {"Content-Type": asked.content_type})
            with urllib.request.urlopen(request, timeout=PATIENCE) as reply:
                assert reply.status == 202
        name = f"answers to {friend}"
        eventually(lambda: mercury.last_error(name), "the answers get nowhere")
        assert mercury.last_error(f"{friend}/nothing/0") is None
    lines = [record.getMessage() for record in caplog.records if record.name == "mercury.transport"]
    assert [line.partition(";")[0] for line in lines] == [f"{name}: HTTP status 404: nothing is served at this path"]
