"""A ``with`` block that must end with an error."""

from __future__ import annotations

from contextlib import AbstractContextManager
from types import TracebackType
from typing import Generic, TypeVar

import pytest

T = TypeVar("T")


class ending(Generic[T]):  # noqa: N801 (reads as `with ending(...)`)
    """Enter ``context``; the test fails unless leaving it raises ``error``."""

    def __init__(self, context: AbstractContextManager[T], error: type[BaseException]) -> None:
        self._context = context
        self._error = error

    def __enter__(self) -> T:
        return self._context.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        try:
            swallowed = self._context.__exit__(kind, error, trace)
        except self._error:
            return True
        if error is not None and not swallowed:
            return isinstance(error, self._error)
        pytest.fail(f"the block did not end with {self._error.__name__}")
