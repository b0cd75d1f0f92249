"""Sending from an event loop: which calls commit, which thread runs them, and that they do not block the loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mercury import ApplicationFault, Mercury, MercuryError, Overloaded, StorageError, Transaction
from mercury.engine.settings import EngineSettings
from mercury.errors import CapabilityError
from mercury.storage.application import Ending

from .loops import INSERT, URL, Shelf, client, connection, place, run, sent, session, turns, until
from .shop import LOCAL, Order, Placed, Shop, settings


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


# --- messages and requests -------------------------------------------------------------------------------------------


def test_messages_arrive_in_their_order_and_requests_are_answered(any_url: str) -> None:
    shop = Shop()
    with shop.open() as (_, url), Mercury(any_url, settings=settings()) as mercury:
        sender = mercury.to(url)

        async def main() -> Placed:
            for number in (1, 2):
                await sender.asend(Order(number), operation="put", correlation=str(number))
            async with mercury.atransaction() as tx:
                await sender.asend(Order(3), operation="put", tx=tx)
                await sender.asend(Order(4), operation="put", tx=tx)
            with pytest.raises(ApplicationFault, match="no such orders"):
                await sender.arequest(Order(-1), operation="ask", response=Placed, timeout=30)
            return await sender.arequest(Order(5), operation="ask", response=Placed, timeout=30)

        assert run(main) == Placed(5)
    assert shop.orders == [1, 2, 3, 4, 5]


def test_many_tasks_send_at_once_and_nothing_is_lost(any_url: str) -> None:
    with client(any_url) as (mercury, sender):

        async def main() -> None:
            receipts = await asyncio.gather(*(sender.asend(Order(each), operation="put") for each in range(40)))
            assert len({receipt.message_id for receipt in receipts}) == 40

        run(main)
        assert sent(mercury, sender) == 40


def test_an_ordinary_with_block_may_be_an_asynchronous_one() -> None:
    shop = Shop()

    async def main() -> None:
        with shop.open() as (_, url):
            async with Mercury("memory:", settings=settings()) as mercury:
                await mercury.to(url).arequest(Order(1), operation="ask", response=Placed, timeout=30)
        with pytest.raises(StorageError, match="closed"):
            await mercury.to(URL).asend(Order(2), operation="put")

    run(main)


def test_errors_are_those_of_the_ordinary_calls() -> None:
    few = settings(engine=EngineSettings(addresses=LOCAL, max_outbound_backlog=1))
    mercury = Mercury("memory:", settings=few)
    sender = mercury.to(URL)

    async def main() -> None:
        with pytest.raises(MercuryError, match="operation or an action"):
            await sender.asend(b"<a/>")
        await sender.asend(Order(1), operation="put")
        with pytest.raises(Overloaded):
            await sender.asend(Order(2), operation="put")

    run(main)
    mercury.stop()


def test_a_request_whose_time_is_over_says_how_far_it_has_come_and_is_sent_on() -> None:
    with Mercury("memory:", settings=settings()) as mercury:
        sender = mercury.to(URL)

        async def main() -> None:
            with pytest.raises(TimeoutError, match=r"no response to \S+ within 0\.2 s: .*refused"):
                await sender.asend(Order(1), operation="put")
                await until(lambda: sender.last_error is not None)
                await sender.arequest(Order(2), operation="ask", timeout=0.2)

        run(main)
        assert sent(mercury, sender) == 2
        assert mercury.futures._expected == {}


def test_where_nothing_runs_no_response_is_waited_for() -> None:
    with client("memory:") as (_, sender):

        async def main() -> None:
            with pytest.raises(MercuryError, match="not started"):
                await sender.arequest(Order(1), operation="ask")

        run(main)


# --- one transaction -------------------------------------------------------------------------------------------------


def test_work_in_the_block_commits_with_it_or_not_at_all(shelf: Shelf) -> None:
    async def main() -> None:
        async with shelf.mercury.atransaction() as tx:
            await tx.run_sync(place, shelf.sender, 1)
            await shelf.sender.asend(Order(2), operation="put", correlation="2", tx=tx)
            assert tx.outcome.ending is Ending.OPEN
        assert tx.outcome.ending is Ending.COMMITTED
        with pytest.raises(LookupError):
            async with shelf.mercury.atransaction() as tx:
                await tx.run_sync(place, shelf.sender, 3)
                raise LookupError
        assert tx.outcome.ending is Ending.ROLLED_BACK
        with pytest.raises(Exception, match=r"(?i)unique"):
            async with shelf.mercury.atransaction() as tx:
                await tx.run_sync(place, shelf.sender, number=4)
                await tx.run_sync(place, shelf.sender, number=1)

    run(main)
    assert shelf.both() == ([1], [1, 2])


def test_a_request_within_a_transaction_is_answered_after_it(any_url: str) -> None:
    shop = Shop()
    with shop.open() as (_, url), Mercury(any_url, settings=settings()) as mercury:
        sender = mercury.to(url)

        async def main() -> object:
            async with mercury.atransaction() as tx:
                future = await tx.run_sync(lambda tx: sender.request(Order(1), operation="ask", response=Placed, tx=tx))
            async with asyncio.timeout(30):
                return await asyncio.wrap_future(future)

        assert run(main) == Placed(1)


def test_all_of_a_transaction_runs_in_one_thread_that_is_not_the_loops(any_url: str) -> None:
    seen: list[int] = []

    def look(tx: Transaction) -> None:
        seen.append(threading.get_ident())
        tx.after_commit(lambda: seen.append(threading.get_ident()))

    with client(any_url) as (mercury, _):

        async def main() -> None:
            async with mercury.atransaction() as tx:
                await tx.run_sync(look)
                await tx.run_sync(look)

        run(main)
    assert (len(seen), len(set(seen))) == (4, 1)
    assert threading.get_ident() not in seen


def test_a_transaction_is_used_only_within_its_block() -> None:
    with client("memory:") as (mercury, sender):

        async def main() -> None:
            tx = mercury.atransaction()
            with pytest.raises(StorageError, match="within its 'async with' block"):
                await sender.asend(Order(1), operation="put", tx=tx)
            async with tx:
                pass
            with pytest.raises(StorageError, match="within its 'async with' block"):
                await sender.asend(Order(1), operation="put", tx=tx)
            with pytest.raises(StorageError, match="make a new one"):
                await tx.__aenter__()

        run(main)
        assert sent(mercury, sender) == 0


def test_the_loop_goes_on_while_a_writer_waits_for_another(tmp_path: Path) -> None:
    """More transactions and sends wait for the lock than there are threads for single sends."""
    file = tmp_path / "store.db"
    with client(f"sqlite:///{file}") as (mercury, sender):

        async def main() -> None:
            async with mercury.atransaction() as tx:
                await sender.asend(Order(0), operation="put", tx=tx)  # holds the lock of the file
                await tx.run_sync(lambda tx: tx.connection())
                waiting = [asyncio.create_task(sender.asend(Order(each), operation="put")) for each in range(12)]

                async def another() -> None:
                    async with mercury.atransaction() as other:
                        await sender.asend(Order(20), operation="put", tx=other)

                waiting += [asyncio.create_task(another()) for _ in range(3)]  # type: ignore[arg-type]
                await turns()
                assert not any(task.done() for task in waiting)
                await sender.asend(Order(1), operation="put", tx=tx)  # this one has a thread
            await asyncio.gather(*waiting)

        run(main)
        assert sent(mercury, sender) == 17


# --- a transaction of the application's ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [session, connection])
def test_the_commit_of_an_asynchronous_session_commits_both(postgres_shelf: Shelf, kind: Any) -> None:
    pytest.importorskip("greenlet", reason="asynchronous sessions of SQLAlchemy need greenlet")
    shelf, seen = postgres_shelf, set()

    def look(tx: Transaction) -> None:
        seen.add(threading.get_ident())
        place(tx, shelf.sender, 2)

    async def main() -> None:
        async with kind(shelf) as work:
            await work.execute(INSERT, {"number": 1})
            async with shelf.mercury.atransaction(work) as tx:
                await shelf.sender.asend(Order(1), operation="put", correlation="1", tx=tx)
                await tx.run_sync(look)
            assert shelf.both() == ([], [])  # leaving the block commits nothing
            await work.commit()
            assert shelf.both() == ([1, 2], [1, 2])
            async with shelf.mercury.atransaction(work) as tx:
                await tx.run_sync(place, shelf.sender, 3)
            await work.rollback()

    run(main)
    assert shelf.both() == ([1, 2], [1, 2])
    assert seen == {threading.get_ident()}


def test_an_asynchronous_session_of_another_database_is_refused(
    postgres_shelf: Shelf, postgres_database: Callable[[], str]
) -> None:
    pytest.importorskip("greenlet", reason="asynchronous sessions of SQLAlchemy need greenlet")
    other = Shelf(postgres_database())

    async def main() -> None:
        async with session(other) as work:
            with pytest.raises(CapabilityError, match="another database"):
                async with postgres_shelf.mercury.atransaction(work):
                    pass

    run(main)
    other.close()


def test_an_ordinary_session_gets_an_error_that_names_its_database() -> None:
    work: Any = object()
    with client("memory:") as (mercury, _), pytest.raises(CapabilityError, match=r"mercury\.transaction\(session\)"):
        mercury.atransaction(work)
