"""Calls beside the event loop: one network holds few threads, and each call has its turn."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress

from mercury.service.turns import Turns
from tests.patience import patience

PATIENCE = patience(30.0)


class Gate:
    """Calls that wait in their threads until they are let go."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self._go = threading.Semaphore(0)

    def call(self, name: str) -> Callable[[], str]:
        def wait() -> str:
            self.begun.append(name)
            assert self._go.acquire(timeout=PATIENCE)
            return name

        return wait

    def let_go(self, count: int) -> None:
        self._go.release(count)

    async def until(self, count: int) -> None:
        async with asyncio.timeout(PATIENCE):
            while len(self.begun) < count:
                await asyncio.sleep(0)


def test_network_with_many_calls_leaves_threads_to_the_others() -> None:
    async def scenario() -> None:
        gate, turns = Gate(), Turns(2)
        calls = [asyncio.create_task(turns.call("flood", gate.call(f"flood {n}"))) for n in range(5)]
        await gate.until(2)
        other = asyncio.create_task(turns.call("other", gate.call("other")))
        await gate.until(3)
        assert gate.begun == ["flood 0", "flood 1", "other"]
        gate.let_go(6)
        assert await other == "other"
        assert await asyncio.gather(*calls) == [f"flood {n}" for n in range(5)]

    asyncio.run(scenario())


def test_cancelled_call_keeps_its_thread_until_it_ends_and_one_that_waits_gives_up_its_turn() -> None:
    async def scenario() -> None:
        gate, turns = Gate(), Turns(1)
        running = asyncio.create_task(turns.call("n", gate.call("running")))
        await gate.until(1)
        waiting = asyncio.create_task(turns.call("n", gate.call("waiting")))
        last = asyncio.create_task(turns.call("n", gate.call("last")))
        await asyncio.sleep(0)
        for task in (running, waiting):
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        await asyncio.sleep(0)
        assert gate.begun == ["running"]
        gate.let_go(2)
        assert await last == "last"
        assert gate.begun == ["running", "last"]

    asyncio.run(scenario())


def test_error_of_a_call_is_raised_and_its_turn_ends() -> None:
    def fails() -> str:
        raise KeyError("unforeseen")

    async def scenario() -> None:
        turns = Turns(1)
        for _ in range(3):
            with suppress(KeyError):
                await turns.call("n", fails)
        assert await turns.call("n", lambda: "done") == "done"

    asyncio.run(scenario())
