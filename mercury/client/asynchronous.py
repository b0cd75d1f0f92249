"""Calls from an event loop. The engine stays as it is: its functions run in threads, and a coroutine waits for them.

Nothing here blocks the event loop. What runs where:

- A single `Sender.asend` or `Sender.arequest`: its transaction, from beginning to commit, in a thread of `Threads`.
- A transaction of Mercury's (`Mercury.atransaction`): all its steps in one thread that belongs to it alone, so that
  transactions that wait for each other's locks never wait for each other's threads too.
- A transaction of the application's ``AsyncSession``: in the event loop's thread, by the ``run_sync`` of the session,
  which awaits its asynchronous driver at every statement.

A thread cannot be interrupted. So a cancelled await asks it to roll back, and waits until it has ended: after the
``CancelledError`` nothing goes on behind it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import partial
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from mercury.errors import CapabilityError, StorageError
from mercury.storage.api import StorageManager
from mercury.storage.application import Outcome, Transaction
from mercury.storage.joining import AsyncWork

T = TypeVar("T")
P = ParamSpec("P")

#: Single sends and requests that wait for the store at once; more wait for a thread.
AT_ONCE = 8


class _Cancelled(Exception):
    """Rolls a transaction back whose await was cancelled."""


async def result_of(called: Future[T], cancel: Callable[[], object] | None = None) -> T:
    """Wait for what a thread was given to do.

    When the await is cancelled, the end is waited for all the same, and then the cancellation goes on.

    :param cancel: called in the event loop when the await is cancelled, so that the end comes soon. Left out, what was
        given is always done to its end; else it is not begun any more.
    """
    waiting = asyncio.wrap_future(called)
    try:
        await asyncio.wait((waiting,))
    except asyncio.CancelledError:
        if cancel is not None:
            cancel()
            called.cancel()
        await _ended(waiting)
        raise
    return waiting.result()


async def _ended(waiting: asyncio.Future[Any]) -> None:
    """Wait for the end of a future, however often this is cancelled; its error is known then, and of no interest."""
    while not waiting.done():
        try:
            await asyncio.wait((waiting,))
        except asyncio.CancelledError:
            continue  # the first cancellation goes on afterwards
    if not waiting.cancelled():
        waiting.exception()


class Threads:
    """The threads in which single calls of an event loop wait for the store. They start when they are first needed."""

    def __init__(self, at_once: int = AT_ONCE) -> None:
        self._executor = ThreadPoolExecutor(at_once, thread_name_prefix="mercury-async")
        self._mutex = threading.Lock()
        self._stopped = False

    async def call(self, function: Callable[[], T]) -> T:
        """Call a function in one of the threads.

        :raises StorageError: Mercury was stopped.
        """
        return await result_of(self._begin(function), lambda: None)

    async def in_transaction(self, store: StorageManager, function: Callable[[Transaction], T]) -> T:
        """Call a function within a transaction of its own, in one of the threads.

        An await that is cancelled before the commit rolls it back; one that is cancelled later does not undo it.

        :raises StorageError: the store failed, or Mercury was stopped.
        """
        cancelled = threading.Event()

        def work() -> T:
            with store.transaction() as tx:
                result = function(tx)
                if cancelled.is_set():
                    raise _Cancelled
            return result

        return await result_of(self._begin(work), cancelled.set)

    def stop(self) -> None:
        """Let go of the threads. What is being done in them is finished."""
        with self._mutex:
            self._stopped = True
        self._executor.shutdown(wait=True)

    def _begin(self, function: Callable[[], T]) -> Future[T]:
        with self._mutex:
            if self._stopped:
                raise StorageError("the store is closed")
            return self._executor.submit(function)


class _Place(Protocol):
    """Where the steps of a transaction run."""

    async def run(self, function: Callable[[], T]) -> T: ...

    def close(self) -> None: ...


class _OwnThread:
    """One thread for one transaction."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="mercury-atransaction")

    async def run(self, function: Callable[[], T]) -> T:
        return await result_of(self._executor.submit(function))

    def close(self) -> None:
        self._executor.shutdown(wait=False)


class _InSession:
    """The event loop's thread, where a session of the application's awaits its driver."""

    def __init__(self, work: AsyncWork) -> None:
        self._work = work

    async def run(self, function: Callable[[], T]) -> T:
        return await self._work.run_sync(lambda _sync: function())

    def close(self) -> None:
        """It is the application's."""


class AsyncTransaction:
    """One unit of work of an asynchronous application; made by `Mercury.atransaction`. Not for two tasks at once.

    It commits when its ``async with`` block is left normally and rolls back when it is left with an exception, a
    cancellation included. A cancellation that arrives while the commit is made does not undo it: `outcome` says so.
    """

    def __init__(self, begin: Callable[[], AbstractContextManager[Transaction]], place: _Place) -> None:
        self._begin = begin
        self._place = place
        self._manager: AbstractContextManager[Transaction] | None = None
        self._tx: Transaction | None = None
        self._ended = False

    @property
    def outcome(self) -> Outcome:
        """How it ended; to be asked after the block. Of one that the application has begun it stays open."""
        return self._tx.outcome if self._tx is not None else Outcome()

    async def run_sync(
        self, function: Callable[Concatenate[Transaction, P], T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Call an ordinary function within the transaction: ``await tx.run_sync(save, order)``.

        It may use ``tx.connection()`` and ``tx.session()``, and blocks no event loop. An await that is cancelled ends
        when the function has ended.

        :param function: is called with the `Transaction`, then with the other arguments.
        :raises StorageError: the block is left, or was not entered.
        """
        tx = self._tx
        if tx is None or self._ended:
            raise StorageError("the transaction is open only within its 'async with' block")
        return await self._place.run(lambda: function(tx, *args, **kwargs))

    async def __aenter__(self) -> AsyncTransaction:
        if self._manager is not None:
            raise StorageError("the transaction is over, or open already: make a new one")
        try:
            await self._place.run(self._enter)
        except BaseException:
            await self._leave(StorageError("not entered"))
            raise
        return self

    def _enter(self) -> None:
        manager = self._begin()
        self._tx = manager.__enter__()
        self._manager = manager

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            try:
                await asyncio.sleep(0)  # a cancellation that has not arrived yet comes before the commit
            except asyncio.CancelledError as cancelled:
                await self._leave(cancelled)
                raise
        await self._leave(error)

    async def _leave(self, error: BaseException | None) -> None:
        manager, self._ended = self._manager, True
        try:
            if manager is not None:
                kind = type(error) if error is not None else None
                trace = error.__traceback__ if error is not None else None
                await self._place.run(partial(manager.__exit__, kind, error, trace))
        finally:
            self._place.close()


def begin(store: StorageManager, work: AsyncWork | None) -> AsyncTransaction:
    """A transaction for an event loop: a new one, or the one that the application has begun.

    :raises CapabilityError: ``work`` is no ``AsyncSession`` or ``AsyncConnection``; nothing was written.
    """
    if work is None:
        return AsyncTransaction(store.transaction, _OwnThread())
    if not hasattr(work, "run_sync"):
        raise CapabilityError(
            f"a SQLAlchemy AsyncSession or AsyncConnection can be joined, not {type(work).__name__}; an ordinary "
            "Session is joined by mercury.transaction(session)"
        )
    return AsyncTransaction(partial(store.join, work), _InSession(work))
