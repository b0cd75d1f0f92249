"""Messages above the default limits, between two sides whose settings take them: sent, answered, and refused."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from typing import Any

import pytest

from mercury import Mercury, Service
from mercury.engine.events import HandlerFailed
from mercury.engine.settings import EngineSettings
from mercury.errors import ApplicationFault, PayloadError
from mercury.settings import Settings
from mercury.wire import DEFAULT_LIMITS, Limits
from mercury.wire.scan import limits_of_body
from tests.patience import patience

PATIENCE = patience(60.0)
RAISED = Settings(engine=EngineSettings(limits=Limits(max_bytes=2 * DEFAULT_LIMITS.max_bytes)))
LONG = "a" * DEFAULT_LIMITS.max_bytes


@dataclass
class Scan:
    pages: str


def raw(scan: bytes) -> bytes:
    return scan


def typed(scan: Scan) -> Scan:
    return scan


def listed(scans: list[Scan]) -> list[Scan]:
    return scans


def refuse(scan: bytes) -> bytes:
    raise ApplicationFault("not this one", detail=scan)


@pytest.fixture
def failed() -> Future[None]:
    """It ends when a handler has failed."""
    return Future()


@pytest.fixture
def server(failed: Future[None]) -> Iterator[Mercury]:
    made = Mercury("memory:", settings=RAISED)
    made.subscribe(lambda _event: failed.done() or failed.set_result(None), HandlerFailed)
    yield made
    made.stop()


@pytest.fixture
def client() -> Iterator[Mercury]:
    made = Mercury("memory:", settings=RAISED)
    yield made
    made.stop()


@pytest.fixture
def url(server: Mercury) -> str:
    archive = Service("archive")
    archive.operation("Raw")(raw)
    archive.operation("Scan")(typed)
    archive.operation("Listed", batch=2)(listed)
    archive.operation("Refuse")(refuse)
    return f"{server.listen(archive)}/services/archive"


def answer(asked: Future[Any], failed: Future[None]) -> Any:
    wait([asked, failed], PATIENCE, FIRST_COMPLETED)
    return asked.result(0)


def test_body_above_the_default_limits_is_answered_by_one(client: Mercury, url: str, failed: Future[None]) -> None:
    client.start()
    archive, sent = client.to(url), f'<Raw xmlns="urn:mercury:app">{LONG}</Raw>'.encode()
    assert answer(archive.request(sent, operation="Raw"), failed) == sent
    for operation in ("Scan", "Listed"):
        asked = archive.request(Scan(LONG), response=Scan, operation=operation)
        assert answer(asked, failed) == Scan(LONG), operation


def test_detail_of_a_fault_may_be_above_the_default_limits(client: Mercury, url: str, failed: Future[None]) -> None:
    client.start()
    sent = f'<Raw xmlns="urn:mercury:app">{LONG}</Raw>'.encode()
    with pytest.raises(ApplicationFault) as caught:
        answer(client.to(url).request(sent, operation="Refuse"), failed)
    assert caught.value.detail == sent


def test_body_above_the_limits_that_are_set_is_refused_where_it_is_sent(client: Mercury, url: str) -> None:
    most = limits_of_body(RAISED.engine.limits).max_bytes
    with pytest.raises(PayloadError, match=f"larger than {most} bytes"):
        client.to(url).send(Scan(2 * LONG), operation="Scan")


def nested(levels: int) -> bytes:
    return b"<Raw xmlns='urn:mercury:app'>" + b"<a>" * (levels - 1) + b"</a>" * (levels - 1) + b"</Raw>"


def test_body_at_the_limits_is_taken_with_its_envelope_and_header_blocks(
    client: Mercury, url: str, failed: Future[None]
) -> None:
    client.start()
    archive, most = client.to(url), limits_of_body(RAISED.engine.limits)
    blocks = [b"<x:mark xmlns:x='urn:x'/>"] * most.max_headers
    long = b"<Raw xmlns='urn:mercury:app'>%b</Raw>"
    filled = long % (b"a" * (most.max_bytes - len(long % b"") - len(b"".join(blocks))))
    for sent in (nested(most.max_depth), filled):
        assert answer(archive.request(sent, operation="Raw", headers=blocks), failed) == sent


def test_body_that_leaves_no_room_for_its_envelope_is_refused_and_does_not_hold_up_the_next_one(
    client: Mercury, url: str, failed: Future[None]
) -> None:
    client.start()
    archive, most = client.to(url), limits_of_body(RAISED.engine.limits)
    block = b"<x:mark xmlns:x='urn:x'/>"
    with pytest.raises(PayloadError, match=f"nested deeper than {most.max_depth}"):
        archive.send(nested(most.max_depth + 1), operation="Raw")
    with pytest.raises(PayloadError, match=f"nested deeper than {most.max_depth}"):
        archive.send(nested(1), operation="Raw", headers=[nested(most.max_depth + 1)])
    with pytest.raises(PayloadError, match=f"more than {most.max_headers} header blocks"):
        archive.send(nested(1), operation="Raw", headers=[block] * (most.max_headers + 1))
    with pytest.raises(PayloadError, match="with its header blocks: the message is larger than"):
        archive.send(LONG.join(("<Raw>", "</Raw>")), operation="Raw", headers=[LONG.join(("<a>", "</a>")).encode()])
    assert answer(archive.request(nested(1), operation="Raw"), failed) == nested(1)
