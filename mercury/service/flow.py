"""Replacements for uvicorn's flow control and for the transport that its requests write to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sized

from uvicorn.protocols.http.flow_control import FlowControl


class Flow(FlowControl):
    """Pauses reading while a complete request waits until the one before it is answered.

    :param waiting: the complete requests that wait.
    """

    def __init__(self, transport: asyncio.Transport, waiting: Sized) -> None:
        super().__init__(transport)
        self._waiting = waiting

    def resume_reading(self) -> None:
        if not self._waiting:
            super().resume_reading()


class AnswerTransport:
    """The transport that a request writes its answer to. Its `close` lets the peer read the answer first."""

    __slots__ = ("close", "is_closing", "write")

    def __init__(self, transport: asyncio.Transport, hang_up: Callable[[], None]) -> None:
        self.write = transport.write
        self.is_closing = transport.is_closing
        self.close = hang_up
