"""The transaction whose block the calling code is in."""

from __future__ import annotations

import contextvars
import threading
from contextlib import nullcontext
from typing import Any

import pytest

from mercury.client.current import CurrentTransaction
from mercury.errors import ConfigurationError

FIRST, SECOND = object(), object()


def block(current: CurrentTransaction, tx: Any) -> Any:
    return current.block(nullcontext(tx))


def test_innermost_block_counts_until_it_is_left() -> None:
    current = CurrentTransaction()
    assert current.find() is None
    with block(current, FIRST):
        with block(current, SECOND):
            assert current.find() is SECOND
        assert current.find() is FIRST
    assert current.find() is None


def test_block_that_is_left_with_an_error_is_over() -> None:
    current = CurrentTransaction()
    with pytest.raises(ValueError, match="x"), block(current, FIRST):
        raise ValueError("x")
    assert current.find() is None


def test_context_that_was_copied_inside_knows_that_the_block_is_over() -> None:
    current = CurrentTransaction()
    with block(current, FIRST):
        copied = contextvars.copy_context()
        assert copied.run(current.find) is FIRST
    assert copied.run(current.find) is None


def test_block_may_be_left_in_another_context_than_it_was_entered_in() -> None:
    current = CurrentTransaction()
    opened = block(current, FIRST)
    contextvars.copy_context().run(opened.__enter__)
    contextvars.copy_context().run(opened.__exit__, None, None, None)
    assert current.find() is None


def test_transaction_is_refused_to_a_thread_that_it_does_not_belong_to() -> None:
    current, found = CurrentTransaction(), list[object]()

    def look() -> None:
        try:
            found.append(current.find())
        except ConfigurationError as error:
            found.append(str(error))

    with block(current, FIRST):
        copied = contextvars.copy_context()
        threads = [threading.Thread(target=look), threading.Thread(target=copied.run, args=(look,))]
        for thread in threads:
            thread.start()
            thread.join()
    assert found[0] is None
    assert "belongs to another thread" in str(found[1])
