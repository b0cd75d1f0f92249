"""A cancelled await: before the commit the work is rolled back, after it nothing is undone, and no thread is left."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from mercury import Transaction
from mercury.engine.ids import RandomIds
from mercury.storage.api import Topic
from mercury.storage.application import Ending

from .loops import Shelf, client, place, run, sent, session, turns, until
from .shop import Order


class SlowIds(RandomIds):
    """The sender's thread stops at the next identifier until it is let go: it is in its transaction then."""

    def __init__(self) -> None:
        super().__init__()
        self.slow = False
        self.reached = threading.Event()
        self.go_on = threading.Event()

    def new(self) -> str:
        if self.slow:
            self.reached.set()
            assert self.go_on.wait(30)
        return super().new()


@pytest.fixture
def shelf(sql_url: str) -> Iterator[Shelf]:
    made = Shelf(sql_url)
    yield made
    made.close()


@pytest.fixture
def postgres_shelf(postgres_url: str) -> Iterator[Shelf]:
    made = Shelf(postgres_url)
    yield made
    made.close()


# --- cancellation ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how_often", [1, 3])
def test_a_send_that_is_cancelled_before_its_commit_is_not_sent(any_url: str, how_often: int) -> None:
    ids = SlowIds()
    with client(any_url, ids=ids) as (mercury, sender):

        async def main() -> None:
            ids.slow = True
            task = asyncio.create_task(sender.asend(Order(1), operation="put"))
            await until(ids.reached.is_set)
            for _ in range(how_often):
                task.cancel()
                await turns()
                assert not task.done()  # its thread is not left alone
            ids.go_on.set()
            with pytest.raises(asyncio.CancelledError):
                await task

        run(main)
        assert sent(mercury, sender) == 0


def test_a_request_that_is_cancelled_before_its_commit_is_not_sent_and_not_waited_for(any_url: str) -> None:
    ids = SlowIds()
    with client(any_url, ids=ids) as (mercury, sender):

        async def main() -> None:
            ids.slow = True
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    waits = asyncio.create_task(until(ids.reached.is_set))
                    waits.add_done_callback(lambda _: asyncio.get_running_loop().call_later(0.1, ids.go_on.set))
                    await sender.arequest(Order(1), operation="ask")

        run(main)
        assert sent(mercury, sender) == 0
        assert mercury.futures._expected == {}


def test_a_send_that_is_cancelled_after_its_commit_is_sent(any_url: str) -> None:
    with client(any_url) as (mercury, sender):
        committed, go_on = threading.Event(), threading.Event()

        def told(_topics: frozenset[Topic]) -> None:
            committed.set()
            assert go_on.wait(30)

        mercury.store.listen(told)

        async def main() -> None:
            task = asyncio.create_task(sender.asend(Order(1), operation="put"))
            await until(committed.is_set)
            task.cancel()
            await turns()
            go_on.set()
            with pytest.raises(asyncio.CancelledError):
                await task

        run(main)
        assert sent(mercury, sender) == 1


def test_a_send_that_waits_for_a_thread_and_is_cancelled_is_never_begun() -> None:
    ids = SlowIds()
    with client("memory:", ids=ids) as (mercury, sender):

        async def main() -> None:
            ids.slow = True
            tasks = [asyncio.create_task(sender.asend(Order(each), operation="put")) for each in range(9)]
            await until(ids.reached.is_set)
            await turns()
            tasks[-1].cancel()
            with pytest.raises(asyncio.CancelledError):
                await tasks[-1]  # it ends while all threads are still at work
            ids.slow = False
            ids.go_on.set()
            await asyncio.gather(*tasks[:-1])

        run(main)
        assert sent(mercury, sender) == 8


def test_a_block_that_is_cancelled_is_rolled_back(shelf: Shelf) -> None:
    async def main() -> None:
        reached = asyncio.Event()

        async def work() -> None:
            async with shelf.mercury.atransaction() as tx:
                await tx.run_sync(place, shelf.sender, 1)
                reached.set()
                await asyncio.sleep(60)

        task = asyncio.create_task(work())
        await reached.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert shelf.both() == ([], [])

    run(main)


def test_a_step_that_is_cancelled_ends_before_its_transaction_is_rolled_back(shelf: Shelf) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def step(tx: Transaction) -> None:
        begun.set()
        assert go_on.wait(30)
        place(tx, shelf.sender, 1)

    async def main() -> None:
        async def work() -> None:
            async with shelf.mercury.atransaction() as tx:
                await tx.run_sync(step)

        task = asyncio.create_task(work())
        await until(begun.is_set)
        task.cancel()
        await turns()
        assert not task.done()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(main)
    assert shelf.both() == ([], [])


def test_a_cancellation_that_has_not_arrived_when_the_block_ends_comes_before_the_commit(shelf: Shelf) -> None:
    async def main() -> None:
        async def work() -> None:
            async with shelf.mercury.atransaction() as tx:
                await tx.run_sync(place, shelf.sender, 1)
                task.cancel()

        task = asyncio.create_task(work())
        with pytest.raises(asyncio.CancelledError):
            await task

    run(main)
    assert shelf.both() == ([], [])


def test_a_cancellation_while_the_commit_is_made_does_not_undo_it_and_the_outcome_says_so(shelf: Shelf) -> None:
    committed, go_on = threading.Event(), threading.Event()

    def pause() -> None:
        committed.set()
        assert go_on.wait(30)

    async def main() -> None:
        transaction = shelf.mercury.atransaction()

        async def work() -> None:
            async with transaction as tx:
                await tx.run_sync(place, shelf.sender, 1)
                await tx.run_sync(lambda tx: tx.after_commit(pause))

        task = asyncio.create_task(work())
        await until(committed.is_set)
        task.cancel()
        await turns()
        assert not task.done()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert transaction.outcome.ending is Ending.COMMITTED

    run(main)
    assert shelf.both() == ([1], [1])


def test_a_block_whose_time_is_over_while_another_holds_the_lock_keeps_nothing(tmp_path: Path) -> None:
    file = tmp_path / "store.db"
    shelf = Shelf(f"sqlite:///{file}")
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("begin immediate")

    async def main() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                asyncio.get_running_loop().call_later(0.3, other.execute, "rollback")
                async with shelf.mercury.atransaction() as tx:
                    await tx.run_sync(place, shelf.sender, 1)

    run(main)
    other.close()
    assert shelf.both() == ([], [])
    shelf.close()


def test_a_cancelled_task_leaves_the_end_to_the_session(postgres_shelf: Shelf) -> None:
    pytest.importorskip("greenlet", reason="asynchronous sessions of SQLAlchemy need greenlet")
    shelf = postgres_shelf

    async def main() -> None:
        reached = asyncio.Event()

        async def work() -> None:
            async with session(shelf) as mine, mine.begin(), shelf.mercury.atransaction(mine) as tx:
                await tx.run_sync(place, shelf.sender, 1)
                reached.set()
                await asyncio.sleep(60)

        task = asyncio.create_task(work())
        await reached.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(main)
    assert shelf.both() == ([], [])
