"""Stops this process at a crash point, by a wrapper around the function that the table names."""

from __future__ import annotations

import functools
import importlib
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from tests.chaos.kinds import Moment
from tests.chaos.points import Function, Point

#: The words that a process prints when it stops at a point, and when it is continued.
AT, ON = "at", "goes on"

Wrapped = Callable[..., Any]


def stop_at(point: Point, moment: Moment, visit: int) -> None:
    """Stop the whole process (SIGSTOP) at the given visit to a point, before the call or after.

    Before it stops it prints ``at NAME MOMENT``. The driver then continues or kills it.
    """
    seen = 0
    mutex = threading.Lock()

    def reached(here: Moment) -> None:
        nonlocal seen
        if here is not moment or not counts():
            return
        with mutex:
            seen += 1
            chosen = seen == visit
        if chosen:
            say(f"{AT} {point.name} {moment.value}")
            # Sent to this thread, so that the whole process is stopped before the call returns.
            signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)
            say(ON)

    counts = _condition(point)
    _wrap(point.function, reached)


def count(points: Iterable[Point]) -> Counter[str]:
    """Count the visits to each point; returns the counter, which is updated from then on."""
    visits: Counter[str] = Counter()
    mutex = threading.Lock()
    for point in points:
        counts = _condition(point)

        def reached(here: Moment, name: str = point.name, counts: Callable[[], bool] = counts) -> None:
            if counts():
                with mutex:
                    visits[f"{name} {here.value}"] += 1

        _wrap(point.function, reached)
    return visits


def find(function: Function) -> tuple[Any, str, Wrapped]:
    """The module or class of a function, its name there, and the function.

    :raises AttributeError: the function does not exist.
    """
    owner: Any = importlib.import_module(function.module)
    *path, name = function.attribute.split(".")
    for part in path:
        owner = getattr(owner, part)
    found = vars(owner).get(name)
    if not callable(found):
        raise AttributeError(f"{function.module} has no function {function.attribute} of its own")
    return owner, name, found


def say(line: str) -> None:
    """Print a line with one write, so that lines of several threads do not mix."""
    os.write(1, f"{line}\n".encode())


def _wrap(function: Function, reached: Callable[[Moment], None]) -> None:
    owner, name, original = find(function)

    @functools.wraps(original)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        reached(Moment.BEFORE)
        result = original(*args, **kwargs)
        reached(Moment.AFTER)
        return result

    setattr(owner, name, wrapper)


def _condition(point: Point) -> Callable[[], bool]:
    """A function that returns whether a call by the current thread counts."""
    if point.within is None:
        return lambda: threading.current_thread().name.startswith(point.thread)
    depth = threading.local()
    owner, name, original = find(point.within)

    @functools.wraps(original)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        depth.now = getattr(depth, "now", 0) + 1
        try:
            return original(*args, **kwargs)
        finally:
            depth.now -= 1

    setattr(owner, name, wrapper)
    return lambda: getattr(depth, "now", 0) > 0
