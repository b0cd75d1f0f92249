"""Calls from an event loop: functions of the engine run in threads, and coroutines await them.

Nothing here blocks the event loop. Which thread runs what:

- A single `Sender.asend` or `Sender.arequest`: its transaction, from beginning to commit, in a thread of `Threads`.
- A transaction of Mercury (`Mercury.atransaction`): all its steps in a thread of this transaction only. If transactions
  shared threads, one that waits for a lock could keep the thread that its holder needs.
- A transaction of the application's ``AsyncSession``: in the event loop's thread, by the ``run_sync`` of the session,
  which awaits the asynchronous driver at every statement.

A thread cannot be interrupted. A cancelled await therefore requests a rollback, waits until the thread's work has
ended, and then raises ``CancelledError``: no work continues in the background.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import partial
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from mercury.client.current import CurrentTransaction, Entered
from mercury.errors import CapabilityError, StorageError
from mercury.storage.api import BeforeCommit, StorageManager
from mercury.storage.application import Outcome, Transaction
from mercury.storage.joining import AsyncWork

T = TypeVar("T")
P = ParamSpec("P")

#: The number of threads for single sends and requests; further calls wait for a thread.
AT_ONCE = 8


class _Cancelled(Exception):
    """Rolls back a transaction whose await was cancelled."""


async def result_of(called: Future[T], cancel: Callable[[], object] | None = None) -> T:
    """Await the result of a call in a thread.

    If the await is cancelled, it still waits for the end of the call, and then raises ``CancelledError``.

    :param cancel: called in the event loop when the await is cancelled, to shorten the call; then a call that has not
        begun is dropped. ``None`` = the call always runs to its end.
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
    """Wait for the end of a future, through any number of cancellations; its error is ignored."""
    while not waiting.done():
        try:
            await asyncio.wait((waiting,))
        except asyncio.CancelledError:
            continue  # `result_of` raises the first cancellation afterwards
    if not waiting.cancelled():
        waiting.exception()


class Threads:
    """The threads in which single calls of an event loop wait for the store. They start at their first use."""

    def __init__(self, at_once: int = AT_ONCE) -> None:
        self._executor = ThreadPoolExecutor(at_once, thread_name_prefix="mercury-async")
        self._mutex = threading.Lock()
        self._stopped = False

    async def call(self, function: Callable[[], T]) -> T:
        """Call a function in one of the threads.

        :raises StorageError: Mercury was stopped.
        """
        return await result_of(self._begin(function), lambda: None)

    async def in_transaction(
        self, store: StorageManager, before_commit: BeforeCommit, function: Callable[[Transaction], T]
    ) -> T:
        """Call a function in a new transaction, in one of the threads.

        A cancellation before the commit rolls back; a later one does not undo the commit.

        :param before_commit: as for `StorageManager.transaction`.
        :raises StorageError: the store failed, or Mercury was stopped.
        """
        # The function sees the context variables of its caller, for example the current span.
        cancelled, context = threading.Event(), contextvars.copy_context()

        def work() -> T:
            with store.transaction(before_commit) as tx:
                result = context.run(function, tx)
                if cancelled.is_set():
                    raise _Cancelled
            return result

        return await result_of(self._begin(work), cancelled.set)

    def stop(self) -> None:
        """Release the threads; calls that are running are finished."""
        with self._mutex:
            self._stopped = True
        self._executor.shutdown(wait=True)

    def _begin(self, function: Callable[[], T]) -> Future[T]:
        with self._mutex:
            if self._stopped:
                raise StorageError("the store is closed")
            return self._executor.submit(function)


class _Place(Protocol):
    """The thread in which the steps of a transaction run."""

    async def run(self, function: Callable[[], T]) -> T: ...

    def close(self) -> None: ...


class _OwnThread:
    """One thread for one transaction."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="mercury-atransaction")

    async def run(self, function: Callable[[], T]) -> T:
        return await result_of(self._executor.submit(contextvars.copy_context().run, function))

    def close(self) -> None:
        self._executor.shutdown(wait=False)


class _InSession:
    """The event loop's thread, where a session of the application awaits its driver."""

    def __init__(self, work: AsyncWork) -> None:
        self._work = work

    async def run(self, function: Callable[[], T]) -> T:
        return await self._work.run_sync(lambda _sync: function())

    def close(self) -> None:
        """No effect: the thread is the application's."""


class AsyncTransaction:
    """One unit of work of an asynchronous application; made by `Mercury.atransaction`. Not for two tasks at once.

    It commits when its ``async with`` block is left normally and rolls back when it is left with an exception, a
    cancellation included. A cancellation that arrives while the commit is made does not undo it: `outcome` says so.
    """

    def __init__(
        self, begin: Callable[[], AbstractContextManager[Transaction]], place: _Place, current: CurrentTransaction
    ) -> None:
        self._begin = begin
        self._place = place
        self._current = current
        self._entered: Entered | None = None
        self._manager: AbstractContextManager[Transaction] | None = None
        self._tx: Transaction | None = None
        self._ended = False

    @property
    def outcome(self) -> Outcome:
        """How it ended. Read it after the block; of a joined transaction, which the application ends, it stays open."""
        return self._tx.outcome if self._tx is not None else Outcome()

    async def run_sync(
        self, function: Callable[Concatenate[Transaction, P], T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Call an ordinary function within the transaction: ``await tx.run_sync(save, order)``.

        The function may use ``tx.connection()`` and ``tx.session()``, and does not block the event loop. A cancelled
        await ends when the function has ended.

        :param function: called with the `Transaction` and then the other arguments.
        :raises StorageError: the call is outside the block.
        """
        tx = self._tx
        if tx is None or self._ended:
            raise StorageError("the transaction is open only within its 'async with' block")
        return await self._place.run(partial(self._current.within, tx, lambda: function(tx, *args, **kwargs)))

    async def __aenter__(self) -> AsyncTransaction:
        if self._manager is not None:
            raise StorageError("the transaction has ended, or is open already: make a new one")
        try:
            await self._place.run(self._enter)
        except BaseException:
            await self._leave(StorageError("not entered"))
            raise
        self._entered = self._current.enter(self)
        return self

    def _enter(self) -> None:
        manager = self._begin()
        self._tx = manager.__enter__()
        self._manager = manager

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._entered is not None:
            self._current.leave(*self._entered)
        if error is None:
            try:
                await asyncio.sleep(0)  # let a pending cancellation arrive before the commit
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
            if self._tx is not None:
                self._current.ended(self._tx)


def begin(
    store: StorageManager, work: AsyncWork | None, current: CurrentTransaction, before_commit: BeforeCommit
) -> AsyncTransaction:
    """A transaction for an event loop: a new one, or one that joins the application's.

    :param before_commit: of a new one, as for `StorageManager.transaction`.
    :param current: records which tasks are in the block of the transaction.
    :raises CapabilityError: ``work`` is not an ``AsyncSession`` or ``AsyncConnection``; nothing was written.
    """
    if work is None:
        return AsyncTransaction(partial(store.transaction, before_commit), _OwnThread(), current)
    if not hasattr(work, "run_sync"):
        raise CapabilityError(
            f"a SQLAlchemy AsyncSession or AsyncConnection can be joined, not {type(work).__name__}; an ordinary "
            "Session is joined by mercury.transaction(session)"
        )
    return AsyncTransaction(partial(store.join, work), _InSession(work), current)
