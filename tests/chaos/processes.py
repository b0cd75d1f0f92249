"""Child processes that tests start, wait for, suspend, continue and kill; all are removed at the end."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import IO

from mercury.testing.guard import guard
from tests.acceptance.processes import PATIENCE, ROOT, Ended, environment

#: Each word is the process group of a started child; a second occurrence means that the child has ended.
KILL_GROUPS = """
import os, signal
alive = set()
for pid in words:
    alive ^= {int(pid)}
for pid in alive:
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
"""


class Child:
    """A Python process with its own child processes, started by `Children.start`.

    The methods that wait raise `AssertionError` when the process has ended, or after ``patience`` seconds. Then they
    end the process, and the error's text has its output and the tracebacks of its threads.
    """

    def __init__(self, arguments: tuple[str, ...], settings: dict[str, str]) -> None:
        self._name = " ".join(arguments)[:80]
        self._ended: Ended | None = None
        # Unbuffered, so that output is seen at once; with faulthandler, so that a hanging process prints tracebacks.
        settings = {"PYTHONUNBUFFERED": "1", "PYTHONFAULTHANDLER": "1", **settings}
        self._process = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=ROOT,
            env=environment(settings),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        )
        assert self._process.stdin is not None
        self._input = self._process.stdin
        self._changed = threading.Condition()
        self._lines: dict[str, list[str]] = {"out": [], "err": []}
        self._silent = {"out": False, "err": False}
        self._read = 0
        pipes = (("out", self._process.stdout), ("err", self._process.stderr))
        self._threads = [threading.Thread(target=self._listen, args=pipe, daemon=True) for pipe in pipes]
        for thread in self._threads:
            thread.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def runs(self) -> bool:
        """Whether it has not ended; true also while it is suspended."""
        # WNOWAIT: until the exit code is collected, its process and group ids are not reused.
        flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return self._ended is None and os.waitid(os.P_PID, self.pid, flags) is None

    @property
    def is_over(self) -> bool:
        """Whether it has ended and its exit code was collected, so that its id may be reused."""
        return self._ended is not None

    @property
    def out(self) -> str:
        """Its stdout so far."""
        with self._changed:
            return "".join(self._lines["out"])

    @property
    def err(self) -> str:
        """Its stderr so far."""
        with self._changed:
            return "".join(self._lines["err"])

    # --- waiting ---------------------------------------------------------------------------------------------------

    def line(self, pattern: str, patience: float = PATIENCE) -> re.Match[str]:
        """Wait until it has printed a complete line that matches, after the line that the last call has found."""
        give_up = time.monotonic() + patience
        lines = self._lines["out"]
        with self._changed:
            while True:
                while self._read < len(lines) and lines[self._read].endswith("\n"):
                    self._read += 1
                    if found := re.search(pattern, lines[self._read - 1].rstrip("\n")):
                        return found
                if self._silent["out"] or not self._changed.wait(give_up - time.monotonic()):
                    break
        raise self._failure(f"no line {pattern!r}")

    def until(self, condition: Callable[[], object], what: str, patience: float = PATIENCE) -> None:
        """Wait for a condition that this process brings about."""
        give_up = time.monotonic() + patience
        while True:
            # Read before the condition: the process may end directly after it has met the condition.
            running = self.runs
            if condition():
                return
            if not running or time.monotonic() > give_up:
                raise self._failure(f"never: {what}")
            time.sleep(0.01)

    def ends(self, patience: float = PATIENCE) -> Ended:
        """Wait until it has ended by itself."""
        if not self._ends_within(patience):
            raise self._failure("it does not end")
        return self.end()

    # --- input and signals -----------------------------------------------------------------------------------------

    def tell(self, line: str) -> None:
        """Write a line to its stdin.

        :raises AssertionError: it has ended.
        """
        try:
            self._input.write(line + "\n")
            self._input.flush()
        except (BrokenPipeError, ValueError):
            raise self._failure("it has ended and reads no input") from None

    def suspend(self) -> None:
        """Send SIGSTOP, and wait until all its threads are stopped.

        :raises AssertionError: it had ended before.
        """
        self._signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        if not self.runs:
            raise self._failure("it had ended")

    def go_on(self) -> None:
        """Send SIGCONT.

        :raises AssertionError: it had ended before.
        """
        self._signal(signal.SIGCONT)

    def terminate(self) -> None:
        """Send SIGTERM, for an orderly end; see `ends`.

        :raises AssertionError: it had ended before.
        """
        self._signal(signal.SIGTERM)

    def kill(self) -> Ended:
        """Kill it and all processes that it has started, and wait until it has ended.

        :raises AssertionError: it had ended before, so the test interrupts nothing.
        """
        ended = self.end()
        if ended.code != -signal.SIGKILL:
            raise self._failure("it had ended before it was killed")
        return ended

    def end(self) -> Ended:
        """Kill it, and all processes that it has started, if they run."""
        if self._ended is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
            code = self._process.wait(PATIENCE)
            for thread in self._threads:
                thread.join(PATIENCE)
                assert not thread.is_alive(), f"{self._name} has ended, but another process has its output open"
            with contextlib.suppress(BrokenPipeError):
                self._input.close()
            self._ended = Ended(code, self.out, self.err)
        return self._ended

    # --- helpers ---------------------------------------------------------------------------------------------------

    def _signal(self, number: signal.Signals) -> None:
        if not self.runs:
            raise self._failure("it had ended")
        os.kill(self.pid, number)

    def _ends_within(self, patience: float) -> bool:
        give_up = time.monotonic() + patience
        while self.runs:
            if time.monotonic() > give_up:
                return False
            time.sleep(0.005)
        return True

    def _failure(self, what: str) -> AssertionError:
        if self.runs:
            # faulthandler prints the tracebacks of all threads, and the process ends.
            os.kill(self.pid, signal.SIGABRT)
            os.kill(self.pid, signal.SIGCONT)
            self._ends_within(5.0)
        ended = self.end()
        return AssertionError(
            f"{self._name}: {what}; exit code {ended.code}\n--- out\n{ended.out[-4000:]}\n--- err\n{ended.err[-8000:]}"
        )

    def _listen(self, name: str, pipe: IO[str]) -> None:
        with pipe:
            for line in pipe:
                with self._changed:
                    self._lines[name].append(line)
                    self._changed.notify_all()
        with self._changed:
            self._silent[name] = True
            self._changed.notify_all()


class Children:
    """All processes that a test starts. They are killed at the end of the block, or when the tests' process ends."""

    def __init__(self) -> None:
        self._children: list[Child] = []
        self._stack = contextlib.ExitStack()
        self._tell: Callable[[str], None] | None = None

    def __enter__(self) -> Children:
        self._tell = self._stack.enter_context(guard(KILL_GROUPS))
        return self

    def start(self, *arguments: str, **settings: str) -> Child:
        """Start Python with arguments: ``"-m", "tests.chaos.client"``, or ``"-c", "..."``.

        :param settings: environment variables, in addition to this process's own without Mercury's.
        """
        assert self._tell is not None, "only in the block"
        self._forget_ended(self._tell)
        child = Child(arguments, settings)
        self._children.append(child)
        self._tell(str(child.pid))
        return child

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._tell is not None
        with self._stack:
            for child in self._children:
                child.end()
            self._forget_ended(self._tell)

    def _forget_ended(self, tell: Callable[[str], None]) -> None:
        """Tell the guard which children have ended, because their process ids may be reused."""
        for child in self._children:
            if child.is_over:
                tell(str(child.pid))
        self._children = [child for child in self._children if not child.is_over]
