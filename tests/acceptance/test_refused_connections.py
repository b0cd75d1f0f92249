"""A connection whose request was refused still lingers when a new one needs its place (raw sockets)."""

from __future__ import annotations

import pytest

from mercury.engine.runtime.body_pieces import FREE_PIECES
from tests.acceptance.test_endpoint import read_reply
from tests.acceptance.test_http_limits import chunked, connect, served


def test_connection_that_takes_the_place_of_a_refused_one_is_served(caplog: pytest.LogCaptureFixture) -> None:
    with served(max_connections=1) as address, connect(address) as refused:
        refused.sendall(chunked(1, b"a" * 100 * FREE_PIECES))
        assert read_reply(refused).status == 400
        with connect(address) as peer:
            peer.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            assert read_reply(peer).status == 200
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []
