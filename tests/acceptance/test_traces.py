"""The trace of a message over real connections: in the headers of HTTP, and from the tasks of an event loop."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceState, get_current_span, use_span

from mercury import Mercury, Service, SourcePolicy
from mercury.settings import load
from tests.acceptance.app import Note
from tests.acceptance.processes import eventually

STATE = TraceState([("vendor", "a<b")])


def span(number: int) -> NonRecordingSpan:
    return NonRecordingSpan(SpanContext(0xABC, number, is_remote=False, trace_state=STATE))


def test_the_span_of_the_sender_comes_in_the_headers_of_http_also_from_an_event_loop() -> None:
    found: list[tuple[str, int, str]] = []
    service = Service("desk")

    @service.operation
    def note(what: Note) -> None:
        context = get_current_span().get_span_context()
        found.append((what.text, context.span_id, context.trace_state.to_header()))

    # Without batches there is no header block, so that only HTTP's headers can bring it.
    settings = replace(load(), source=SourcePolicy(batch=1))
    with Mercury("memory:", settings=settings) as mercury:
        sender = mercury.to(f"{mercury.listen(service)}/services/desk", listen=False)

        async def send() -> None:
            with use_span(span(2)):
                await sender.asend(Note("two"))
            with use_span(span(3)):
                async with mercury.atransaction() as tx:
                    await sender.asend(Note("three"), tx=tx)

        with use_span(span(1)):
            sender.send(Note("one"))
        asyncio.run(send())
        sender.send(Note("four"))
        eventually(lambda: len(found) == 4, "all are handled")
    assert found == [("one", 1, "vendor=a<b"), ("two", 2, "vendor=a<b"), ("three", 3, "vendor=a<b"), ("four", 0, "")]
