"""A PostgreSQL that keeps its connections open and no longer answers, like a machine that hangs."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
from collections.abc import Iterator

import pytest

from mercury.postgres import processes
from mercury.postgres.embedded import EmbeddedPostgres
from tests.acceptance.processes import Serving, eventually, get

#: More than a server has threads for requests.
CROWD = 45


@contextlib.contextmanager
def standing_still(server: EmbeddedPostgres) -> Iterator[None]:
    pid = server.pid
    assert pid is not None
    family = [pid, *processes.children(pid)]
    for each in family:
        os.kill(each, signal.SIGSTOP)
    try:
        yield
    finally:
        for each in family:
            os.kill(each, signal.SIGCONT)


@contextlib.contextmanager
def crowd(server: Serving, number: int, path: str) -> Iterator[None]:
    """So many peers ask, and wait for the answer."""
    with contextlib.ExitStack() as stack:
        for _ in range(number):
            peer = stack.enter_context(server.connection())
            peer.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        yield


def test_process_answers_healthz_and_is_not_ready_however_many_requests_come(own_postgres: EmbeddedPostgres) -> None:
    with Serving(MERCURY_STORE=own_postgres.create_database("server")) as server:
        assert get(server.netloc, "/readyz")[0] == 200
        with (
            standing_still(own_postgres),
            crowd(server, CROWD, "/readyz"),
            crowd(server, 2, "/mercury/status/sequences"),
        ):
            assert get(server.netloc, "/healthz") == (200, '{"status":"ok"}')
            status, body = get(server.netloc, "/readyz")
            assert (status, json.loads(body)) == (503, {"status": "not ready", "store": "the store does not answer"})
            assert get(server.netloc, "/mercury/status/sequences")[0] == 503
        eventually(lambda: get(server.netloc, "/readyz")[0] == 200, "it is ready again")
        server.signal(signal.SIGTERM)
        assert server.ends().code == 0


@pytest.mark.parametrize("path", ["/readyz", "/mercury/status/sequences"])
def test_question_that_is_not_answered_does_not_keep_the_process_from_its_end(
    own_postgres: EmbeddedPostgres, path: str
) -> None:
    with (
        Serving(MERCURY_STORE=own_postgres.create_database("server")) as server,
        standing_still(own_postgres),
        crowd(server, 1, path),
    ):
        with contextlib.suppress(TimeoutError), server.connection() as peer:
            peer.settimeout(1.0)  # by now the one before it has asked the store
            peer.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            assert peer.recv(1, socket.MSG_PEEK) is not None
        server.signal(signal.SIGTERM)
        assert server.ends(60).code == 0


def test_error_of_the_database_is_for_the_log_and_not_for_everybody(own_postgres: EmbeddedPostgres) -> None:
    with Serving(MERCURY_STORE=own_postgres.create_database("server")) as server:
        own_postgres.kill()
        for _ in range(3):
            status, body = get(server.netloc, "/readyz")
            said = json.loads(body)
            assert (status, said["store"]) == (503, "the store does not answer")
            assert "psycopg" not in body
        assert server.err.count("not ready: ") == 1
