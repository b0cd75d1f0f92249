"""Spans by OpenTelemetry's API, by its conventions for messaging. Without an SDK the trace context still goes on."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from types import TracebackType
from typing import Any

from opentelemetry import context as otel_context
from opentelemetry import trace as api
from opentelemetry.trace import Link, NonRecordingSpan, Span, SpanContext, SpanKind, Status, StatusCode, TraceFlags
from opentelemetry.trace.span import TraceState

from mercury.statemachine.trace import Trace, read_trace
from mercury.storage.records import InboundMessage, OutboundMessage
from mercury.telemetry.instruments import RESPONSES, SYSTEM
from mercury.telemetry.labels import Limited
from mercury.telemetry.otel import SCOPE

log = logging.getLogger("mercury.traces")

#: Names of operations, and so the first words of the names of spans.
SEND, PROCESS = "send", "process"
#: The most spans that the span of one call is linked to.
MOST_LINKS = 128


class Traces:
    """Makes the spans of one process: implements `Tracing`. Thread-safe.

    A failure of the SDK is logged once, and is never one of the message.

    :param most: the limit on the endpoints, and on the services, in names of spans; the rest is ``other``.
    """

    def __init__(self, most: int) -> None:
        self._endpoints, self._services = Limited(most), Limited(most)
        self._mutex = threading.Lock()
        self._failed = False
        #: Makes the tracer; ``None`` = the provider that the process has set for OpenTelemetry, before or after.
        self.provider: Any = None

    def sending(self, after_commit: Callable[[Callable[[], None]], None], message: OutboundMessage) -> None:
        """The application sends a message: set its trace.

        :param after_commit: of its transaction. The span ends with the commit; with a rollback it is not exported.
        """
        try:
            provider = self._recording()
            if provider is None:
                current = api.get_current_span()
                message.trace = None if current is api.INVALID_SPAN else _of_context(current.get_span_context())
                return
            destination = self._endpoints.of(message.channel.endpoint)
            attributes = _attributes(SEND, destination, message.message_id)
            tracer = provider.get_tracer(SCOPE)
            span = tracer.start_span(f"{SEND} {destination}", kind=SpanKind.PRODUCER, attributes=attributes)
            message.trace = _of_context(span.get_span_context())
            after_commit(partial(self._end, span))
        except Exception:
            self.failed()

    def processing(
        self, service: str | None, messages: Sequence[InboundMessage], attempt: int
    ) -> AbstractContextManager[Trace | None]:
        """See `Tracing.processing`."""
        try:
            provider = self._recording()
            if provider is None and not any(message.trace for message in messages):
                return nullcontext()
            return _Processing(self, self._span(provider, service, messages, attempt))
        except Exception:
            self.failed()
            return nullcontext()

    def _span(self, provider: Any, service: str | None, messages: Sequence[InboundMessage], attempt: int) -> Span:
        first = messages[0]
        parent = first.trace if len(messages) == 1 else None
        if provider is None:
            return NonRecordingSpan(_context_of(parent)) if parent is not None else api.INVALID_SPAN
        context = otel_context.Context()
        if parent is not None:
            context = api.set_span_in_context(NonRecordingSpan(_context_of(parent)), context)
        destination = RESPONSES if service is None else self._services.of(service)
        attributes = _attributes(PROCESS, destination, first.message_id if len(messages) == 1 else None)
        attributes["mercury.attempt"] = attempt
        links: list[Link] = []
        if len(messages) > 1:
            attributes["messaging.batch.message_count"] = len(messages)
            traces = dict.fromkeys(message.trace for message in messages if message.trace is not None)
            links = [Link(_context_of(each)) for each in [*traces][:MOST_LINKS]]
        tracer, name = provider.get_tracer(SCOPE), f"{PROCESS} {destination}"
        span: Span = tracer.start_span(name, context, kind=SpanKind.CONSUMER, attributes=attributes, links=links)
        return span

    def _end(self, span: Span) -> None:
        try:
            span.end()
        except Exception:
            self.failed()

    def failed(self) -> None:
        """Log, once, that the SDK has raised an exception; called where it is handled."""
        with self._mutex:
            failed, self._failed = self._failed, True
        if not failed:
            log.exception("OpenTelemetry fails: spans are missing, messages are not; it is logged once")

    def _recording(self) -> Any:
        """The provider of an SDK; ``None`` = no SDK is configured, and no span is made."""
        provider = api.get_tracer_provider() if self.provider is None else self.provider
        return None if type(provider).__module__.startswith(api.__name__) else provider


class _Processing(AbstractContextManager[Trace | None]):
    """A span around a call, current in its thread."""

    __slots__ = ("_span", "_token", "_traces")

    def __init__(self, traces: Traces, span: Span) -> None:
        self._traces, self._span = traces, span

    def __enter__(self) -> Trace | None:
        self._token = otel_context.attach(api.set_span_in_context(self._span))
        return _of_context(self._span.get_span_context())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            otel_context.detach(self._token)
            if isinstance(error, Exception):
                self._span.record_exception(error)
                self._span.set_attribute("error.type", type(error).__name__)
                self._span.set_status(Status(StatusCode.ERROR, str(error)))
            self._span.end()
        except Exception:
            self._traces.failed()


def _attributes(operation: str, destination: str, message_id: str | None) -> dict[str, str | int]:
    found: dict[str, str | int] = {
        "messaging.system": SYSTEM,
        "messaging.operation.name": operation,
        "messaging.operation.type": operation,
        "messaging.destination.name": destination,
    }
    if message_id is not None:
        found["messaging.message.id"] = message_id
    return found


def _of_context(context: SpanContext) -> Trace | None:
    """The trace of a span; ``None`` = there is no span."""
    if not context.is_valid:
        return None
    parent = f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags & 0xFF:02x}"
    return read_trace(parent, context.trace_state.to_header() if context.trace_state else None)


def _context_of(trace: Trace) -> SpanContext:
    _, trace_id, span_id, flags = trace.parent.split("-")
    return SpanContext(
        int(trace_id, 16),
        int(span_id, 16),
        is_remote=True,
        trace_flags=TraceFlags(int(flags, 16)),
        trace_state=TraceState.from_header([trace.state]) if trace.state else None,
    )
