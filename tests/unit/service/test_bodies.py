"""Bodies of requests: how much they announce."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from typing import Any

import pytest

from mercury.service.bodies import Bodies, RequestRefused
from mercury.settings import HttpSettings


def read(announced: str) -> bytes:
    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.request", "body": b"<a/>", "more_body": False}

    body, _ = asyncio.run(Bodies(100, HttpSettings()).read({"content-length": announced}, receive, "192.0.2.1"))
    return body


@pytest.mark.parametrize("announced", ["101", "9" * 21, "9" * 5000])
def test_any_length_above_the_limit_is_refused(announced: str) -> None:
    # Not every HTTP server limits the digits of the header; Python's `int` refuses more than 4,300.
    with pytest.raises(RequestRefused) as refused:
        read(announced)
    assert refused.value.status == 413


@pytest.mark.parametrize("announced", ["4", "0" * 5000 + "4", "", "4, 4", "\N{SUPERSCRIPT TWO}", "-1"])
def test_length_within_the_limit_or_none_is_read(announced: str) -> None:
    assert read(announced) == b"<a/>"
