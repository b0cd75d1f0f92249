"""MTOM with Apache CXF, live: requests and responses with binary content, in both versions of SOAP."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from tests.ports import free_port

from .peers import java_peer, mercury_peer, why_not

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(why_not() is not None, reason=f"other stacks need Java and Maven: {why_not()}"),
]

COUNT = 3
SIZE = 5000


class Relay:
    """Passes connections on to a port, and keeps the bytes of both directions."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.requests, self.replies = bytearray(), bytearray()
        self._sockets = [self._listener]
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def close(self) -> None:
        for each in self._sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for each in self._sockets:
            each.close()

    def _accept(self) -> None:
        while True:
            try:
                inner, _ = self._listener.accept()
            except OSError:
                return
            outer = socket.create_connection(("127.0.0.1", self._to))
            self._sockets += (inner, outer)
            for source, sink, kept in ((inner, outer, self.requests), (outer, inner, self.replies)):
                self._threads.append(threading.Thread(target=self._pass, args=(source, sink, kept)))
                self._threads[-1].start()

    @staticmethod
    def _pass(source: socket.socket, sink: socket.socket, kept: bytearray) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                kept += data
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)


@contextmanager
def relay(url: str) -> Iterator[tuple[Relay, str]]:
    port = url.split(":")[2].partition("/")[0]
    made = Relay(int(port))
    try:
        yield made, url.replace(port, str(made.port), 1)
    finally:
        made.close()


@pytest.mark.parametrize("soap", ["1.1", "1.2"])
@pytest.mark.parametrize(("client", "server"), [("cxf", "mercury"), ("mercury", "cxf")])
def test_binary_content_travels_as_parts_in_both_directions(
    client: str, server: str, soap: str, tmp_path: Path
) -> None:
    with ExitStack() as ending:
        cxf = ending.enter_context(java_peer("cxf", tmp_path, "cxf"))
        mercury = ending.enter_context(mercury_peer(tmp_path, "mercury", free_port(), MERCURY_DESTINATION_MTOM="true"))
        peers = {"cxf": cxf, "mercury": mercury}
        common = {"soap": soap, "assurance": "in-order", "mtom": "true"}
        served = peers[server].ask("serve", port=free_port(), **common)["url"]
        seen, url = ending.enter_context(relay(served))
        words = {"url": url, "cell": "c", "count": COUNT, "exchange": "request", "rm": "1.1", "wsa": "1.0"}
        result = peers[client].ask("send", photo=SIZE, patience=120, **common, **words)
        assert result["wrong"].strip() == ""
        assert peers[server].received("c") == list(range(1, COUNT + 1))
        if client == "mercury":
            # CXF numbers its responses as its threads come to an end.
            assert sorted(result["answers"].split(",")) == ["1", "2", "3"]
        for sent in (bytes(seen.requests), bytes(seen.replies)):
            assert sent.count(b"xop/include") >= COUNT, sent[:3000]
