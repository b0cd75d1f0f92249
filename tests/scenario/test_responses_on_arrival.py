"""A callback that is known to be quick is called in the transaction that receives its response (decision 103)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from mercury.engine.application import MessageContext
from mercury.engine.destination import delivering, expected_responses
from mercury.engine.destination.messages import stored_row
from mercury.engine.events import Accepted, Delivered
from mercury.engine.exchange import Step
from mercury.storage.records import InboundMessage
from mercury.wire.envelope import HttpMessage

from .harness import Link, Pair
from .harness.words import text_of
from .test_replies_of_a_hostile_server import HONEST, HOSTILE, Client


def asked_before() -> tuple[Pair, Link]:
    """A client without an address whose callback is known to be quick."""
    pair = Pair()
    link = pair.link(listens=False)
    for text in ("first", "second"):
        link.asks(text)
        pair.run()
    assert pair.client.answers == [("first", "re first"), ("second", "re second")]
    pair.client.answers.clear()
    pair.client.contexts.clear()
    pair.client.events.clear()
    return pair, link


def without_invoker(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is stored at the client is left there."""
    monkeypatch.setattr(pair.client.engine.invocation, "run_once", lambda _now: Step())


def waiting(pair: Pair) -> list[int]:
    """The responses that wait at the client."""
    return [number for buffer in pair.client.store.committed.invoker.buffers.values() for number in buffer.rows]


def requests(pair: Pair) -> list[str]:
    """The requests that the client keeps."""
    return [name for data in pair.client.store.committed.rms.keys.values() for name in data.rows]


def test_response_is_consumed_with_its_request_in_the_transaction_that_receives_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pair, link = asked_before()
    without_invoker(pair, monkeypatch)
    link.asks("third")
    pair.run()
    assert pair.client.answers == [("third", "re third")]
    assert waiting(pair) == requests(pair) == []
    told = [type(event) for event in pair.client.events if isinstance(event, (Accepted, Delivered))]
    assert told == [Accepted, Delivered]


def test_response_is_delivered_on_arrival_beside_other_processes_too(monkeypatch: pytest.MonkeyPatch) -> None:
    pair, link = asked_before()
    pair.client.engine.note_others(True)
    without_invoker(pair, monkeypatch)
    link.asks("third")
    pair.run()
    assert pair.client.answers == [("third", "re third")]
    assert waiting(pair) == requests(pair) == []


def test_future_is_not_resolved_by_the_thread_that_receives_its_response(monkeypatch: pytest.MonkeyPatch) -> None:
    # What the application calls when a future is done may take as long as it likes.
    pair, link = asked_before()
    with monkeypatch.context() as patch:
        without_invoker(pair, patch)
        future = link.ask("third")
        pair.run()
        assert waiting(pair) == [3]
        link.asks("fourth")
        pair.run()
        assert not future.done(), "not with what arrives after it either"
        assert (pair.client.answers, waiting(pair)) == ([], [3, 4])
    pair.advance(5)
    assert text_of(future.result(0)) == "re third"
    assert pair.client.answers == [("fourth", "re fourth")]


class Servers(Client):
    """The hostile server answers a request that the honest one does not answer."""

    unanswered = ""

    def answer(self, url: str, sequence: str, number: int, request: str) -> list[HttpMessage]:
        offered = self.accepted[url]
        if number < 3:
            return [self.foreign.respond(offered, number, request, "quick")]
        if url == HONEST:
            self.unanswered = request
            return []
        return [self.foreign.respond(offered, number, self.unanswered, "forged")]


def test_callback_gets_no_response_of_a_peer_that_its_request_did_not_go_to() -> None:
    servers = Servers()
    servers.accepted = {HONEST: "", HOSTILE: ""}
    links = [servers.to(url) for url in (HONEST, HOSTILE)]
    for text in ("first", "second", "third"):
        for link in links:
            link.asks(text)
            servers.serve()
    assert servers.unanswered
    assert servers.node.answers == [(text, "quick") for text in ("first", "first", "second", "second")]
    assert servers.unanswered not in {context.relates_to for context in servers.node.contexts}, "not even in vain"


def test_callback_that_fails_is_called_again_after_a_pause_and_its_work_is_undone() -> None:
    pair, link = asked_before()
    called: list[int] = []

    def fail(context: MessageContext, _text: str) -> None:
        called.append(context.attempt)
        if len(called) == 1:
            raise ValueError("not now")

    pair.client.on_call = fail
    link.asks("third")
    pair.run()
    assert (called, pair.client.answers, waiting(pair)) == ([1], [], [3])
    pair.advance(5)
    assert (called, pair.client.answers, waiting(pair)) == ([1, 2], [("third", "re third")], [])


def test_callback_that_was_called_for_what_is_not_stored_is_undone_and_called_for_what_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pair, link = asked_before()
    expected: Callable[..., list[InboundMessage]] = delivering.expected_responses

    def wrong(*arguments: Any) -> Sequence[InboundMessage]:
        return [replace(row, payload=row.payload.replace(b"third", b"other")) for row in expected(*arguments)]

    monkeypatch.setattr(delivering, "expected_responses", wrong)
    link.asks("third")
    pair.run()
    assert pair.client.answers == [("third", "re third")]
    assert [context.correlation for context in pair.client.contexts] == ["third"] * 2, "the first call is undone"


def test_callback_that_was_called_for_what_the_locked_request_does_not_say_is_undone_and_called_for_what_it_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pair, link = asked_before()

    def wrong(*arguments: Any) -> InboundMessage:
        return replace(stored_row(*arguments), correlation="as it was before")

    monkeypatch.setattr(expected_responses, "stored_row", wrong)
    link.asks("third")
    pair.run()
    assert pair.client.answers == [("third", "re third")]
    assert [context.correlation for context in pair.client.contexts] == ["as it was before", "third"]


@pytest.mark.parametrize("when", ["before", "after"])
def test_process_that_dies_at_the_commit_has_consumed_the_response_once_in_the_end(when: str) -> None:
    pair, link = asked_before()
    link.asks("third")
    pair.client.turn()
    getattr(pair.client.watched, f"crash_{when}")()
    pair.run()
    assert pair.client.crashes == 1
    assert pair.client.answers == ([("third", "re third")] if when == "after" else [])
    link.asks("fourth")
    link.close()
    pair.advance(20)
    assert pair.client.answers == [("third", "re third"), ("fourth", "re fourth")]
    pair.assert_ended()
