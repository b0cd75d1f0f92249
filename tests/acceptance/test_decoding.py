"""Messages are decoded outside the committer's thread, which only handles them."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from mercury import Mercury, Service
from mercury.engine.destination import reception
from tests.acceptance.app import Note
from tests.acceptance.processes import PATIENCE
from tests.acceptance.test_endpoint import SOAP12, envelope, exchange


def test_committer_decodes_neither_messages_nor_replies_nor_what_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[tuple[str, int]] = []
    decode = reception.decode

    def seen(data: bytes, *arguments: Any, **more: Any) -> Any:
        threads.append((threading.current_thread().name, len(data)))
        return decode(data, *arguments, **more)

    monkeypatch.setattr(reception, "decode", seen)
    service = Service("desk")
    service.operation("Note")(forget)
    server = Mercury("memory:")
    url = server.listen(service)
    try:
        with Mercury("memory:") as client:
            desk = client.to(f"{url}/services/desk")
            for text in ("short", "long" * 50_000):
                desk.send(Note(text))
            assert desk.wait(PATIENCE)
        netloc = url.removeprefix("http://")
        hostile = envelope(SOAP12, "<x" + "".join(f" a{n}=''" for n in range(100_000)) + "/>")
        assert exchange(netloc, hostile).status == 400
    finally:
        server.stop()
    assert {name.rstrip("0123456789") for name, _ in threads if name.startswith("mercury")} <= {
        "mercury-http",
        "mercury-exchanges",
        "mercury-sender-",
    }
    # Long messages are decoded outside the loops too.
    assert all(name not in ("mercury-http", "mercury-exchanges") for name, size in threads if size > 100_000)
    assert any(size > 100_000 for _, size in threads)


def forget(what: Note) -> None:
    del what
