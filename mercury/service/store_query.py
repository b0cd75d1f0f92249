"""Questions that may never be answered: the store is asked in the thread of a blocking driver."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

T = TypeVar("T")


class StoreQuery(Generic[T]):
    """What is asked of something that may block for ever: by one thread at a time, however many want to know.

    The thread is a daemon and none of a pool: it takes no thread from other requests, and the process can end while
    the question is open.

    :param query: returns the answer, or raises; both are for everybody who waits for it.
    :param timeout: seconds that somebody waits at most.
    """

    def __init__(self, name: str, query: Callable[[], T], timeout: float) -> None:
        self._name = name
        self._query = query
        self._timeout = timeout
        self._mutex = threading.Lock()
        self._open: Future[T] | None = None

    async def answer(self) -> T:
        """The answer to the question that is open already, or else to a new one.

        :raises TimeoutError: it does not come in time; the question stays open.
        """
        answered = asyncio.wrap_future(self._pending())
        async with asyncio.timeout(self._timeout):
            return await answered

    def _pending(self) -> Future[T]:
        with self._mutex:
            if self._open is not None:
                return self._open
            answer: Future[T] = Future()
            self._open = answer
            answer.set_running_or_notify_cancel()  # a caller that gives up does not cancel it for the others
            threading.Thread(target=self._run, args=(answer,), name=self._name, daemon=True).start()
            return answer

    def _run(self, answer: Future[T]) -> None:
        try:
            found = self._query()
        except BaseException as error:
            self._close()
            answer.set_exception(error)
        else:
            self._close()
            answer.set_result(found)

    def _close(self) -> None:
        with self._mutex:
            self._open = None
