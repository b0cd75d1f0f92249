"""When a run with losses is over: neither too early, on a busy machine, nor never."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import SimpleNamespace
from typing import Any

import pytest

from tests.chaos.experiment import LONG_REST, REST, Rest
from tests.chaos.kinds import Side
from tests.ports import free_port


class Server(HTTPServer):
    """Says how much of its only sequence waits."""

    waiting = 0


class Status(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        body = json.dumps([{"identifier": "urn:1", "ranges": "1..3", "waiting": self.server.waiting}]).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Nothing of it is read."""


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(("127.0.0.1", 0), Status) as made:
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        yield made
        made.shutdown()
        thread.join()


class Run:
    """A run in which nothing is sent or received any more."""

    def __init__(self, port: int, printed: str = "sent\ndone\n") -> None:
        self.now = 0.0
        self._running: Any = {Side.CLIENT: SimpleNamespace(out=printed)}
        witness: Any = SimpleNamespace(progress=lambda: (0, 0, 0))
        self._rest = Rest(port, witness, lambda: self.now)

    def is_over_after(self, seconds: float) -> bool:
        self._rest.lasts(self._running)
        self.now += seconds
        return self._rest.lasts(self._running)


def test_run_is_over_when_both_sides_are_done_and_nothing_changes(server: Server) -> None:
    run = Run(server.server_port)
    assert not run.is_over_after(REST / 2)
    assert run.is_over_after(REST)


def test_run_is_not_over_while_a_killed_server_starts_again() -> None:
    assert not Run(free_port()).is_over_after(10 * LONG_REST)


def test_run_is_not_over_soon_while_the_server_has_messages_to_deliver(server: Server) -> None:
    server.waiting = 1
    run = Run(server.server_port)
    assert not run.is_over_after(2 * REST)
    assert run.is_over_after(LONG_REST)


def test_run_is_not_over_soon_while_the_client_waits_for_a_response(server: Server) -> None:
    run = Run(server.server_port, "sent\n")
    assert not run.is_over_after(2 * REST)
    assert run.is_over_after(LONG_REST)


def test_run_is_not_over_before_the_client_has_sent_everything(server: Server) -> None:
    assert not Run(server.server_port, "").is_over_after(10 * LONG_REST)
