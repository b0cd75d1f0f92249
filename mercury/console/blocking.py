"""Calls that block, from the event loop: each in a thread of its own, a bounded number at once."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")

#: Calls that run at once.
MOST = 4


class BlockingCalls:
    """Runs calls that block in daemon threads.

    A store that does not answer takes no thread of the server's pool, and the process can end meanwhile.

    :param timeout: the longest time, in seconds, that a caller waits, for its turn and for its result.
    """

    def __init__(self, timeout: float, most: int = MOST) -> None:
        self._timeout = timeout
        self._turns = asyncio.Semaphore(most)

    async def run(self, call: Callable[[], T]) -> T:
        """The result of a call.

        :raises TimeoutError: the timeout has passed. A call that has begun continues, and keeps its turn.
        """
        async with asyncio.timeout(self._timeout):
            await self._turns.acquire()
            answer: Future[T] = Future()
            answer.set_running_or_notify_cancel()  # a caller that gives up does not cancel it
            loop = asyncio.get_running_loop()
            threading.Thread(target=self._run, args=(call, answer, loop), name="mercury-console", daemon=True).start()
            return await asyncio.wrap_future(answer)

    def _run(self, call: Callable[[], T], answer: Future[T], loop: asyncio.AbstractEventLoop) -> None:
        try:
            found = call()
        except BaseException as error:
            answer.set_exception(error)
        else:
            answer.set_result(found)
        finally:
            with contextlib.suppress(RuntimeError):  # the server has ended
                loop.call_soon_threadsafe(self._turns.release)
