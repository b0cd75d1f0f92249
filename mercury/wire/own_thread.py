"""Parses with libxml2 in a thread that ends after it.

lxml, which wraps libxml2, keeps each name that a thread parses until the thread ends. A peer that sends new names in
each message would fill the memory of a long-lived thread, until the thread could parse no document with a new name. So
lxml parses a peer's XML only in a thread of its own. All other parsing uses expat, which frees the names with the
document.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


def in_own_thread(function: Callable[[], T]) -> T:
    """Call a function in a new thread, and wait for its result; the thread costs about 0.1 ms.

    If the function returns a tree, the names in it stay in memory as long as the tree.

    :raises Exception: the function raised it.
    """
    future: Future[T] = Future()
    thread = threading.Thread(target=_run, args=(future, function), name="mercury-parsing", daemon=True)
    thread.start()
    thread.join()
    try:
        return future.result()
    finally:
        del future, thread  # the traceback of an exception keeps this frame alive


def _run(future: Future[T], function: Callable[[], T]) -> None:
    try:
        future.set_result(function())
    except BaseException as error:
        future.set_exception(error)
    finally:
        del future
