"""Starts, kills and restarts the client's and the server's processes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from samples.lossy_network.proxy import Proxy

#: Timeouts in seconds: for a start, for reaching the point between two commits, for an orderly end.
START_TIMEOUT, CRASH_POINT_TIMEOUT, END_TIMEOUT = 60.0, 10.0, 10.0
#: The number of characters of a log's end in an error text.
TAIL = 1000


class Broken(Exception):
    """The run cannot be finished."""


class Party:
    """The client or the server, through all its restarts.

    :param command: the command line; the process prints one line of JSON with its ``url``, and perhaps more lines.
    :param proxy: the proxy through which the other process reaches it.
    :param log: the file for its stderr.
    """

    def __init__(
        self, name: str, command: Sequence[str], environment: Mapping[str, str], proxy: Proxy, log: Path
    ) -> None:
        self.name = name
        #: The values that the process has printed since its last start.
        self.printed: dict[str, Any] = {}
        self._command = command
        self._environment = dict(environment)
        self._proxy = proxy
        self._log = log
        self._process: Process | None = None
        self._listening: asyncio.Task[None] | None = None
        self._told = asyncio.Event()

    @property
    def url(self) -> str | None:
        """The URL of the process without the proxy; ``None`` = it does not run."""
        return self.printed.get("url")

    async def start(self) -> None:
        """Start the process, and wait until it accepts connections.

        :raises Broken: it does not start.
        """
        with self._log.open("ab") as log:
            # In a session of its own, so that Ctrl-C reaches only the demo, which then ends the others.
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=PIPE,
                stderr=log,
                env=self._environment,
                cwd=self._log.parent,
                start_new_session=True,
            )
        self._told.clear()
        self._listening = asyncio.create_task(self._listen(self._process))
        try:
            async with asyncio.timeout(START_TIMEOUT):
                await self._told.wait()
        except TimeoutError:
            raise self._broken(f"does not start within {START_TIMEOUT:.0f} s") from None
        self.check()
        self._proxy.target = self.printed["url"]

    def check(self) -> None:
        """
        :raises Broken: the process has ended without being killed.
        """
        if self._process is None or self._process.returncode is not None or self.url is None:
            raise self._broken("has failed")

    async def kill(self, *, between_commits: bool) -> bool:
        """Kill the process with SIGKILL, and wait for its end.

        :param between_commits: let it kill itself between its two commits.
        :returns: whether it did; otherwise it did not reach that point in time and was killed elsewhere.
        """
        self.check()
        assert self._process is not None
        if between_commits:
            self._process.send_signal(signal.SIGUSR1)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CRASH_POINT_TIMEOUT):
                    await self._process.wait()
        there = self._process.returncode is not None
        await self._end(signal.SIGKILL)
        return there

    async def stop(self) -> None:
        """End the process with SIGTERM, or with SIGKILL after `END_TIMEOUT`; does nothing if it does not run."""
        await self._end(signal.SIGTERM)

    async def _end(self, number: signal.Signals) -> None:
        self._proxy.target = ""
        process = self._process
        if process is None:
            return
        if process.returncode is None:
            process.send_signal(number)
            try:
                async with asyncio.timeout(END_TIMEOUT):
                    await process.wait()
            except TimeoutError:
                process.kill()
                await process.wait()
        if self._listening is not None:
            await self._listening
        self._process = None
        self.printed = {}

    async def _listen(self, process: Process) -> None:
        assert process.stdout is not None
        while line := await process.stdout.readline():
            self.printed |= json.loads(line)
            self._told.set()
        await process.wait()
        self._told.set()

    def _broken(self, what: str) -> Broken:
        said = self._log.read_text(errors="replace")[-TAIL:].strip()
        return Broken(f"the {self.name} {what}; the end of its log:\n{said}" if said else f"the {self.name} {what}")


def environment(folder: Path, settings: Mapping[str, str]) -> dict[str, str]:
    """The environment of a process: this one's, without variables that would change Mercury's settings.

    :param folder: the folder from which the samples are imported.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MERCURY_")}
    path = os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))
    return {**kept, "PYTHONPATH": path, "PYTHONSAFEPATH": "1", **settings}


def python(*arguments: str) -> list[str]:
    return [sys.executable, *arguments]


def mercury(*arguments: str) -> list[str]:
    """The command `mercury` of this interpreter."""
    return python("-c", "from mercury.cli.main import run; run()", *arguments)
