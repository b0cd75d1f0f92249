"""CPU time by function, for all threads of a process: cProfile with the CPU clock of the thread.

The instrument costs more than a small function. What it adds to a call is measured first and taken off: the part that
counts in the called function, and the part that counts in its caller.
"""

from __future__ import annotations

import cProfile
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType
from typing import Any

ROOT = Path(__file__).parent.parent
#: Levels of calls that are followed to count the calls below a function.
DEEPEST = 60


@dataclass(slots=True)
class Cost:
    """The cost of one function in the threads of one name. Times are CPU seconds."""

    calls: int = 0
    #: Without the functions that it calls.
    own: float = 0.0
    #: With them.
    whole: float = 0.0
    #: How often it has called others directly.
    callees: Counter[str] = field(default_factory=Counter)


#: By the name of the threads, then by function.
Costs = dict[str, dict[str, Cost]]


#: A `Cost` as it is passed on: calls, own, whole.
CostRow = tuple[int, float, float]


def as_rows(costs: Costs) -> dict[str, dict[str, CostRow]]:
    """The costs as values of JSON."""
    return {
        thread: {name: (cost.calls, cost.own, cost.whole) for name, cost in functions.items()}
        for thread, functions in costs.items()
    }


class FunctionProfile:
    """Measures all threads that start after `install`, and those that call `here`."""

    def __init__(self) -> None:
        self._profiles: list[tuple[str, cProfile.Profile]] = []
        self._mutex = threading.Lock()
        self._inside, self._outside = _overhead()
        self._before: Costs = {}

    def install(self) -> None:
        threading.setprofile(self._first_event)

    def here(self) -> None:
        """Measure the calling thread too."""
        profile = cProfile.Profile(time.thread_time)
        with self._mutex:
            self._profiles.append((threading.current_thread().name.rstrip("0123456789_-"), profile))
        profile.enable()

    def _first_event(self, *_: Any) -> None:
        sys.setprofile(None)
        self.here()

    def begin(self) -> None:
        self._before = self._costs()

    def end(self) -> Costs:
        """The costs since `begin`, without what the instrument costs."""
        found = self._costs()
        for thread, functions in found.items():
            for name, before in self._before.get(thread, {}).items():
                cost = functions[name]
                cost.calls -= before.calls
                cost.own -= before.own
                cost.whole -= before.whole
                cost.callees.subtract(before.callees)
            self._take_off(functions)
        return found

    def _costs(self) -> Costs:
        with self._mutex:
            profiles = list(self._profiles)
        found: Costs = {}
        for thread, profile in profiles:
            functions = found.setdefault(thread, {})
            for entry in profile.getstats():
                cost = functions.setdefault(_name(entry.code), Cost())
                cost.calls += entry.callcount
                cost.own += entry.inlinetime
                cost.whole += entry.totaltime
                for call in entry.calls or ():
                    cost.callees[_name(call.code)] += call.callcount
        return found

    def _take_off(self, functions: dict[str, Cost]) -> None:
        """Take off what the instrument has added. The calls below a function are estimated: those of each function
        that it calls, on average over all callers."""
        below = dict.fromkeys(functions, 0.0)
        for _ in range(DEEPEST):
            below = {
                name: sum(
                    count * (1.0 + below.get(callee, 0.0) / max(1, functions[callee].calls))
                    for callee, count in cost.callees.items()
                    if callee in functions
                )
                for name, cost in functions.items()
            }
        for name, cost in functions.items():
            cost.own -= cost.calls * self._inside + cost.callees.total() * self._outside
            added = cost.calls * self._inside + below[name] * (self._inside + self._outside)
            cost.whole = max(cost.own, cost.whole - added)


def _name(code: CodeType | str) -> str:
    if isinstance(code, str):
        return code.strip("<>")
    path = Path(code.co_filename)
    if path.is_relative_to(ROOT) and "site-packages" not in path.parts:
        place = str(path.relative_to(ROOT))
    else:
        parts = path.parts
        place = "/".join(parts[parts.index("site-packages") + 1 :] if "site-packages" in parts else parts[-2:])
    return f"{place}:{code.co_firstlineno} {code.co_qualname}"


def _overhead() -> tuple[float, float]:
    """CPU seconds that the instrument adds to a call: in the called function, and in its caller."""
    calls = 20_000

    def empty() -> None:
        pass

    def run() -> None:
        for _ in range(calls):
            empty()

    def bare() -> None:
        for _ in range(calls):
            pass

    begun = time.thread_time()
    run()
    plain = (time.thread_time() - begun) / calls
    begun = time.thread_time()
    bare()
    loop = (time.thread_time() - begun) / calls
    profile = cProfile.Profile(time.thread_time)
    profile.enable()
    run()
    profile.disable()
    inside = outside = 0.0
    for entry in profile.getstats():
        if entry.code is empty.__code__:
            inside = entry.totaltime / calls
        elif entry.code is run.__code__:
            outside = entry.inlinetime / calls
    # A call without the instrument costs ``plain - loop``, of which the called function has about half.
    return max(0.0, inside - (plain - loop) / 2), max(0.0, outside - (plain + loop) / 2)
