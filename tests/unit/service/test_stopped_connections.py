"""The server stops while a connection is being closed already."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from uvicorn import Config
from uvicorn.server import ServerState

from mercury.service.http11 import Http11Protocol


class Transport(asyncio.Transport):
    """Counts how often it is closed, as the peer has not closed its side yet."""

    closed = 0

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return {"peername": ("192.0.2.1", 1), "sockname": ("192.0.2.2", 80)}.get(name, default)

    def is_closing(self) -> bool:
        return self.closed > 0

    def close(self) -> None:
        self.closed += 1

    def can_write_eof(self) -> bool:
        return False


async def application(scope: Any, receive: Any, send: Any) -> None:
    raise AssertionError("no request came")


@pytest.mark.parametrize("hung_up", [False, True])
def test_connection_is_closed_once_whether_or_not_it_was_hung_up_before_the_stop(hung_up: bool) -> None:
    """With TLS, asyncio's transport cannot be aborted after a second close."""

    async def stop() -> int:
        protocol = Http11Protocol(Config(application, lifespan="off"), ServerState(), {})
        transport = Transport()
        protocol.connection_made(transport)
        if hung_up:
            protocol.hang_up()
        protocol.shutdown()
        return transport.closed

    assert asyncio.run(stop()) == 1
