"""``/healthz`` is for a probe that restarts the process: it fails only when a restart helps."""

from __future__ import annotations

import asyncio
import json
from collections.abc import MutableMapping
from typing import Any

from fastapi import FastAPI

from mercury.engine.status import SequenceStatus
from mercury.service.host import status_router


class FakeSource:
    """A process whose store fails, and of whose threads these have ended."""

    status_token = None

    def __init__(self, *ended: str) -> None:
        self._ended = list(ended)

    def readiness(self) -> dict[str, str]:
        return {"workers": "not running", "store": "away"}

    def ended_threads(self) -> list[str]:
        return self._ended

    def lateness(self) -> list[str]:
        return []

    def metrics(self) -> dict[str, float]:
        return {}

    def sequences(self) -> list[SequenceStatus]:
        return []


def healthz(source: FakeSource) -> tuple[int, Any]:
    app = FastAPI()
    app.include_router(status_router(source))
    sent: list[MutableMapping[str, Any]] = []

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(event: MutableMapping[str, Any]) -> None:
        sent.append(event)

    scope = {"type": "http", "method": "GET", "path": "/healthz", "headers": [], "query_string": b"", "root_path": ""}
    asyncio.run(app(scope, receive, send))
    return int(sent[0]["status"]), json.loads(sent[1]["body"])


def test_store_that_fails_is_no_reason_to_restart_the_process() -> None:
    assert healthz(FakeSource()) == (200, {"status": "ok"})


def test_thread_that_ended_fails_the_probe_and_is_named() -> None:
    assert healthz(FakeSource("mercury-committer")) == (
        503,
        {"status": "failed", "ended threads": ["mercury-committer"]},
    )
