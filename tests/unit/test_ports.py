"""The ports at which tests start servers again."""

from __future__ import annotations

import socket

import pytest

from tests import ports
from tests.ports import HOST, first_of_connections, free_port


def test_port_of_a_server_that_has_gone_is_given_to_no_connection() -> None:
    assert free_port() < first_of_connections()
    with socket.create_server((HOST, 0)) as server, socket.create_connection(server.getsockname()) as connection:
        assert connection.getsockname()[1] >= first_of_connections()


def test_port_at_which_a_server_listens_is_not_free(monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port()
    monkeypatch.setattr(ports, "LOWEST", port)
    monkeypatch.setattr(ports, "first_of_connections", lambda: port + 1)
    assert free_port() == port
    with socket.create_server((HOST, port)), pytest.raises(OSError, match=f"no port from {port} to {port} is free"):
        free_port()
