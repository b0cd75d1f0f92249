"""Processes of the two programs, made by forking one that has imported everything: a tenth of a new one's time."""

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

#: Seconds for what takes a few on a quiet machine.
PATIENCE = 150.0
LOOK = 0.01


class Fork:
    """One process. What waits for it raises `AssertionError` when that cannot come any more, or takes too long."""

    def __init__(self, pid: int, name: str, out: Path, err: Path) -> None:
        self.pid = pid
        self.name = name
        self._out = out
        self._err = err
        self._may_end = False

    @property
    def runs(self) -> bool:
        """Whether it has not ended. One that is stopped runs."""
        return self._state() not in ("", "Z", "X")

    @property
    def stands(self) -> bool:
        """Whether it is stopped, by itself or by somebody."""
        return self._state() in ("T", "t")

    @property
    def out(self) -> str:
        """What it has printed."""
        return self._out.read_text() if self._out.exists() else ""

    @property
    def err(self) -> str:
        """What it has written to stderr."""
        return self._err.read_text(errors="replace") if self._err.exists() else ""

    # --- waiting ---------------------------------------------------------------------------------------------------

    def until(
        self,
        condition: Callable[[], object],
        what: str,
        look: float = LOOK,
        progress: Callable[[], object] = lambda: None,
    ) -> None:
        """Wait until something is so that this process has to bring about.

        :param progress: while what it returns changes, the time that is left begins anew: a busy machine is slow.
        """
        seen, give_up = progress(), time.monotonic() + PATIENCE
        while True:
            # Asked before: it may be the last thing that it does.
            lives = self.runs
            if condition():
                return
            if lives and time.monotonic() > give_up and (now := progress()) != seen:
                seen, give_up = now, time.monotonic() + PATIENCE
            if not lives or time.monotonic() > give_up:
                raise self._failure(f"never: {what}")
            time.sleep(look)

    def stops(self) -> None:
        """Wait until all of it stands still."""
        self.until(lambda: self.stands, "it stops")

    def ends(self) -> None:
        """Wait until it has ended by itself."""
        give_up = time.monotonic() + PATIENCE
        while self.runs:
            if time.monotonic() > give_up:
                raise self._failure("it does not end")
            time.sleep(LOOK)

    def watch(self) -> None:
        """See that it runs, unless it was killed or asked to end.

        :raises AssertionError: it has ended by itself.
        """
        if not self._may_end and not self.runs:
            raise self._failure("it has ended by itself")

    # --- doing -----------------------------------------------------------------------------------------------------

    def suspend(self) -> None:
        """SIGSTOP. It stands still when this returns."""
        self._signal(signal.SIGSTOP)
        self.stops()

    def go_on(self) -> None:
        """SIGCONT."""
        self._signal(signal.SIGCONT)

    def terminate(self) -> None:
        """SIGTERM, which asks for an orderly end; see `ends`."""
        self._may_end = True
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL. It has ended when this returns.

        :raises AssertionError: it had ended before.
        """
        self._signal(signal.SIGKILL)
        self._may_end = True
        self.ends()

    def end(self) -> None:
        """Make sure that it has ended."""
        if self.runs:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            self.ends()

    # --- within ----------------------------------------------------------------------------------------------------

    def _state(self) -> str:
        """The letter of its state; empty = it is gone."""
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
            # Python answers with where its threads are, and ends.
            os.kill(self.pid, signal.SIGABRT)
            os.kill(self.pid, signal.SIGCONT)
            give_up = time.monotonic() + 5.0
            while self.runs and time.monotonic() < give_up:
                time.sleep(LOOK)
        return AssertionError(f"{self.name}: {what}\n--- out\n{self.out[-4000:]}\n--- err\n{self.err[-8000:]}")


class Forks:
    """The processes of one experiment after the other. With the block they are gone."""

    def __init__(self, children: Children) -> None:
        self._nursery: Child = children.start("-m", "tests.chaos.programs.nursery")
        self._folder = tempfile.TemporaryDirectory(prefix="mercury-chaos-")
        self._forks: list[Fork] = []
        self._made = 0

    def __enter__(self) -> Forks:
        self._nursery.line("^ready$")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()
        self._nursery.end()
        self._folder.cleanup()

    def start(self, side: Side, setup: Setup) -> Fork:
        """Start a program."""
        self._made += 1
        out, err = (Path(self._folder.name, f"{self._made}.{name}") for name in ("out", "err"))
        told = {"side": side.value, "setup": setup.dump(), "out": str(out), "err": str(err)}
        self._nursery.tell(json.dumps(told))
        pid = int(self._nursery.line(r"^made (\d+)$")[1])
        fork = Fork(pid, f"{side.value} {pid}: {setup.stop or 'undisturbed'}", out, err)
        self._forks.append(fork)
        return fork

    @property
    def folder(self) -> Path:
        """Where the processes' output is."""
        return Path(self._folder.name)

    def watch(self) -> None:
        """See that none has ended but those that were killed, or asked to.

        :raises AssertionError: one has.
        """
        for fork in self._forks:
            fork.watch()

    def kill(self) -> None:
        """Kill all that run."""
        for fork in self._forks:
            fork.end()

    def caught(self) -> Counter[str]:
        """How often each error was caught by the application."""
        return caught.counted(fork.out for fork in self._forks)

    def said(self) -> str:
        """What each process has written, for people."""
        return "\n".join(f"--- {fork.name}\n{fork.out[-2000:]}{fork.err[-20000:]}" for fork in self._forks)

    def end(self) -> None:
        """Kill all that run, and forget what they have said."""
        self.kill()
        self._forks.clear()
        for file in Path(self._folder.name).iterdir():
            file.unlink()
