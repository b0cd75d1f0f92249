"""What stands between uvicorn's requests and the transport of their connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sized

from uvicorn.protocols.http.flow_control import FlowControl


class Flow(FlowControl):
    """Nothing is read while a whole request waits for the answer to the one before it.

    :param waiting: the requests that wait.
    """

    def __init__(self, transport: asyncio.Transport, waiting: Sized) -> None:
        super().__init__(transport)
        self._waiting = waiting

    def resume_reading(self) -> None:
        if not self._waiting:
            super().resume_reading()


class Outlet:
    """Where a cycle writes its answer: the transport, except that closing lets the peer read the answer."""

    __slots__ = ("close", "is_closing", "write")

    def __init__(self, transport: asyncio.Transport, hang_up: Callable[[], None]) -> None:
        self.write = transport.write
        self.is_closing = transport.is_closing
        self.close = hang_up
