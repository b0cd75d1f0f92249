"""Passes answers from the threads that make them to an event loop, those of one transaction together."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable

from mercury.engine.exchange import Answer

log = logging.getLogger("mercury.endpoint")


class AnswerQueue:
    """The answers on their way to one event loop.

    A wake-up of the loop costs more than an answer. So the loop is woken by the first answer only, and takes all that
    have come until it runs.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._mutex = threading.Lock()
        self._ready: list[tuple[Callable[[Answer], None], Answer]] = []

    def put(self, take: Callable[[Answer], None], answer: Answer) -> None:
        """Call ``take`` in the event loop, with the answer; if the loop is closed, not at all. Called in any thread."""
        with self._mutex:
            first = not self._ready
            self._ready.append((take, answer))
        # The loop may be closed when the process ends while an exchange is held.
        if first and not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self._pass_on)

    def _pass_on(self) -> None:
        with self._mutex:
            ready, self._ready = self._ready, []
        for take, answer in ready:
            try:
                take(answer)
            except Exception:
                log.exception("an answer could not be written; the peer sends its message again")
