"""The connections that a server accepts with the file descriptors that its process may have."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest
from uvicorn.config import Config
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware
from uvicorn.server import ServerState

from mercury import Attachment, Mercury, Service
from mercury.service.connections import RESERVED_DESCRIPTORS, Connections, connections_of
from mercury.service.http11 import Http11Protocol
from mercury.service.serving import server_for
from mercury.settings import HttpSettings

SETTINGS = HttpSettings(max_connections=100_000, max_connections_per_address=100_000)


@dataclass
class Scan:
    image: Attachment


def service(takes: type) -> Service:
    made = Service("shop")

    def take(what: object) -> None: ...

    take.__annotations__["what"] = takes
    made.operation(take)
    return made


@pytest.mark.parametrize(
    ("descriptors", "one_each", "with_files"),
    [(4096, 4096 - RESERVED_DESCRIPTORS, (4096 - RESERVED_DESCRIPTORS) // 2), (256, 128, 64)],
)
def test_connection_counts_as_two_descriptors_if_a_service_takes_attachments(
    monkeypatch: pytest.MonkeyPatch, descriptors: int, one_each: int, with_files: int
) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda _: (descriptors, descriptors))
    assert Connections(SETTINGS).limit == one_each
    assert Connections(SETTINGS, in_files=True).limit == with_files


@pytest.mark.parametrize(
    ("takes", "limit"), [(bytes, 4096 - RESERVED_DESCRIPTORS), (Scan, (4096 - RESERVED_DESCRIPTORS) // 2)]
)
def test_server_counts_the_files_of_the_services_of_its_application(
    monkeypatch: pytest.MonkeyPatch, takes: type, limit: int
) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda _: (4096, 4096))
    with Mercury("memory:") as mercury:
        server = server_for(mercury.app(service(takes)), SETTINGS)
    assert connections_of(server.server_state).limit == limit


def test_server_that_mercury_does_not_start_counts_the_files_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda _: (900, 900))
    with Mercury("memory:") as mercury:
        config = Config(ProxyHeadersMiddleware(mercury.app(service(Scan))), http=Http11Protocol)
    config.load()
    state = ServerState()

    async def connected() -> None:
        Http11Protocol(config, state, {})

    asyncio.run(connected())
    assert connections_of(state).limit == (900 - RESERVED_DESCRIPTORS) // 2
