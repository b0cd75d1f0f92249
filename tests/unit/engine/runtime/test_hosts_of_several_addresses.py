"""A host of which some addresses do not answer: the others are tried within the time of one exchange."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

import pytest

from mercury.engine.runtime import http_connection
from mercury.engine.runtime.transport import HttpTransport
from mercury.errors import TransportError
from tests.unit.engine.runtime.test_transport import MESSAGE, OK, PATIENCE, Server

#: A family of addresses that the system has no sockets for, as AF_INET6 is where IPv6 is off.
NO_FAMILY = 250


@contextlib.contextmanager
def silent() -> Iterator[tuple[str, int]]:
    """The address of a listener whose backlog is full: the system drops the first packet of a connection."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(3):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listener.getsockname())
        yield listener.getsockname()


@contextlib.contextmanager
def serving() -> Iterator[tuple[Server, tuple[str, int]]]:
    server = Server(OK)
    try:
        yield server, ("127.0.0.1", int(server.url.split(":")[2].split("/")[0]))
    finally:
        server.close()


def resolve_to(monkeypatch: pytest.MonkeyPatch, *addresses: tuple[str, int], family: int = socket.AF_INET) -> None:
    """Let every name have these addresses.

    :param family: that of the first address.
    """
    families = [family, *[socket.AF_INET] * (len(addresses) - 1)]

    def resolve(_name: str, *_: object, flags: int = 0, **__: object) -> object:
        if flags & socket.AI_NUMERICHOST:
            raise socket.gaierror(socket.EAI_NONAME, "no IP address")
        return [(each, socket.SOCK_STREAM, 0, "", address) for each, address in zip(families, addresses, strict=True)]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)


def test_host_whose_first_addresses_are_silent_is_reached_by_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_connection, "LONGEST_CONNECT", 0.02)
    transport = HttpTransport(PATIENCE)
    with silent() as first, silent() as second, serving() as (server, third), contextlib.closing(transport):
        resolve_to(monkeypatch, first, second, third)
        assert transport.post("http://silent.example/", MESSAGE).body == b"<b/>"
    assert server.connections == 1


def test_silent_address_takes_only_its_share_of_the_time_of_the_exchange(monkeypatch: pytest.MonkeyPatch) -> None:
    transport = HttpTransport(2.0)
    with silent() as first, serving() as (server, second), contextlib.closing(transport):
        resolve_to(monkeypatch, first, second)
        assert transport.post("http://silent.example/", MESSAGE).body == b"<b/>"
    assert server.connections == 1


def test_only_address_of_a_host_has_the_whole_time_of_the_exchange(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_connection, "LONGEST_CONNECT", 0.0)
    transport = HttpTransport(0.2)
    with silent() as only, contextlib.closing(transport):
        resolve_to(monkeypatch, only)
        with pytest.raises(TransportError, match=r"within 0.2 s \(http.timeout\)"):
            transport.post("http://silent.example/", MESSAGE)


def test_host_with_an_address_of_a_family_that_is_off_is_reached_by_another(monkeypatch: pytest.MonkeyPatch) -> None:
    transport = HttpTransport(PATIENCE)
    with serving() as (server, second), contextlib.closing(transport):
        resolve_to(monkeypatch, ("127.0.0.1", 1), second, family=NO_FAMILY)
        assert transport.post("http://other.example/", MESSAGE).body == b"<b/>"
        assert server.connections == 1


def test_host_whose_only_address_is_of_a_family_that_is_off_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    transport = HttpTransport(PATIENCE)
    resolve_to(monkeypatch, ("127.0.0.1", 1), family=NO_FAMILY)
    with contextlib.closing(transport), pytest.raises(TransportError, match="not supported"):
        transport.post("http://other.example/", MESSAGE)
