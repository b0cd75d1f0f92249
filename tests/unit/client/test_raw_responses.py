"""Futures whose result is the response as received, with its header blocks."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from mercury.client.futures import Futures, RawResponse
from mercury.client.zeep.parsed_future import ParsedFuture
from mercury.errors import ApplicationFault, SequenceFailed
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
