"""Futures: whose result is the response as received, with its header blocks, and what reading it can raise."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from mercury.client.futures import Futures, RawResponse, awaited
from mercury.client.zeep.parsed_future import ParsedFuture
from mercury.errors import ApplicationFault, PayloadError, SequenceFailed
from mercury.wire.envelope import Payload

HEADERS = (b"<h/>",)


def answered(futures: Futures, response: Any) -> None:
    """The response to ``urn:1`` is consumed, and its transaction commits."""
    transaction = SimpleNamespace(after_commit=lambda action: action())
    context: Any = SimpleNamespace(relates_to="urn:1", headers=HEADERS, transaction=transaction)
    futures.callback()(context, response)


def test_raw_response_has_its_header_blocks() -> None:
    futures = Futures("me")
    future, _ = futures.expect("urn:1", RawResponse, "urn:n")
    answered(futures, Payload(b"<a/>", "a"))
    assert future.result(0) == RawResponse(b"<a/>", HEADERS)


def test_parsed_future_has_what_was_made_of_the_response() -> None:
    futures = Futures("me")
    raw, _ = futures.expect("urn:1", RawResponse, "urn:n", lambda: "it is on its way")
    future = ParsedFuture(raw, lambda done: done.result().xml.decode())
    with pytest.raises(TimeoutError, match="it is on its way"):
        future.result(0)
    with pytest.raises(TimeoutError, match="it is on its way"):
        future.exception(0)
    answered(futures, Payload(b"<a/>", "a"))
    assert (future.result(0), future.exception(0)) == ("<a/>", None)


def test_parsed_future_has_the_error_of_reading_the_response() -> None:
    futures = Futures("me")
    raw, _ = futures.expect("urn:1", RawResponse, "urn:n")
    future = ParsedFuture(raw, lambda done: done.result())
    answered(futures, ApplicationFault("no"))
    with pytest.raises(ApplicationFault, match="no"):
        future.result(0)


def test_parsed_future_fails_when_no_response_will_come() -> None:
    futures = Futures("me")
    raw, _ = futures.expect("urn:1", RawResponse, "urn:n")
    future = ParsedFuture(raw, lambda done: done.result())
    futures.abandon("it ends")
    assert isinstance(future.exception(0), SequenceFailed)


def test_parsed_future_that_is_cancelled_stays_so() -> None:
    futures = Futures("me")
    raw, _ = futures.expect("urn:1", RawResponse, "urn:n")
    future = ParsedFuture(raw, lambda done: done.result())
    assert future.cancel()
    answered(futures, Payload(b"<a/>", "a"))
    assert future.cancelled()


class UnreadableError(Exception):
    def __str__(self) -> str:
        raise self


@dataclass
class Told:
    """Its constructor refuses values by other errors than those of values."""

    number: int

    def __post_init__(self) -> None:
        assert self.number != 13, "not this one"
        if self.number == 15:
            raise UnreadableError
        next(each for each in range(13) if each == self.number)


@pytest.mark.parametrize(
    ("number", "error"),
    [
        (13, "AssertionError: not this one"),
        (14, "StopIteration: "),
        (15, r"UnreadableError: \(its text cannot be read\)"),
    ],
    ids=["false", "not found", "without a text"],
)
def test_response_whose_class_raises_another_error_than_of_a_value_fails_its_future(number: int, error: str) -> None:
    futures = Futures("me")
    future, _ = futures.expect("urn:1", Told, "urn:n")

    async def wait() -> Any:
        waiting = asyncio.ensure_future(awaited(future, 30, lambda _: asyncio.sleep(0, "")))
        await asyncio.sleep(0)
        answered(futures, Payload(f'<Told xmlns="urn:n"><number>{number}</number></Told>'.encode(), "{urn:n}Told"))
        return await waiting

    with pytest.raises(PayloadError, match=f"the response cannot be read: {error}"):
        asyncio.run(wait())
    assert isinstance(future.exception(0), PayloadError)
