"""Requests that offer an upgrade, as the JDK's HTTP client sends them by default (LIVE-01; RFC 9110, 7.8)."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import uvicorn

from mercury import Mercury, Service
from mercury.service.serving import bind, server_for
from mercury.settings import HttpSettings
from tests.acceptance.app import Note
from tests.acceptance.processes import PATIENCE, Serving, eventually
from tests.acceptance.test_endpoint import DESK, SOAP11, TYPES, create_sequence, read_reply

OFFER = "Connection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABk\r\nUpgrade: h2c\r\n"


@pytest.fixture(scope="module")
def serving() -> Iterator[Serving]:
    with Serving() as running:
        yield running
        assert "ERROR" not in running.err, running.err


def head(length: int | None, path: str = DESK, offer: str = OFFER) -> bytes:
    framing = "Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}"
    lines = f"POST {path} HTTP/1.1\r\n{offer}Host: x\r\nContent-Type: {TYPES[SOAP11]}\r\n{framing}\r\n\r\n"
    return lines.encode()


def request(message_id: str, offer: str = OFFER) -> bytes:
    message = create_sequence(SOAP11, message_id)
    return head(len(message), offer=offer) + message


def created(peer: socket.socket) -> bool:
    reply = read_reply(peer)
    return reply.status == 200 and b"CreateSequenceResponse" in reply.body


def test_body_in_the_same_segment_as_the_header_is_processed(serving: Serving) -> None:
    with serving.connection() as peer:
        peer.sendall(request("urn:m:one"))
        assert created(peer)


def test_body_in_later_segments_is_processed(serving: Serving) -> None:
    whole = request("urn:m:later")
    with serving.connection() as peer:
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for first in range(0, len(whole), 40):  # the header too arrives in pieces
            peer.sendall(whole[first : first + 40])
            time.sleep(0.001)
        assert created(peer)


def test_header_and_body_in_two_segments_are_processed(serving: Serving) -> None:
    message = create_sequence(SOAP11, "urn:m:two")
    with serving.connection() as peer:
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        peer.sendall(head(len(message)))
        time.sleep(0.05)
        peer.sendall(message)
        assert created(peer)


def test_chunked_body_is_processed(serving: Serving) -> None:
    message = create_sequence(SOAP11, "urn:m:chunked")
    with serving.connection() as peer:
        chunks = [message[at : at + 100] for at in range(0, len(message), 100)]
        peer.sendall(head(None) + b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n")
        assert created(peer)


def test_connection_is_kept_for_following_requests(serving: Serving) -> None:
    with serving.connection() as peer:
        for number, offer in enumerate((OFFER, "", OFFER, OFFER)):
            peer.sendall(request(f"urn:m:kept-{number}", offer))
            assert created(peer)


def test_pipelined_requests_are_answered_in_their_order(serving: Serving) -> None:
    offers = (OFFER, "", OFFER, OFFER, "")
    with serving.connection() as peer:
        peer.sendall(b"".join(request(f"urn:m:piped-{number}", offer) for number, offer in enumerate(offers)))
        received = b""
        while received.count(b"</soap:Envelope>") < len(offers):
            received += peer.recv(65536)
    answered = [received.index(f"urn:m:piped-{number}".encode()) for number, _ in enumerate(offers)]
    assert answered == sorted(answered)


def test_peer_that_leaves_before_its_pipelined_requests_are_answered_affects_no_other(serving: Serving) -> None:
    for number in range(20):
        with serving.connection() as peer:
            peer.sendall(b"".join(request(f"urn:m:gone-{number}-{which}") for which in range(5)))
    with serving.connection() as peer:  # and the fixture looks for errors in the log
        peer.sendall(request("urn:m:there"))
        assert created(peer)


def test_offer_on_a_request_without_a_body_changes_nothing(serving: Serving) -> None:
    with serving.connection() as peer:
        for _ in range(2):
            peer.sendall(f"GET /healthz HTTP/1.1\r\n{OFFER}Host: x\r\n\r\n".encode())
            assert read_reply(peer).status == 200


def test_offer_of_websocket_changes_nothing(serving: Serving) -> None:
    with serving.connection() as peer:
        peer.sendall(request("urn:m:ws", "Connection: upgrade\r\nUpgrade: websocket\r\n"))
        assert created(peer)


def test_client_waits_for_continue_and_gets_it_once(serving: Serving) -> None:
    message = create_sequence(SOAP11, "urn:m:expect")
    with serving.connection() as peer:
        peer.sendall(head(len(message), offer=OFFER + "Expect: 100-continue\r\n"))
        assert peer.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        peer.sendall(message)
        assert created(peer)


def test_connect_is_refused(serving: Serving) -> None:
    with serving.connection() as peer:
        peer.sendall(b"CONNECT x:80 HTTP/1.1\r\nHost: x\r\n\r\n")
        assert read_reply(peer).status == 501


def test_response_endpoint_ignores_the_offer_too(serving: Serving) -> None:
    with serving.connection() as peer:
        peer.sendall(head(5, "/mercury/responses") + b"hello")
        reply = read_reply(peer)
    assert b"not well-formed XML: syntax error: line 1, column 0" in reply.body  # "hello" was read


@contextlib.contextmanager
def beside(protocol: str, websocket: Any) -> Iterator[tuple[str, int]]:
    """An application's own uvicorn, at this address."""
    service = Service("desk")
    service.operation("Note")(forget)
    listening = bind("127.0.0.1", 0)
    app = Mercury("memory:").app(service)
    server = uvicorn.Server(uvicorn.Config(app, http=protocol, ws=websocket, log_config=None, access_log=False))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening.socket]})
    thread.start()
    try:
        eventually(lambda: server.started, "it serves")
        yield listening.socket.getsockname()
    finally:
        server.should_exit = True
        thread.join(PATIENCE)


class Spoken(asyncio.Protocol):
    """Represents a package that implements WebSocket, as uvicorn[standard] installs one."""

    def __init__(self, **_: Any) -> None:
        raise AssertionError("the connection is handed over")


def test_offer_of_websocket_is_ignored_where_a_package_speaks_it() -> None:
    for offer in ("Connection: upgrade\r\nUpgrade: websocket\r\n", "Connection: upgrade\r\nUpgrade: WebSocket\r\n"):
        with beside("mercury.service.http11:Http11Protocol", Spoken) as address:
            for _ in range(2):
                with socket.create_connection(address, PATIENCE) as peer:
                    peer.sendall(request("urn:m:ws", offer) + request("urn:m:next"))
                    assert created(peer)


def test_mercurys_own_server_does_not_check_for_websocket() -> None:
    app = Mercury("memory:").app()
    assert server_for(app, HttpSettings()).config.ws == "none"


@pytest.mark.parametrize("protocol", ["httptools", "mercury.service.http11:Http11Protocol"])
def test_other_server_that_loses_the_body_is_named_once_in_the_log(
    protocol: str, caplog: pytest.LogCaptureFixture
) -> None:
    replies = []
    with beside(protocol, "none") as address:
        for number in range(2):
            with socket.create_connection(address, PATIENCE) as peer:
                peer.sendall(request(f"urn:m:{number}"))
                replies.append(read_reply(peer))
    lost = [each for each in caplog.records if each.levelno == logging.ERROR]
    if protocol == "httptools":
        assert [reply.status for reply in replies] == [500, 500]
        assert len(lost) == 1
        assert "--http mercury.service.http11:Http11Protocol" in lost[0].getMessage()
    else:
        assert [reply.status for reply in replies] == [200, 200]
        assert lost == []


def forget(what: Note) -> None:
    del what
