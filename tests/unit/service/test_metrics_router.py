"""``/metrics`` is for the requests that may read the status, and never waits long for the store."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from urllib.parse import urlsplit

import pytest
from fastapi import FastAPI

from mercury import ConfigurationError, Mercury, Service
from mercury.engine.metrics_settings import MetricsSettings
from mercury.engine.runtime.peers import TlsSettings
from mercury.service.metrics_router import metrics_router
from mercury.service.serving import BackgroundServer
from mercury.settings import HttpSettings, Settings

TOKEN = "0123456789abcdef"
ENABLED = Settings(metrics=MetricsSettings(enabled=True))


@contextmanager
def served(text: Callable[[], bytes], token: str | None = None, timeout: float = 30.0) -> Iterator[str]:
    app = FastAPI()
    app.include_router(metrics_router(text, "text/plain; version=0.0.4", token, timeout))
    server = BackgroundServer("127.0.0.1", 0, TlsSettings())
    server.start(app, HttpSettings())
    try:
        yield server.url
    finally:
        server.stop()


def get(url: str, **headers: str) -> tuple[int, str]:
    connection = HTTPConnection(urlsplit(url).netloc, timeout=30)
    try:
        connection.request("GET", "/metrics", headers=headers)
        reply = connection.getresponse()
        return reply.status, reply.read().decode()
    finally:
        connection.close()


def test_this_machine_reads_the_metrics_and_a_proxied_request_does_not() -> None:
    with served(lambda: b"mercury_nodes 1\n") as url:
        assert get(url) == (200, "mercury_nodes 1\n")
        assert get(url, Forwarded="for=10.0.0.1")[0] == 403


def test_token_is_needed_where_one_is_set() -> None:
    with served(lambda: b"mercury_nodes 1\n", TOKEN) as url:
        assert get(url)[0] == 401
        assert get(url, Authorization=f"Bearer {TOKEN}") == (200, "mercury_nodes 1\n")


def test_store_that_does_not_answer_is_not_waited_for() -> None:
    go_on = threading.Event()

    def text() -> bytes:
        go_on.wait(30)
        return b""

    with served(text, timeout=0.01) as url:
        try:
            assert get(url)[0] == 503
        finally:
            go_on.set()


def test_application_serves_the_metrics_only_where_they_are_enabled() -> None:
    notes = Service("notes")

    @notes.operation
    def note(body: bytes) -> None: ...

    for settings, status in ((Settings(), 404), (ENABLED, 200)):
        mercury = Mercury("memory:", settings=settings)
        url = mercury.listen(notes)
        try:
            found, shown = get(url)
        finally:
            mercury.stop()
        assert found == status
        assert ("mercury_process_running 1.0" in shown) is (status == 200)


def test_router_without_metrics_is_refused() -> None:
    mercury = Mercury("memory:", settings=Settings())
    try:
        with pytest.raises(ConfigurationError, match=r"metrics\.enabled: it is false"):
            mercury.metrics_router()
    finally:
        mercury.stop()
