"""Store queries with a timeout: the database driver blocks, so each query runs in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

T = TypeVar("T")


class StoreQuery(Generic[T]):
    """A query that may block forever. One thread at a time runs it; all callers that wait share its result.

    The thread is a daemon outside of any pool: it takes no thread from other requests, and the process can end while
    the query runs.

    :param query: returns the result or raises; all waiting callers get the result or the exception.
    :param timeout: the longest time, in seconds, that one caller waits.
    """

    def __init__(self, name: str, query: Callable[[], T], timeout: float) -> None:
        self._name = name
        self._query = query
        self._timeout = timeout
        self._mutex = threading.Lock()
        self._open: Future[T] | None = None

    async def answer(self) -> T:
        """The result of the query that runs already, or else of a new one.

        :raises TimeoutError: the timeout has passed; the query continues.
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
