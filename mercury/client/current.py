"""The transaction whose ``with`` block encloses a call, for calls that have no parameter ``tx``."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass
from types import TracebackType
from typing import TypeAlias, TypeVar

from mercury.errors import ConfigurationError
from mercury.storage.application import Transaction

T = TypeVar("T")


@dataclass(slots=True)
class _Open:
    tx: object
    #: The thread that the transaction belongs to.
    thread: int
    ended: bool = False


#: A block, and the one around it.
Entered: TypeAlias = tuple[_Open, _Open | None]


class CurrentTransaction:
    """The current transactions of one Mercury, for each thread and each task.

    A task or thread that was started with a copy of a context is in the same block, until the block is left.

    :param ended: called with each transaction of a block when it has ended; must not raise.
    """

    def __init__(self, ended: Callable[[Transaction], object] = lambda _tx: None) -> None:
        self.ended = ended
        self._innermost: ContextVar[_Open | None] = ContextVar("mercury-transaction", default=None)

    def find(self) -> object | None:
        """The `Transaction` or `AsyncTransaction` of the innermost block; ``None`` = the caller is in no block.

        :raises ConfigurationError: the transaction belongs to another thread, which entered the block.
        """
        found = self._innermost.get()
        if found is None or found.ended:
            return None
        if found.thread != threading.get_ident():
            raise ConfigurationError(
                "the transaction whose block this is in belongs to another thread: call within that thread, or with "
                "AsyncTransaction.run_sync"
            )
        return found.tx

    def inside(self, tx: object) -> AbstractContextManager[None]:
        """Make a transaction the current one within this block."""
        return _Inside(self, tx)

    def block(self, manager: AbstractContextManager[Transaction]) -> AbstractContextManager[Transaction]:
        """Wrap a transaction so that it is the current one within its block."""
        return _Block(self, manager)

    def within(self, tx: Transaction, function: Callable[[], T]) -> T:
        """Call a function with a transaction as the current one."""
        with self.inside(tx):
            return function()

    def enter(self, tx: object) -> Entered:
        """Make a transaction the current one; returns the arguments of `leave`."""
        before, opened = self._innermost.get(), _Open(tx, threading.get_ident())
        self._innermost.set(opened)
        return opened, before

    def leave(self, opened: _Open, before: _Open | None) -> None:
        """Leave a block."""
        # No token of the ContextVar is used: a block may be left in another context than it was entered in, for example
        # by FastAPI's dependencies, and a token is valid in one context only. `ended` holds in every context.
        opened.ended = True
        if self._innermost.get() is opened:
            self._innermost.set(before)


class _Inside(AbstractContextManager[None]):
    """A block within a transaction. There is one around each call of a handler, and a generator costs twice as much."""

    __slots__ = ("_current", "_opened", "_tx")

    def __init__(self, current: CurrentTransaction, tx: object) -> None:
        self._current, self._tx = current, tx

    def __enter__(self) -> None:
        self._opened = self._current.enter(self._tx)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._current.leave(*self._opened)


class _Block(AbstractContextManager[Transaction]):
    def __init__(self, current: CurrentTransaction, manager: AbstractContextManager[Transaction]) -> None:
        self._current = current
        self._manager = manager
        self._opened: Entered | None = None

    def __enter__(self) -> Transaction:
        self._tx = self._manager.__enter__()
        self._opened = self._current.enter(self._tx)
        return self._tx

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        if self._opened is not None:
            self._current.leave(*self._opened)  # before the commit: its hooks run outside of the transaction
        try:
            return self._manager.__exit__(kind, error, trace)
        finally:
            self._current.ended(self._tx)
