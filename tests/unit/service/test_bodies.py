"""Bodies of requests: how much they announce, and those that are too large for memory."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import pytest

from mercury.service.bodies import Bodies, RequestRefused
from mercury.settings import HttpSettings
from mercury.wire.spool import Spool


def read(announced: str) -> bytes:
    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.request", "body": b"<a/>", "more_body": False}

    body, _ = asyncio.run(Bodies(100, HttpSettings()).read({"content-length": announced}, receive, "192.0.2.1"))
    assert isinstance(body, bytes)
    return body


def test_body_in_tiny_pieces_takes_little_more_than_its_bytes() -> None:
    left = 50_000

    async def receive() -> MutableMapping[str, Any]:
        nonlocal left
        left -= 1
        return {"type": "http.request", "body": bytes(bytearray(4)), "more_body": left > 0}

    tracemalloc.start()
    try:
        body, _ = asyncio.run(Bodies(1_000_000, HttpSettings()).read({}, receive, "192.0.2.1"))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert isinstance(body, bytes)
    assert len(body) == 200_000
    assert peak < 1_500_000


def test_large_body_is_in_memory_once() -> None:
    left = 64

    async def receive() -> MutableMapping[str, Any]:
        nonlocal left
        left -= 1
        return {"type": "http.request", "body": bytes(bytearray(64 * 1024)), "more_body": left > 0}

    async def peak() -> float:
        """The most memory, in bodies."""
        body, _ = await Bodies(8_000_000, HttpSettings()).read({}, receive, "192.0.2.1")
        assert len(body) == 64 * 64 * 1024
        return tracemalloc.get_traced_memory()[1] / len(body)

    tracemalloc.start()
    try:
        assert asyncio.run(peak()) < 1.5
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("announced", ["101", "9" * 21, "9" * 5000])
def test_any_length_above_the_limit_is_refused(announced: str) -> None:
    # Not every HTTP server limits the digits of the header; Python's `int` refuses more than 4,300.
    with pytest.raises(RequestRefused) as refused:
        read(announced)
    assert refused.value.status == 413


@pytest.mark.parametrize("announced", ["4", "0" * 5000 + "4", "", "4, 4", "\N{SUPERSCRIPT TWO}", "-1"])
def test_length_within_the_limit_or_none_is_read(announced: str) -> None:
    assert read(announced) == b"<a/>"


# --- bodies in a file ------------------------------------------------------------------------------------------------

PIECES = [bytes([number]) * 300_000 for number in range(4)]
WHOLE = b"".join(PIECES)


def receiving(*pieces: bytes, ends: bool = True) -> Callable[[], Awaitable[MutableMapping[str, Any]]]:
    """What a server passes on; the peer leaves after the last piece unless it ``ends``."""
    left = list(pieces)

    async def receive() -> MutableMapping[str, Any]:
        if not left:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": left.pop(0), "more_body": bool(left) or not ends}

    return receive


def bodies(**settings: Any) -> Bodies:
    return Bodies(500_000, HttpSettings(**settings), 1_000_000)


@pytest.mark.parametrize("announced", ["900000", ""])
def test_body_that_is_too_large_for_memory_is_in_a_file_where_that_is_allowed(announced: str) -> None:
    headers = {"content-length": announced}
    body, share = asyncio.run(bodies().read(headers, receiving(*PIECES[:3]), "192.0.2.1", in_file=True))
    assert isinstance(body, Spool)
    assert body[: len(body)] == WHOLE[:900_000]
    assert share is not None  # it counts as if it were in memory
    assert share.held > 800_000
    body.close()
    small, _ = asyncio.run(bodies().read({}, receiving(PIECES[0]), "192.0.2.1", in_file=True))
    assert small == PIECES[0]


@pytest.mark.parametrize("announced", ["1200000", ""])
@pytest.mark.parametrize(("in_file", "most"), [(True, 1_000_000), (False, 500_000)])
def test_body_above_its_limit_is_refused(announced: str, in_file: bool, most: int) -> None:
    with pytest.raises(RequestRefused, match=f"longer than {most} bytes") as refused:
        asyncio.run(bodies().read({"content-length": announced}, receiving(*PIECES), "192.0.2.1", in_file=in_file))
    assert refused.value.status == 413


def test_files_count_for_the_limit_of_all_bodies() -> None:
    counted = bodies(max_receiving_bytes=1_000_000)
    body, share = asyncio.run(counted.read({}, receiving(*PIECES[:3]), "192.0.2.1", in_file=True))
    with pytest.raises(RequestRefused, match="Too many large messages") as refused:
        asyncio.run(counted.read({}, receiving(*PIECES[:3]), "192.0.2.1", in_file=True))
    assert refused.value.status == 503
    counted.release(share)
    again, _ = asyncio.run(counted.read({}, receiving(*PIECES[:3]), "192.0.2.1", in_file=True))
    for each in (body, again):
        assert isinstance(each, Spool)
        each.close()


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """An entry for each file that is opened."""
    found: list[int] = []

    class Counted(Spool):
        def __init__(self) -> None:
            found.append(len(found))
            super().__init__()

    monkeypatch.setattr("mercury.service.bodies.Spool", Counted)
    return found


def test_announced_body_has_no_file_before_more_bytes_have_come_than_memory_may_have(opened: list[int]) -> None:
    announced = {"content-length": "900000"}
    for came in ([], [b"x"], [PIECES[0], PIECES[1][:200_000]]):
        with pytest.raises(RequestRefused, match="broke off"):
            asyncio.run(bodies().read(announced, receiving(*came, ends=False), "192.0.2.1", in_file=True))
        assert opened == []
    with pytest.raises(RequestRefused, match="broke off"):
        asyncio.run(bodies().read(announced, receiving(*PIECES[:2], ends=False), "192.0.2.1", in_file=True))
    assert opened == [0]


@pytest.mark.parametrize("announced", ["900000", ""])
def test_request_is_refused_as_busy_if_no_file_can_be_opened_and_that_is_logged_once(
    announced: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def too_many() -> Spool:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr("mercury.service.bodies.Spool", too_many)
    reading = bodies()
    for _ in range(3):
        with pytest.raises(RequestRefused, match="cannot be received now") as refused:
            asyncio.run(reading.read({"content-length": announced}, receiving(*PIECES[:3]), "192.0.2.1", in_file=True))
        assert (refused.value.status, refused.value.fault.busy) == (503, True)
    (line,) = caplog.messages
    assert "a large request cannot be received" in line
    assert "Too many open files" in line


def test_file_is_removed_when_the_peer_leaves_and_when_the_disk_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Spool] = []

    class Disk(Spool):
        free = 10_000_000

        def __init__(self) -> None:
            super().__init__()
            opened.append(self)

        def write(self, piece: bytes) -> None:
            if len(self) + len(piece) > self.free:
                raise OSError(28, "No space left on device")
            super().write(piece)

    monkeypatch.setattr("mercury.service.bodies.Spool", Disk)
    with pytest.raises(RequestRefused, match="broke off"):
        asyncio.run(bodies().read({}, receiving(*PIECES[:3], ends=False), "192.0.2.1", in_file=True))
    Disk.free = 700_000
    with pytest.raises(RequestRefused, match="cannot be received now") as refused:
        asyncio.run(bodies().read({}, receiving(*PIECES[:3]), "192.0.2.1", in_file=True))
    assert refused.value.status == 503
    assert refused.value.fault.busy
    assert len(opened) == 2
    for spool in opened:
        with pytest.raises(ValueError, match="closed"):
            spool.find(b"more")
