"""Processes of the two programs, forked from one that has imported everything: ten times faster than a start."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from tests.chaos import caught
from tests.chaos.kinds import Side
from tests.chaos.processes import Child, Children
from tests.chaos.programs.setup import Setup

#: The timeout of waiting, in seconds, long enough for a busy machine.
PATIENCE = 150.0
#: Seconds between two checks.
POLL_INTERVAL = 0.01


class Fork:
    """One process. The methods that wait raise `AssertionError` after a timeout, or when the process has ended."""

    def __init__(self, pid: int, name: str, out: Path, err: Path) -> None:
        self.pid = pid
        self.name = name
        self._out = out
        self._err = err
        self._may_end = False

    @property
    def runs(self) -> bool:
        """Whether the process has not ended; true also while it is stopped."""
        return self._state() not in ("", "Z", "X")

    @property
    def is_stopped(self) -> bool:
        """Whether the process is stopped by SIGSTOP."""
        return self._state() in ("T", "t")

    @property
    def out(self) -> str:
        """Its stdout so far."""
        return self._out.read_text() if self._out.exists() else ""

    @property
    def err(self) -> str:
        """Its stderr so far."""
        return self._err.read_text(errors="replace") if self._err.exists() else ""

    # --- waiting ---------------------------------------------------------------------------------------------------

    def until(
        self,
        condition: Callable[[], object],
        what: str,
        interval: float = POLL_INTERVAL,
        progress: Callable[[], object] = lambda: None,
    ) -> None:
        """Wait for a condition that this process brings about.

        :param progress: whenever its result changes, the timeout starts again, because a busy machine is slow.
        """
        seen, give_up = progress(), time.monotonic() + PATIENCE
        while True:
            # Read before the condition: the process may end directly after it has met the condition.
            running = self.runs
            if condition():
                return
            if running and time.monotonic() > give_up and (now := progress()) != seen:
                seen, give_up = now, time.monotonic() + PATIENCE
            if not running or time.monotonic() > give_up:
                raise self._failure(f"never: {what}")
            time.sleep(interval)

    def stops(self) -> None:
        """Wait until all its threads are stopped."""
        self.until(lambda: self.is_stopped, "it stops")

    def ends(self) -> None:
        """Wait until it has ended by itself."""
        give_up = time.monotonic() + PATIENCE
        while self.runs:
            if time.monotonic() > give_up:
                raise self._failure("it does not end")
            time.sleep(POLL_INTERVAL)

    def watch(self) -> None:
        """Check that it runs, unless it was killed or terminated by this object.

        :raises AssertionError: it has ended by itself.
        """
        if not self._may_end and not self.runs:
            raise self._failure("it has ended by itself")

    # --- signals ---------------------------------------------------------------------------------------------------

    def suspend(self) -> None:
        """Send SIGSTOP, and wait until all its threads are stopped."""
        self._signal(signal.SIGSTOP)
        self.stops()

    def go_on(self) -> None:
        """Send SIGCONT."""
        self._signal(signal.SIGCONT)

    def terminate(self) -> None:
        """Send SIGTERM, for an orderly end; see `ends`."""
        self._may_end = True
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL, and wait until it has ended.

        :raises AssertionError: it had ended before.
        """
        self._signal(signal.SIGKILL)
        self._may_end = True
        self.ends()

    def end(self) -> None:
        """Kill it if it runs."""
        if self.runs:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            self.ends()

    # --- helpers ---------------------------------------------------------------------------------------------------

    def _state(self) -> str:
        """The letter of its state in /proc; empty = it does not exist."""
        try:
            return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return ""

    def _signal(self, number: signal.Signals) -> None:
        if not self.runs:
            raise self._failure("it had ended")
        os.kill(self.pid, number)

    def _failure(self, what: str) -> AssertionError:
        if self.runs:
            # faulthandler prints the tracebacks of all threads, and the process ends.
            os.kill(self.pid, signal.SIGABRT)
            os.kill(self.pid, signal.SIGCONT)
            give_up = time.monotonic() + 5.0
            while self.runs and time.monotonic() < give_up:
                time.sleep(POLL_INTERVAL)
        return AssertionError(f"{self.name}: {what}\n--- out\n{self.out[-4000:]}\n--- err\n{self.err[-8000:]}")


class Forks:
    """The processes of successive experiments. They are killed at the end of the block."""

    def __init__(self, children: Children) -> None:
        self._fork_server: Child = children.start("-m", "tests.chaos.programs.fork_server")
        self._folder = tempfile.TemporaryDirectory(prefix="mercury-chaos-")
        self._forks: list[Fork] = []
        self._made = 0

    def __enter__(self) -> Forks:
        self._fork_server.line("^ready$")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()
        self._fork_server.end()
        self._folder.cleanup()

    def start(self, side: Side, setup: Setup) -> Fork:
        """Start a process of a program."""
        self._made += 1
        out, err = (Path(self._folder.name, f"{self._made}.{name}") for name in ("out", "err"))
        order = {"side": side.value, "setup": setup.dump(), "out": str(out), "err": str(err)}
        self._fork_server.tell(json.dumps(order))
        pid = int(self._fork_server.line(r"^made (\d+)$")[1])
        fork = Fork(pid, f"{side.value} {pid}: {setup.stop or 'undisturbed'}", out, err)
        self._forks.append(fork)
        return fork

    @property
    def folder(self) -> Path:
        """The folder of the processes' output."""
        return Path(self._folder.name)

    def watch(self) -> None:
        """Check that only processes that were killed or terminated have ended.

        :raises AssertionError: another one has.
        """
        for fork in self._forks:
            fork.watch()

    def kill(self) -> None:
        """Kill all running processes."""
        for fork in self._forks:
            fork.end()

    def caught(self) -> Counter[str]:
        """The number of each error that the application has caught."""
        return caught.counted(fork.out for fork in self._forks)

    def output(self) -> str:
        """The output of all processes, as text."""
        return "\n".join(f"--- {fork.name}\n{fork.out[-2000:]}{fork.err[-20000:]}" for fork in self._forks)

    def end(self) -> None:
        """Kill all running processes, and delete their output."""
        self.kill()
        self._forks.clear()
        for file in Path(self._folder.name).iterdir():
            file.unlink()
