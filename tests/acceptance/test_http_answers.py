"""The memory that an HTTP server uses for its peers: bodies that arrive slowly, answers that are read slowly or not."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from mercury import Mercury, Service, Settings
from mercury.engine.runtime.peers import TlsSettings
from mercury.service.serving import BackgroundServer
from mercury.settings import HttpSettings
from tests.acceptance.processes import PATIENCE, ROOT, eventually, get
from tests.acceptance.test_endpoint import read_reply
from tests.acceptance.test_http_connections import connect_from, question
from tests.acceptance.test_http_limits import MIB, closed, connect, responses_head, served


@contextlib.contextmanager
def answering(pause: float = 0.0, size: int = 0, **http: float) -> Iterator[tuple[str, int]]:
    """A server whose application answers after a number of seconds, with a number of bytes."""

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


# --- in memory -----------------------------------------------------------------------------------------------------


def test_slowest_body_of_a_network_with_many_makes_room_for_that_of_another_network() -> None:
    with served(max_receiving_bytes=MIB) as address, contextlib.ExitStack() as stack:
        slow = [stack.enter_context(connect_from(2, address)) for _ in range(4)]
        for each in slow:
            each.sendall(responses_head(260_000) + b" " * 250_000)
        eventually(lambda: _full(address), "there is no more room for this network")
        with connect_from(100, address) as other:
            other.sendall(responses_head(250_000) + b" " * 250_000)
            assert read_reply(other).status in (400, 500), "it is taken: no envelope"
        assert read_reply(slow[0]).status == 503, "it is to be sent again"
        slow[-1].sendall(b" " * 10_000)
        assert read_reply(slow[-1]).status in (400, 500), "one was enough"


def test_only_body_of_a_network_stays_when_there_is_no_room_for_one_of_another_that_is_as_large() -> None:
    with served(max_receiving_bytes=MIB) as address, connect_from(2, address) as only:
        only.sendall(responses_head(MIB) + b" " * (MIB - 1))
        eventually(lambda: _full(address), "there is no more room for this network")
        with connect_from(3, address) as other:
            other.sendall(responses_head(MIB))
            assert read_reply(other).status == 503, "it is to be sent again"
        only.sendall(b" ")
        assert read_reply(only).status in (400, 500)


def test_huge_body_makes_room_for_a_smaller_one_though_it_is_the_only_one_of_its_network() -> None:
    with served(max_receiving_bytes=MIB) as address, connect_from(2, address) as huge:
        huge.sendall(responses_head(MIB) + b" " * (MIB - 1))
        eventually(lambda: _full(address), "there is no more room for this network")
        with connect_from(3, address) as other:
            other.sendall(responses_head(250_000) + b" " * 250_000)
            assert read_reply(other).status in (400, 500), "it is taken: no envelope"
        assert read_reply(huge).status == 503, "it is to be sent again"


def test_small_body_gets_in_though_many_networks_have_one_large_body_each() -> None:
    each, many = 419_430 + 65_536, 20  # none of them is huge; together they have as much as may be received
    with served(max_receiving_bytes=8 * MIB) as address, contextlib.ExitStack() as stack:
        for number in range(many):
            peer = stack.enter_context(connect_from(2 + number, address))
            with contextlib.suppress(ConnectionError):  # the last ones are refused
                peer.sendall(responses_head(each) + b" " * (each - 1))
        eventually(lambda: _full(address, 100, each), "there is no more room for large bodies")
        with connect_from(101, address) as other:
            other.sendall(responses_head(180_000) + b" " * 180_000)
            assert read_reply(other).status in (400, 500), "it is taken: no envelope"


def _full(address: tuple[str, int], source: int = 2, size: int = 250_000) -> bool:
    """Whether a request that only announces a body is refused for this network."""
    with connect_from(source, address) as peer:
        peer.sendall(responses_head(size))
        peer.settimeout(0.3)
        with contextlib.suppress(TimeoutError):
            return read_reply(peer).status == 503
    return False


@dataclass(frozen=True)
class Ask:
    size: int


@dataclass(frozen=True)
class Said:
    text: str


@contextlib.contextmanager
def reporting(**http: float) -> Iterator[tuple[tuple[str, int], bytes]]:
    """A service whose response has been stored, and the HTTP request that fetches it."""
    service = Service("desk", namespace="urn:mercury:app")

    @service.operation
    def ask(question: Ask) -> Said:
        return Said("x" * question.size)

    server = Mercury(settings=Settings(store="memory:", http=HttpSettings(**http)))  # type: ignore[arg-type]
    try:
        host, port = server.listen(service).removeprefix("http://").split(":")
        address = (host, int(port))
        asked = question(address, f'<Ask xmlns="urn:mercury:app"><size>{ANSWER}</size></Ask>')
        with connect_from(200, address) as peer:
            peer.sendall(asked)
            assert len(read_reply(peer).body) > ANSWER
        yield address, asked
    finally:
        server.stop()


#: Bytes: more than the buffers of loopback take, less than a message may have.
ANSWER = 8_000_000
#: Bytes of answers of which a quarter is kept for small ones, and too little beside four of them for one of 200 kB.
FOR_THREE = 4 * ANSWER + 100_000


def _unread(stack: contextlib.ExitStack, address: tuple[str, int], source: int, request: bytes) -> socket.socket:
    peer = socket.socket()
    stack.enter_context(peer)
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    peer.settimeout(PATIENCE)
    peer.bind((f"127.0.0.{source}", 0))
    peer.connect(address)
    peer.sendall(request)
    return peer


def test_unread_answers_are_bounded_and_a_request_is_answered_without_its_response_then() -> None:
    with (
        reporting(max_sending_bytes=FOR_THREE) as (address, request),
        contextlib.ExitStack() as stack,
    ):
        peers = [_unread(stack, address, 2, request) for _ in range(6)]
        beginnings = [peer.recv(len(b"HTTP/1.1 202"), socket.MSG_WAITALL) for peer in peers]
        assert sorted(beginnings) == [b"HTTP/1.1 200"] * 3 + [b"HTTP/1.1 202"] * 3


def test_unread_answers_of_a_network_make_room_for_that_of_another_network_which_gets_it_whole() -> None:
    with (
        reporting(max_sending_bytes=FOR_THREE) as (address, request),
        contextlib.ExitStack() as stack,
    ):
        unread = [_unread(stack, address, 2, request) for _ in range(3)]
        for each in unread:
            assert each.recv(12, socket.MSG_WAITALL) == b"HTTP/1.1 200"
        with connect_from(100, address) as other:
            other.sendall(request)
            assert len(read_reply(other).body) > ANSWER
        with contextlib.suppress(ConnectionError):  # the one that was begun first is cut
            while unread[0].recv(MIB):
                pass


def _another(request: bytes, size: int) -> bytes:
    """The next request of the same sequence; its response has ``size`` bytes."""
    numbered = request.replace(b"<w:MessageNumber>1<", b"<w:MessageNumber>2<").replace(b"urn:ask<", b"urn:as2<")
    return numbered.replace(b"<size>%d<" % ANSWER, b"<size>%07d<" % size)


def test_small_answer_goes_out_though_a_few_networks_read_nothing_of_one_large_answer_each() -> None:
    with (
        reporting(max_sending_bytes=FOR_THREE) as (address, request),
        contextlib.ExitStack() as stack,
    ):
        unread = [_unread(stack, address, source, request) for source in range(2, 6)]
        for each in unread:
            each.recv(12, socket.MSG_WAITALL)
        with connect_from(100, address) as other:
            other.sendall(_another(request, 200_000))
            assert 200_000 < len(read_reply(other).body) < MIB
        beginnings = [each.recv(1, socket.MSG_WAITALL) for each in unread]
        assert beginnings.count(b" ") == 4, "none is cut for it"


def test_of_huge_answers_the_slowest_makes_room_for_a_smaller_one_and_not_the_oldest() -> None:
    with (
        reporting(max_sending_bytes=FOR_THREE) as (address, request),
        contextlib.ExitStack() as stack,
    ):
        reader = _unread(stack, address, 2, request)
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, MIB)
        received = 0
        while received < ANSWER * 3 // 4:
            received += len(reader.recv(MIB))
        unread = [_unread(stack, address, source, request) for source in (3, 4, 5)]
        statuses = [each.recv(12, socket.MSG_WAITALL) for each in unread]
        assert statuses[0] == statuses[1] == b"HTTP/1.1 200", "for the third one there is no room"
        with connect_from(100, address) as other:
            other.sendall(_another(request, 3_000_000))
            assert 3_000_000 < len(read_reply(other).body) < ANSWER
        while received < ANSWER:
            piece = reader.recv(MIB)
            assert piece, "the one that is read is cut"
            received += len(piece)
        with contextlib.suppress(ConnectionError):
            while unread[0].recv(MIB):
                pass


def _place(order: bytes) -> bytes:
    return order


def _notify(order: bytes) -> None:
    del order


def test_large_wsdl_that_peers_do_not_read_counts_as_their_other_answers() -> None:
    filler = "<documentation>" + "x" * 12 * MIB + "</documentation>"
    orders = (ROOT / "tests/data/wsdl/orders.wsdl").read_text().replace("</wsdl:definitions>", "")
    wsdl = f"{orders}{filler.replace('documentation', 'wsdl:documentation')}</wsdl:definitions>".encode()
    settings = Settings(http=HttpSettings(max_sending_bytes=MIB))
    with Mercury("memory:", settings=settings) as server, contextlib.ExitStack() as stack:
        service = Service.from_wsdl(wsdl, "orders")
        service.operation("Place")(_place)
        service.operation("Notify")(_notify)
        netloc = server.listen(service).split("/")[2]
        host, port = netloc.split(":")
        peer = stack.enter_context(connect((host, int(port))))
        peer.sendall(b"GET /services/orders?wsdl HTTP/1.1\r\nHost: x\r\n\r\n")
        assert peer.recv(12) == b"HTTP/1.1 200"
        assert get(netloc, "/services/orders?wsdl")[0] == 503
