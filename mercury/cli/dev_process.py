"""The process that `mercury dev` starts for the server, and the files whose changes start it again."""

from __future__ import annotations

import dataclasses
import json
import os
import select
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from mercury.cli.dev_server import Task

#: Folders that hold no code of the application.
NOT_WATCHED = frozenset({"__pycache__", "node_modules", "site-packages"})


class DevProcess:
    """One process at a time, in a session of its own: Ctrl-C reaches the command only, which then ends the process.

    :param shutdown: seconds that the server has to end in an orderly way.
    """

    def __init__(self, task: Task, environment: Mapping[str, str], shutdown: float) -> None:
        self._task = task
        self._environment = environment
        self._shutdown = shutdown
        self._process: subprocess.Popen[bytes] | None = None
        self._report: int | None = None

    @property
    def code(self) -> int | None:
        """The exit code; ``None`` = it runs."""
        return None if self._process is None else self._process.poll()

    def start(self) -> None:
        """Start a process, which must not run."""
        self._report, writing = os.pipe()
        task = json.dumps(dataclasses.asdict(dataclasses.replace(self._task, report=writing)))
        try:
            self._process = subprocess.Popen(  # noqa: S603  our own program
                [sys.executable, "-m", "mercury.cli.dev_server", task],
                stdin=subprocess.PIPE,
                env=self._environment,
                pass_fds=(self._task.listening, writing),
                start_new_session=True,
            )
        finally:
            os.close(writing)

    def report(self, timeout: float) -> dict[str, Any] | None:
        """What the process reports when it accepts connections; ``None`` = it has not yet.

        :param timeout: seconds to wait for it, or for the end of the process.
        """
        if self._report is None or not select.select([self._report], [], [], timeout)[0]:
            return None
        line = os.read(self._report, 65536)
        if line:
            found: dict[str, Any] = json.loads(line)
            return found
        if self._process is not None:
            self._process.wait()
        return None

    def stop(self) -> None:
        """End the process: in an orderly way, or by force if that takes too long. Does nothing if it does not run."""
        process, self._process = self._process, None
        if process is not None:
            process.terminate()
            try:
                process.wait(self._shutdown + 5.0)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stdin is not None:
                process.stdin.close()
        if self._report is not None:
            os.close(self._report)
            self._report = None


def changes(folder: str | None) -> dict[str, int]:
    """When each Python file in a folder and below it was changed, in nanoseconds since the epoch."""
    found: dict[str, int] = {}
    for path, folders, names in os.walk(folder) if folder is not None else ():
        folders[:] = [each for each in folders if not each.startswith(".") and each not in NOT_WATCHED]
        for name in names:
            if name.endswith(".py"):
                file = os.path.join(path, name)
                try:
                    found[file] = os.stat(file).st_mtime_ns
                except FileNotFoundError:
                    continue  # it was deleted meanwhile
    return found
