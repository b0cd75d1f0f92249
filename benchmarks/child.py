"""A child process of a benchmark, which may obey lines on its stdin and answer each with a line of JSON."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
#: Seconds until a child that should end is killed.
END = 20.0


def end_in_order() -> None:
    """Let SIGTERM end this process as an exception does, so that servers and children are stopped."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


class ChildEnded(Exception):
    """A child has ended although it should run."""


class Child:
    """:param obeys: it answers lines.
    :param greets: it says when it is ready."""

    def __init__(
        self,
        command: list[str],
        environment: dict[str, str] | None = None,
        *,
        obeys: bool = True,
        greets: bool = True,
    ) -> None:
        self._command = command
        self._obeys = obeys
        pipe = subprocess.PIPE if obeys else subprocess.DEVNULL
        self._process = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, text=True, cwd=ROOT, env={**os.environ, **(environment or {})}
        )
        if obeys and greets:
            self._line()

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, line: str) -> Any:
        """The answer to a line.

        :raises ChildEnded: the process has ended.
        """
        self.tell(line)
        return self.answer()

    def tell(self, line: str) -> None:
        """Write a line; `answer` waits for the answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def answer(self) -> Any:
        return json.loads(self._line())

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise ChildEnded(f"{' '.join(self._command)} has ended with status {self._process.wait(END)}")
        return line

    def check(self) -> None:
        """:raises ChildEnded: the process has ended."""
        if self._process.poll() is not None:
            raise ChildEnded(f"{' '.join(self._command)} has ended with status {self._process.returncode}")

    def wait(self) -> None:
        """Wait until the process has ended by itself."""
        self._process.wait()

    def pause(self) -> None:
        """Stop the process where it is until `resume`."""
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        """End the process: in an orderly way if it obeys, else by SIGTERM; one that takes long is killed."""
        self.resume()
        if self._process.stdin is not None:
            self._process.stdin.close()
        else:
            self._process.terminate()
        try:
            self._process.wait(END)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
