"""Real processes to do harm to: started, waited for, suspended, continued, killed; none is left behind."""

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

#: Each word is the leader of a group that was started, and, the second time, that has ended.
KILL_GROUPS = """
import os, signal
alive = set()
for pid in told:
    alive ^= {int(pid)}
for pid in alive:
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
"""


class Child:
    """A Python process that runs beside the test, with all processes that it starts. `Children.start` makes it.

    What waits for it raises `AssertionError` when it cannot come any more, or takes longer than ``patience`` seconds.
    Then the process is ended, and the text has what it said, and where each of its threads was.
    """

    def __init__(self, arguments: tuple[str, ...], settings: dict[str, str]) -> None:
        self._name = " ".join(arguments)[:80]
        self._ended: Ended | None = None
        # What it prints is seen at once, and when it hangs, it can be asked where.
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
        self._said: dict[str, list[str]] = {"out": [], "err": []}
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
        """Whether it has not ended. One that is suspended runs."""
        # Looked at only: while nobody takes its exit code, neither its number nor its group's goes to another process.
        look = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return self._ended is None and os.waitid(os.P_PID, self.pid, look) is None

    @property
    def is_over(self) -> bool:
        """Whether it has ended, and its number is free again."""
        return self._ended is not None

    @property
    def out(self) -> str:
        """What it has printed."""
        with self._changed:
            return "".join(self._said["out"])

    @property
    def err(self) -> str:
        """What it has written to stderr."""
        with self._changed:
            return "".join(self._said["err"])

    # --- waiting ---------------------------------------------------------------------------------------------------

    def line(self, pattern: str, patience: float = PATIENCE) -> re.Match[str]:
        """Wait until it has printed a whole line that matches, after the one that was waited for before."""
        give_up = time.monotonic() + patience
        said = self._said["out"]
        with self._changed:
            while True:
                while self._read < len(said) and said[self._read].endswith("\n"):
                    self._read += 1
                    if found := re.search(pattern, said[self._read - 1].rstrip("\n")):
                        return found
                if self._silent["out"] or not self._changed.wait(give_up - time.monotonic()):
                    break
        raise self._failure(f"no line {pattern!r}")

    def until(self, condition: Callable[[], object], what: str, patience: float = PATIENCE) -> None:
        """Wait until something that can be seen from outside is so, which this process has to bring about."""
        give_up = time.monotonic() + patience
        while True:
            # Asked before: it may be the last thing that it does.
            lives = self.runs
            if condition():
                return
            if not lives or time.monotonic() > give_up:
                raise self._failure(f"never: {what}")
            time.sleep(0.01)

    def ends(self, patience: float = PATIENCE) -> Ended:
        """Wait until it has ended by itself."""
        if not self._ends_within(patience):
            raise self._failure("it does not end")
        return self.end()

    # --- doing -----------------------------------------------------------------------------------------------------

    def tell(self, line: str) -> None:
        """Write a line to its stdin.

        :raises AssertionError: nobody reads it: it has ended.
        """
        try:
            self._input.write(line + "\n")
            self._input.flush()
        except (BrokenPipeError, ValueError):
            raise self._failure("nobody reads what it is told") from None

    def suspend(self) -> None:
        """SIGSTOP. It stands still when this returns.

        :raises AssertionError: it had ended before.
        """
        self._signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        if not self.runs:
            raise self._failure("it had ended")

    def go_on(self) -> None:
        """SIGCONT.

        :raises AssertionError: it had ended before.
        """
        self._signal(signal.SIGCONT)

    def terminate(self) -> None:
        """SIGTERM, which asks for an orderly end; see `ends`.

        :raises AssertionError: it had ended before.
        """
        self._signal(signal.SIGTERM)

    def kill(self) -> Ended:
        """SIGKILL, for it and all processes that it started. It has ended when this returns.

        :raises AssertionError: it had ended before: what the test wanted to interrupt was over.
        """
        ended = self.end()
        if ended.code != -signal.SIGKILL:
            raise self._failure("it had ended before it was killed")
        return ended

    def end(self) -> Ended:
        """Make sure that it has ended, with all processes that it started."""
        if self._ended is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
            code = self._process.wait(PATIENCE)
            for thread in self._threads:
                thread.join(PATIENCE)
                assert not thread.is_alive(), f"{self._name} has ended, but somebody else holds its output"
            with contextlib.suppress(BrokenPipeError):
                self._input.close()
            self._ended = Ended(code, self.out, self.err)
        return self._ended

    # --- within ----------------------------------------------------------------------------------------------------

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
            # Python answers with where its threads are, and ends.
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
                    self._said[name].append(line)
                    self._changed.notify_all()
        with self._changed:
            self._silent[name] = True
            self._changed.notify_all()


class Children:
    """All processes that a test starts. With the block, or with the tests' own process, they are gone."""

    def __init__(self) -> None:
        self._children: list[Child] = []
        self._stack = contextlib.ExitStack()
        self._tell: Callable[[str], None] | None = None

    def __enter__(self) -> Children:
        self._tell = self._stack.enter_context(guard(KILL_GROUPS))
        return self

    def start(self, *arguments: str, **settings: str) -> Child:
        """Start Python with arguments: ``"-m", "tests.chaos.client"``, or ``"-c", "..."``.

        :param settings: its environment, over ours without Mercury's variables.
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
        """The number of one that has ended may go to a process of somebody else."""
        for child in self._children:
            if child.is_over:
                tell(str(child.pid))
        self._children = [child for child in self._children if not child.is_over]
