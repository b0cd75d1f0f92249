"""What the threads of a process use between two moments, and by its functions if it is profiled."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from benchmarks.function_profile import FunctionProfile, as_rows
from benchmarks.machine import Task, own_threads


class Measurement:
    """Measures from its making to `end`.

    :param profile: the profile of this process, which was installed before its threads started.
    """

    def __init__(self, profile: FunctionProfile | None) -> None:
        self._profile = profile
        self._before = own_threads()
        if profile is not None:
            profile.begin()

    def end(self) -> dict[str, Any]:
        """The use of each thread, and of each function of each thread, as values of JSON."""
        found: dict[str, Any] = {
            "threads": {name: asdict(used - self._before.get(name, Task())) for name, used in own_threads().items()}
        }
        if self._profile is not None:
            found["functions"] = as_rows(self._profile.end())
        return found
