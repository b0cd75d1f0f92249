"""A trace goes with a message: from the span that sends it to that of its handler, over restarts and dead letters."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from opentelemetry import trace as api
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from mercury import (
    ApplicationFault,
    DestinationPolicy,
    LetterFilter,
    MessageContext,
    OnFailure,
    Service,
    TracesSettings,
)
from mercury.engine.metrics_settings import MetricsSettings
from mercury.settings import Settings
from mercury.statemachine.policy import SourcePolicy
from mercury.statemachine.trace import read_trace
from mercury.telemetry import instruments as of
from mercury.testing import Pair
from mercury.testing.pair import Node
from mercury.wire.envelope import HttpMessage

URL = "http://server/services/notes"
FOREIGN = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def notes(handle: Callable[[MessageContext, bytes], None] = lambda context, body: None) -> Service:
    service = Service("notes")

    @service.operation("Note")
    def note(context: MessageContext, body: bytes) -> None:
        handle(context, body)

    return service


class Traced:
    """A pair of processes that trace, and the spans that they have ended."""

    def __init__(self, service: Service, *, batch: int = 1, listen: bool = False, recording: bool = True) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracer = self.provider.get_tracer("application")
        self.pair = Pair(service, settings=Settings(source=SourcePolicy(batch=batch)), listen=listen)
        if recording:
            self.trace(self.pair.client, self.pair.server)

    def trace(self, *nodes: Node) -> None:
        for node in nodes:
            assert node.traces is not None
            node.traces.provider = self.provider

    def send(self, *texts: str) -> int:
        """Send notes in a span of the application; returns its trace."""
        with self.tracer.start_as_current_span("request") as span:
            for text in texts:
                self.pair.to().send(f"<note>{text}</note>", operation="Note")
        return span.get_span_context().trace_id

    def spans(self, name: str) -> Sequence[ReadableSpan]:
        return [span for span in self.exporter.get_finished_spans() if span.name.startswith(name)]


def parent_of(span: ReadableSpan) -> int:
    assert span.parent is not None
    return span.parent.span_id


@pytest.mark.parametrize("batch", [1, 100], ids=["single", "batch"])
def test_the_span_of_the_handler_is_the_child_of_the_span_that_sent_its_message(batch: int) -> None:
    traced = Traced(notes(), batch=batch)
    ids = [traced.send("one"), traced.send("two"), traced.send("three")]
    traced.pair.run()
    sent, processed = traced.spans(f"send {URL}"), traced.spans("process notes")
    assert [span.context.trace_id for span in sent] == [span.context.trace_id for span in processed] == ids
    assert [parent_of(span) for span in processed] == [span.context.span_id for span in sent]
    assert {span.kind for span in sent} == {SpanKind.PRODUCER}
    assert {span.kind for span in processed} == {SpanKind.CONSUMER}
    attributes = dict(processed[0].attributes or {})
    assert attributes["messaging.system"] == "mercury"
    assert attributes["messaging.operation.type"] == "process"
    assert attributes["messaging.destination.name"] == "notes"
    assert attributes["messaging.message.id"] == dict(sent[0].attributes or {})["messaging.message.id"]


def test_the_trace_survives_the_restart_of_both_processes() -> None:
    traced = Traced(notes())
    traced.pair.server.kill()
    trace = traced.send("one")
    traced.pair.client.crash()
    traced.pair.server.restart()
    traced.pair.run()
    (processed,) = traced.spans("process")
    assert processed.context.trace_id == trace


def test_the_trace_survives_a_redrive_from_the_dead_letters() -> None:
    works = False

    def handle(context: MessageContext, body: bytes) -> None:
        if not works:
            raise LookupError("no such customer")

    service = notes(handle)
    service.policy = DestinationPolicy(max_attempts=1, on_failure=OnFailure.SKIP)
    traced = Traced(service)
    trace = traced.send("one")
    traced.pair.run()
    (failed,) = traced.spans("process")
    assert failed.status.status_code is StatusCode.ERROR
    assert dict(failed.attributes or {})["error.type"] == "LookupError"
    works = True
    assert len(traced.pair.server.redrive(LetterFilter()).done) == 1
    traced.pair.run()
    redriven = traced.spans("process")[-1]
    assert redriven.context.trace_id == trace
    assert parent_of(redriven) == parent_of(failed)
    assert redriven.status.status_code is not StatusCode.ERROR


def test_a_handler_of_lists_has_links_to_all_spans_that_sent_to_it() -> None:
    service, lists = Service("notes"), []

    @service.operation("Note", batch=10)
    def note(contexts: list[MessageContext], bodies: list[bytes]) -> None:
        lists.append(len(bodies))

    traced = Traced(service, batch=100)
    ids = [traced.send("one"), traced.send("two"), traced.send("three")]
    traced.pair.run()
    assert lists == [3]
    (processed,) = traced.spans("process")
    assert processed.parent is None
    assert [link.context.trace_id for link in processed.links] == ids
    assert dict(processed.attributes or {})["messaging.batch.message_count"] == 3


@pytest.mark.parametrize("listen", [True, False], ids=["posted", "on its connection"])
@pytest.mark.parametrize("fault", [False, True])
def test_a_response_carries_the_span_of_the_handler_to_the_callback(listen: bool, fault: bool) -> None:
    service = Service("notes")

    @service.operation("Ask")
    def ask(context: MessageContext, body: bytes) -> bytes:
        if fault:
            raise ApplicationFault("no")
        return b"<answer/>"

    traced = Traced(service, batch=100, listen=listen)

    @traced.pair.client.callback("answer")
    def answered(context: MessageContext, body: bytes | ApplicationFault) -> None:
        pass

    with traced.tracer.start_as_current_span("request") as span:
        traced.pair.to().request_with_callback("<ask/>", "answer", operation="Ask")
    traced.pair.run()
    (asked,), (called,) = traced.spans("process notes"), traced.spans("process responses")
    assert asked.context.trace_id == called.context.trace_id == span.get_span_context().trace_id
    assert parent_of(called) == asked.context.span_id


def test_the_span_is_the_current_one_in_the_handler() -> None:
    found = []
    traced = Traced(notes(lambda context, body: found.append(api.get_current_span().get_span_context().trace_id)))
    trace = traced.send("one")
    traced.pair.run()
    assert found == [trace]


def test_a_span_of_a_transaction_that_is_rolled_back_is_not_exported() -> None:
    traced = Traced(notes())
    with pytest.raises(RuntimeError), traced.pair.client.transaction() as tx:
        traced.pair.to().send("<note>one</note>", operation="Note", tx=tx)
        raise RuntimeError("the application changes its mind")
    assert traced.spans("send") == []


def test_without_an_sdk_the_trace_of_the_sender_still_reaches_the_handler() -> None:
    found = []
    service = notes(lambda context, body: found.append(api.get_current_span().get_span_context().span_id))
    traced = Traced(service, recording=False)
    with traced.tracer.start_as_current_span("request") as span:
        traced.pair.to().send("<note>one</note>", operation="Note")
    traced.pair.to().send("<note>two</note>", operation="Note")
    traced.pair.run()
    assert found == [span.get_span_context().span_id, 0]
    assert traced.spans("send") == traced.spans("process") == []


def test_switched_off_nothing_is_sent_and_no_span_is_made() -> None:
    pair = Pair(notes(), settings=Settings(traces=TracesSettings(enabled=False)))
    assert pair.client.traces is pair.server.traces is None
    with TracerProvider().get_tracer("application").start_as_current_span("request"):
        pair.to().send("<note>one</note>", operation="Note")
    seen = watched(pair)
    pair.run()
    assert not any(http.trace or b"traceparent" in http.body for http in seen)


# --- on the wire -----------------------------------------------------------------------------------------------------


def watched(pair: Pair, change: Callable[[HttpMessage], HttpMessage] = lambda http: http) -> list[HttpMessage]:
    """All messages of the application on the wire from now on, as they arrive."""
    seen: list[HttpMessage] = []

    def note(http: HttpMessage) -> HttpMessage:
        seen.append(http)
        return change(http)

    for name in ("message *", "batch *"):
        pair.wire.alter(name, note, times=1000)
    return seen


def test_one_message_has_the_headers_of_w3c_and_the_block_between_mercury_and_mercury() -> None:
    traced = Traced(notes(), batch=2)
    seen = watched(traced.pair)
    traced.send("one")
    traced.pair.run()
    (sent,) = traced.spans("send")
    (http,) = seen
    assert http.trace is not None
    assert int(http.trace.parent.split("-")[2], 16) == sent.context.span_id
    assert b'<m:Sent xmlns:m="urn:mercury:rm" traceparent="' + http.trace.parent.encode() in http.body
    assert b"mustUnderstand" not in http.body[http.body.index(b"<m:Sent") :].partition(b"/>")[0]


def test_a_peer_that_has_not_stated_to_take_batches_gets_the_headers_only() -> None:
    traced = Traced(notes(), batch=1)
    seen = watched(traced.pair)
    traced.send("one")
    traced.pair.run()
    assert seen[0].trace is not None
    assert b"m:Sent" not in seen[0].body


def test_the_header_of_a_foreign_client_is_the_parent_of_the_handler() -> None:
    traced = Traced(notes(), recording=False)
    traced.trace(traced.pair.server)
    watched(traced.pair, lambda http: replace(http, trace=read_trace(FOREIGN)))
    traced.pair.to().send("<note>one</note>", operation="Note")
    traced.pair.run()
    (processed,) = traced.spans("process")
    assert f"00-{processed.context.trace_id:032x}-{parent_of(processed):016x}-01" == FOREIGN


def test_the_span_of_a_proxy_is_not_that_of_the_messages_of_a_batch() -> None:
    traced = Traced(notes(), batch=100, recording=False)
    traced.trace(traced.pair.server)
    watched(traced.pair, lambda http: replace(http, trace=read_trace(FOREIGN)))
    for text in ("one", "two"):
        traced.pair.to().send(f"<note>{text}</note>", operation="Note")
    traced.pair.run()
    assert [span.parent for span in traced.spans("process")] == [None, None]


def test_the_block_of_the_sender_counts_more_than_the_header_of_a_proxy() -> None:
    traced = Traced(notes(), batch=2)
    watched(traced.pair, lambda http: replace(http, trace=read_trace(FOREIGN)))
    trace = traced.send("one")
    traced.pair.run()
    assert [span.context.trace_id for span in traced.spans("process")] == [trace]


MALFORMED = (
    "x" * 10_240,
    FOREIGN + "-" + "x" * 10_240,
    "00-" + "0" * 32 + "-b7ad6b7169203331-01",
    "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\nX-Evil: 1".replace("\r\n", "&#13;&#10;"),
    "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01&quot; at=&quot;1",
    "",
)


@pytest.mark.parametrize("parent", MALFORMED, ids=range(len(MALFORMED)))
@pytest.mark.parametrize("batch", [2, 100], ids=["single", "batch"])
def test_a_malformed_trace_of_a_peer_is_ignored_and_its_message_is_delivered(parent: str, batch: int) -> None:
    handled: list[bytes] = []
    traced = Traced(notes(lambda context, body: handled.append(body)), batch=batch)

    def forged(http: HttpMessage) -> HttpMessage:
        written = re.sub(rb'(?<=traceparent=")[^"]{55}(?=")', parent.encode(), http.body)
        assert written != http.body
        return replace(http, body=written, trace=None)

    watched(traced.pair, forged)
    ids = [traced.send("one")] if batch == 2 else [traced.send("one"), traced.send("two")]
    traced.pair.run()
    assert len(handled) == len(ids)
    assert traced.spans("process")[0].parent is None
    assert traced.pair.server.dead_letters() == []


def test_an_sdk_that_fails_harms_no_message(caplog: pytest.LogCaptureFixture) -> None:
    class Fails(SpanProcessor):
        def on_start(self, span: object, parent_context: object = None) -> None:
            raise ValueError("no room in the exporter")

        def on_end(self, span: object) -> None:
            raise ValueError("no room in the exporter")

    handled: list[bytes] = []
    traced = Traced(notes(lambda context, body: handled.append(body)))
    traced.provider.add_span_processor(Fails())
    for text in ("one", "two"):
        traced.pair.to().send(f"<note>{text}</note>", operation="Note")
    traced.pair.run()
    assert len(handled) == 2
    assert [record.name for record in caplog.records].count("mercury.traces") == 2, "once in each process"


def test_names_of_spans_are_limited_however_many_endpoints_and_services_there_are() -> None:
    traced = Traced(notes())
    for number in range(1000):
        traced.pair.client.to(f"http://server/services/notes?{number}", namespace="urn:n").send(
            "<a/>", operation="Note"
        )
        traced.pair.client.to(f"http://peer-{number}/a", namespace="urn:n").send("<a/>", operation="Note")
    names = {span.name for span in traced.spans("send")}
    assert len(names) == traced.pair.client.settings.metrics.destinations + 1
    assert "send other" in names
    assert "send http://server/services/notes" in names


# --- the time ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch", [2, 100], ids=["single", "batch"])
def test_the_time_from_send_to_commit_is_measured_over_both_processes(batch: int) -> None:
    metrics = MetricsSettings(enabled=True, interval=0.0)
    pair = Pair(notes(), settings=Settings(metrics=metrics, source=SourcePolicy(batch=batch)))
    pair.server.kill()
    for text in ("one", "two") if batch > 2 else ("one",):
        pair.to().send(f"<note>{text}</note>", operation="Note")
    pair.client.crash()
    pair.advance(20)
    pair.server.restart()
    pair.run()
    assert pair.server.metrics is not None
    (found,) = pair.server.metrics.recorder.histograms[of.TRANSFER_LATENCY.name].read()
    assert found[0] == ("notes",)
    assert sum(found[1].counts) == (2 if batch > 2 else 1)
    assert found[1].sum / sum(found[1].counts) >= 20


def test_a_sender_without_metrics_does_not_say_when_it_sent() -> None:
    pair = Pair(notes(), settings=Settings(source=SourcePolicy(batch=100)))
    seen = watched(pair)
    pair.to().send("<note>one</note>", operation="Note")
    pair.run()
    assert b"urn:mercury:rm" not in seen[0].body
