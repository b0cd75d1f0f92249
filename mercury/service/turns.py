"""Work beside the event loop, shared between networks: one of them does not hold all threads."""

from __future__ import annotations

import asyncio
import contextvars
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


def half_of_the_threads() -> int:
    """Half of the threads that asyncio's default executor has."""
    return max(1, min(32, (os.cpu_count() or 1) + 4) // 2)


@dataclass(slots=True)
class _Network:
    free: asyncio.Semaphore
    #: Calls that run or wait.
    calls: int = 0


class Turns:
    """Calls functions in the threads of asyncio's default executor: those of one network in few threads at a time, in
    their order. Used in the event loop's thread only.

    :param most: the most calls of one network at a time.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        #: Networks that have calls, by name.
        self._networks: dict[str, _Network] = {}

    async def call(self, network: str, function: Callable[[], T]) -> T:
        """Call a function in a thread, when it is its turn. A cancelled call keeps its thread until the function
        returns.

        :param network: the network that the call counts for (`network_of`).
        """
        found = self._networks.get(network)
        if found is None:
            found = self._networks[network] = _Network(asyncio.Semaphore(self._most))
        found.calls += 1
        try:
            await found.free.acquire()
        except BaseException:
            self._end(network, found)
            raise
        running = asyncio.get_running_loop().run_in_executor(None, contextvars.copy_context().run, function)

        def ended(_: asyncio.Future[T]) -> None:
            found.free.release()
            self._end(network, found)

        running.add_done_callback(ended)
        return await asyncio.shield(running)

    def _end(self, network: str, found: _Network) -> None:
        found.calls -= 1
        if not found.calls:
            del self._networks[network]
