"""Answers of one HTTP server whose peers read them slowly, or have closed their half (over raw sockets)."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest

from mercury.engine.peers import TlsSettings
from mercury.service.serving import BackgroundServer
from mercury.settings import HttpSettings
from tests.acceptance.test_http_limits import MIB, closed, connect


@contextlib.contextmanager
def answering(pause: float = 0.0, size: int = 0, **http: float) -> Iterator[tuple[str, int]]:
    """A server whose application answers after so many seconds, with so many bytes."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.sleep(pause)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % size)]})
        await send({"type": "http.response.body", "body": bytes(size)})

    background = BackgroundServer("127.0.0.1", 0, TlsSettings())
    background.start(app, HttpSettings(shutdown_deadline=1.0, **http))  # type: ignore[arg-type]
    host, port = background.url.removeprefix("http://").split(":")
    try:
        yield host, int(port)
    finally:
        background.stop()


@pytest.mark.parametrize("version", ["1.1", "1.0"], ids=["kept", "closed behind it"])
def test_slow_reader_of_a_large_answer_is_not_cut_while_it_reads(version: str) -> None:
    size = 12 * MIB
    with answering(size=size, idle_timeout=0.1) as address, connect(address) as peer:
        peer.sendall(f"GET / HTTP/{version}\r\nHost: x\r\n\r\n".encode())
        received, begun = 0, time.monotonic()
        while received < size:
            piece = peer.recv(256 * 1024)
            assert piece, f"cut after {received} bytes"
            received += len(piece)
            ahead = received / size * 4.0 - (time.monotonic() - begun)  # it reads for four seconds, without a pause
            time.sleep(max(0.0, ahead))


def test_peer_that_closes_its_half_of_the_connection_behind_its_requests_gets_their_answers() -> None:
    with answering(pause=0.2, size=3) as address:
        for requests in (1, 3):
            with connect(address) as peer:
                peer.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * requests)
                peer.shutdown(socket.SHUT_WR)
                received = b""
                while piece := peer.recv(65536):  # and the connection is closed behind them
                    received += piece
                assert received.count(b"HTTP/1.1 200 ") == requests


def test_peer_that_closes_its_half_within_a_request_is_gone() -> None:
    with answering(size=3) as address, connect(address) as peer:
        peer.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nCont")
        peer.shutdown(socket.SHUT_WR)
        assert closed(peer)
