"""What the engine needs of tracing: a span around the calls of the application."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from mercury.statemachine.trace import Trace
from mercury.storage.records import InboundMessage


class Tracing(Protocol):
    """Makes spans. Thread-safe; must not block and must not raise.

    Where a process does not trace there is ``None`` instead.
    """

    def processing(
        self, service: str | None, messages: Sequence[InboundMessage], attempt: int
    ) -> AbstractContextManager[Trace | None]:
        """A span around one call of a handler or callback; it is the current one within the block.

        :param service: ``None`` = a callback is called.
        :param messages: one, whose span is the parent; or several, whose spans are linked.
        :param attempt: the number of the attempt, from 1.
        :returns: the span, for messages that are sent because of these; ``None`` = there is none. An exception that
            leaves the block is the error of the span.
        """


def processing(
    tracing: Tracing | None, service: str | None, messages: Sequence[InboundMessage], attempt: int
) -> AbstractContextManager[Trace | None]:
    """`Tracing.processing`, or no span where the process does not trace."""
    return nullcontext() if tracing is None else tracing.processing(service, messages, attempt)
