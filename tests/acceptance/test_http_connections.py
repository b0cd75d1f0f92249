"""Which connections the server closes at its connection limit, and how (raw sockets)."""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from lxml import etree

from mercury import Mercury, Service, Settings
from mercury.settings import HttpSettings
from tests.acceptance.app import Ask, Said
from tests.acceptance.processes import PATIENCE, eventually
from tests.acceptance.test_endpoint import (
    RM,
    SOAP12,
    WSA,
    addressing,
    create_sequence,
    envelope,
    exchange,
    head,
    read_reply,
)
from tests.acceptance.test_http_limits import closed, connect, responses_head, served
from tests.acceptance.test_tls import behind_tls, certificates

__all__ = ["certificates"]

#: Loopback has many addresses there.
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it needs several addresses, and /proc")

MANY = 200
ASK = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
UNFINISHED = b"POST /services/desk HTTP/1.1\r\nHost: x\r\n"


def connect_from(source: int, address: tuple[str, int]) -> socket.socket:
    """A connection from another address of this machine."""
    return socket.create_connection(address, PATIENCE, source_address=(f"127.0.0.{source}", 0))


def open_sockets() -> int:
    links = []
    for each in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            links.append(os.readlink(f"/proc/self/fd/{each}"))
    return sum(link.startswith("socket:") for link in links)


@contextlib.contextmanager
def held(count: int, address: tuple[str, int], first: bytes, sources: int = 1) -> Iterator[list[socket.socket]]:
    """Connections that send this text and are silent after it."""
    with contextlib.ExitStack() as stack:
        peers = []
        for number in range(count):
            peer = stack.enter_context(connect_from(2 + number % sources, address))
            peer.sendall(first)
            peers.append(peer)
        yield peers


def answer(address: tuple[str, int]) -> int:
    with connect_from(100, address) as peer:
        peer.sendall(ASK)
        return read_reply(peer).status


def test_connections_that_made_room_are_cut_though_their_peers_stay() -> None:
    before = open_sockets()
    with served(max_connections=8, header_timeout=600) as address, held(MANY, address, UNFINISHED):
        # The peers' ends are sockets of this process too.
        eventually(lambda: open_sockets() - before < MANY + 8 + 4, "all but those with a place are cut")


def test_refused_connections_are_cut_though_their_peers_stay() -> None:
    before = open_sockets()
    with served(max_connections_per_address=4) as address, held(MANY, address, responses_head(10)):
        eventually(lambda: open_sockets() - before < MANY + 4 + 4, "the refused ones are cut")


def test_tls_connections_that_made_room_are_cut_though_their_peers_never_say_goodbye(certificates: Path) -> None:
    before = open_sockets()
    context = ssl.create_default_context(cafile=str(certificates / "ca.pem"))
    with behind_tls(certificates, max_connections=4, header_timeout=600) as address, contextlib.ExitStack() as stack:
        for _ in range(12):
            peer = context.wrap_socket(connect(address), server_hostname=address[0])
            stack.enter_context(peer).sendall(UNFINISHED)
        begun = time.monotonic()
        eventually(lambda: open_sockets() - before < 12 + 4 + 4, "all but those with a place are cut")
        assert time.monotonic() - begun < 15.0  # asyncio waits for 30 s for the end of TLS


def test_unread_answers_of_a_peer_that_is_silent_keep_no_connection_open() -> None:
    before = open_sockets()
    with served(max_connections=4, idle_timeout=0.2, receive_timeout=0.2) as address, contextlib.ExitStack() as stack:
        for _ in range(20):
            peer = stack.enter_context(connect(address))
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            peer.setblocking(False)
            with contextlib.suppress(BlockingIOError, ConnectionError):
                for _ in range(2000):
                    peer.send(ASK * 8)
        eventually(lambda: open_sockets() - before <= 20 + 2, "none is left but the server's own")


def test_bodies_that_do_not_come_from_an_address_with_many_connections_make_room() -> None:
    with served(max_connections=8) as address, held(8, address, responses_head(1000) + b"x", sources=2) as peers:
        assert answer(address) == 200
        reply = read_reply(peers[0])
        assert (reply.status, reply.headers["connection"]) == (408, "close")
        peers[-1].sendall(b" " * 999)
        assert read_reply(peers[-1]).status in (400, 500)  # one was enough


def test_bodies_of_addresses_with_as_many_connections_as_the_new_one_stay() -> None:
    with served(max_connections=4) as address, held(4, address, responses_head(10), sources=4) as peers:
        eventually(lambda: answer(address) == 503, "each has one")
        peers[0].sendall(b" " * 10)
        assert read_reply(peers[0]).status in (400, 500)


def test_unfinished_header_of_an_address_with_few_connections_stays() -> None:
    with served(max_connections=4, header_timeout=600) as address, contextlib.ExitStack() as stack:
        slow = stack.enter_context(connect_from(50, address))
        slow.sendall(b"GET /healthz HTTP/1.1\r\n")
        time.sleep(0.05)
        stack.enter_context(held(20, address, UNFINISHED))
        slow.sendall(b"Host: x\r\n\r\n")
        assert read_reply(slow).status == 200


def test_rest_of_a_request_that_is_answered_holds_no_place() -> None:
    request = b"POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nx"
    with served(max_connections=4) as address, held(4, address, request, sources=4) as peers:
        for each in peers:
            assert read_reply(each).status == 404
        assert answer(address) == 200


def test_connection_is_closed_soon_when_the_rest_of_an_answered_request_does_not_come() -> None:
    request = b"POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nx"
    with served() as address, held(1, address, request) as (peer,):
        assert read_reply(peer).status == 404
        assert peer.recv(1) == b""  # and no second answer


def test_body_below_the_least_rate_is_refused_with_408() -> None:
    with served(min_body_rate=1000, body_rate_window=0.2) as address, held(1, address, responses_head(1000)) as (peer,):
        peer.sendall(b" " * 300)
        begun = time.monotonic()
        assert read_reply(peer).status == 408
        assert time.monotonic() - begun < 10.0  # long before the timeout for a body


def test_body_above_the_least_rate_is_taken() -> None:
    with served(min_body_rate=100, body_rate_window=0.2) as address, held(1, address, responses_head(1000)) as (peer,):
        for _ in range(10):
            peer.sendall(b" " * 100)
            time.sleep(0.05)
        assert read_reply(peer).status in (400, 500)


# --- of one address ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", [b"", ASK, UNFINISHED], ids=["silent", "idle", "unfinished header"])
def test_idle_connection_makes_room_at_the_limit_of_its_address(first: bytes) -> None:
    with (
        served(max_connections_per_address=4, first_byte_timeout=600, idle_timeout=600, header_timeout=600) as address,
        held(4, address, first) as peers,
    ):
        for each in peers if first is ASK else ():
            assert read_reply(each).status == 200
        with connect_from(2, address) as other:
            other.sendall(ASK)
            assert read_reply(other).status == 200
        if first is UNFINISHED:
            assert read_reply(peers[0]).status == 408
        assert closed(peers[0])
        peers[-1].sendall(b"\r\n" if first is UNFINISHED else ASK)
        assert read_reply(peers[-1]).status in (200, 404)  # no refusal: one was enough


# --- held for their responses --------------------------------------------------------------------------------------


@contextlib.contextmanager
def desk(
    count: int, sources: int = 1, *, fetches: bool = True, **http: float
) -> Iterator[tuple[tuple[str, int], list[socket.socket], threading.Event]]:
    """A service that answers no question before the event is set, and connections with held exchanges.

    :param fetches: the client is one that fetches late responses, as Mercury does.
    """
    service, over = Service("desk", namespace="urn:mercury:app"), threading.Event()

    @service.operation
    def ask(question: Ask) -> Said:
        over.wait(PATIENCE)
        return Said(f"re {question.text}")

    limits = HttpSettings(**({"back_channel_wait": 600.0} | http))  # type: ignore[arg-type]
    server = Mercury(settings=Settings(store="memory:", http=limits))
    try:
        host, port = server.listen(service).removeprefix("http://").split(":")
        address = (host, int(port))
        with held(count, address, question(address, fetches=fetches), sources) as peers:
            runtime = server.running_runtime
            assert runtime is not None
            parking = runtime.held_exchanges
            eventually(lambda: sum(map(len, parking._held.values())) == count, "all are held")
            yield address, peers, over
            over.set()
    finally:
        over.set()
        server.stop()


def question(
    address: tuple[str, int],
    body: str = '<Ask xmlns="urn:mercury:app"><text>1</text></Ask>',
    *,
    fetches: bool = False,
) -> bytes:
    """An HTTP request in a new sequence, to which the service responds."""
    told = b'<m:IncompleteSequenceBehavior xmlns:m="urn:mercury:rm">NoDiscard</m:IncompleteSequenceBehavior>'
    end = b"</w:CreateSequence>"
    creation = create_sequence().replace(end, told + end if fetches else end)
    created = exchange(f"{address[0]}:{address[1]}", creation)
    identifier = etree.fromstring(created.body).findtext(f".//{{{RM}}}Identifier")
    sequence = (
        f'<a:ReplyTo xmlns:a="{WSA}"><a:Address>{WSA}/anonymous</a:Address></a:ReplyTo><w:Sequence xmlns:w="{RM}" '
        f's:mustUnderstand="1"><w:Identifier>{identifier}</w:Identifier><w:MessageNumber>1</w:MessageNumber>'
        "</w:Sequence>"
    )
    message = envelope(SOAP12, body, addressing("urn:mercury:app/Ask", "urn:ask") + sequence)
    return head(SOAP12, f"Content-Length: {len(message)}") + message


def test_exchanges_held_by_an_address_with_many_connections_make_room_for_another_address() -> None:
    with desk(8, sources=2, max_connections=8) as (address, peers, over):
        eventually(lambda: answer(address) == 200, "another address gets a place")
        reply = read_reply(peers[0])  # the one that is held longest
        assert reply.status in (200, 202), "it is answered with what there is"  # one of all has the acknowledgement
        assert b"re 1" not in reply.body
        assert reply.headers["connection"] == "close"
        assert closed(peers[0])
        over.set()
        assert b"re 1" in read_reply(peers[-1]).body, "the others wait on"


def test_held_exchanges_of_addresses_with_as_many_connections_as_the_new_one_stay() -> None:
    with desk(4, sources=4, max_connections=4) as (address, peers, over):
        assert answer(address) == 503
        over.set()
        for each in peers:
            assert b"re 1" in read_reply(each).body


def test_exchange_that_is_held_for_a_slow_handler_makes_room_for_an_address_with_no_connection() -> None:
    with desk(2, sources=2, fetches=False, max_connections=2, back_channel_wait=0.0) as (address, peers, over):
        eventually(lambda: answer(address) == 200, "another address gets a place")
        assert read_reply(peers[0]).status == 503
        over.set()
        assert b"re 1" in read_reply(peers[1]).body


def test_client_that_has_left_while_its_exchange_is_held_for_a_slow_handler_takes_no_place() -> None:
    with desk(2, fetches=False, back_channel_wait=0.0) as (_, peers, over):
        peers[0].shutdown(socket.SHUT_WR)  # as a client that closes its connection
        assert read_reply(peers[0]).status == 503
        assert closed(peers[0])
        over.set()
        assert b"re 1" in read_reply(peers[1]).body


def test_slow_bodies_of_an_address_with_many_connections_make_room_before_another_ones_held_exchange() -> None:
    with desk(2, max_connections=8) as (address, peers, over), contextlib.ExitStack() as stack:
        slow = [stack.enter_context(connect_from(50, address)) for _ in range(6)]
        for each in slow:
            each.sendall(responses_head(1000) + b"x")
        eventually(lambda: answer(address) == 200, "another address gets a place")
        assert read_reply(slow[0]).status == 408
        over.set()
        for each in peers:
            assert b"re 1" in read_reply(each).body


def test_exchange_held_longest_makes_room_at_the_limit_of_its_address() -> None:
    with desk(4, max_connections_per_address=4) as (address, peers, _):

        def taken() -> bool:
            with connect_from(2, address) as other:
                other.sendall(ASK)
                return read_reply(other).status == 200

        eventually(taken, "another one of the address gets a place")
        assert read_reply(peers[0]).status in (200, 202)
