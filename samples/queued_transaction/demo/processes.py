"""The client's and the server's processes: started, killed, started again."""

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

#: Seconds: to start, to come by the place between two commits, to end in an orderly way.
TO_START, TO_COME_BY, TO_END = 60.0, 10.0, 10.0
#: Of a log, in an error.
TAIL = 1000


class Broken(Exception):
    """The run cannot be played to its end."""


class Party:
    """The client or the server, over all its lives.

    :param command: what is started; it prints one line of JSON with its ``url``, and perhaps more lines.
    :param proxy: where the other one reaches it.
    :param log: its stderr.
    """

    def __init__(
        self, name: str, command: Sequence[str], environment: Mapping[str, str], proxy: Proxy, log: Path
    ) -> None:
        self.name = name
        #: What it has told in this life.
        self.news: dict[str, Any] = {}
        self._command = command
        self._environment = dict(environment)
        self._proxy = proxy
        self._log = log
        self._process: Process | None = None
        self._listening: asyncio.Task[None] | None = None
        self._told = asyncio.Event()

    @property
    def url(self) -> str | None:
        """Where it is reached directly, while it runs."""
        return self.news.get("url")

    async def start(self) -> None:
        """Start it, and wait until it can be reached.

        :raises Broken: it does not start.
        """
        with self._log.open("ab") as log:
            # In a session of its own, so that Ctrl-C reaches the demo alone, which then ends the others.
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
            async with asyncio.timeout(TO_START):
                await self._told.wait()
        except TimeoutError:
            raise self._broken(f"does not start within {TO_START:.0f} s") from None
        self.check()
        self._proxy.target = self.news["url"]

    def check(self) -> None:
        """:raises Broken: it has ended, and nobody wanted that."""
        if self._process is None or self._process.returncode is not None or self.url is None:
            raise self._broken("has failed")

    async def kill(self, *, between_commits: bool) -> bool:
        """SIGKILL. It is gone when this returns.

        :param between_commits: have it kill itself where it is between its two commits.
        :returns: whether it was there; else it did not come by in time and was killed where it was.
        """
        self.check()
        assert self._process is not None
        if between_commits:
            self._process.send_signal(signal.SIGUSR1)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(TO_COME_BY):
                    await self._process.wait()
        there = self._process.returncode is not None
        await self._end(signal.SIGKILL)
        return there

    async def stop(self) -> None:
        """SIGTERM; SIGKILL if that does not help. One that does not run is passed over."""
        await self._end(signal.SIGTERM)

    async def _end(self, number: signal.Signals) -> None:
        self._proxy.target = ""
        process = self._process
        if process is None:
            return
        if process.returncode is None:
            process.send_signal(number)
            try:
                async with asyncio.timeout(TO_END):
                    await process.wait()
            except TimeoutError:
                process.kill()
                await process.wait()
        if self._listening is not None:
            await self._listening
        self._process = None
        self.news = {}

    async def _listen(self, process: Process) -> None:
        assert process.stdout is not None
        while line := await process.stdout.readline():
            self.news |= json.loads(line)
            self._told.set()
        await process.wait()
        self._told.set()

    def _broken(self, what: str) -> Broken:
        said = self._log.read_text(errors="replace")[-TAIL:].strip()
        return Broken(f"the {self.name} {what}; its log ends so:\n{said}" if said else f"the {self.name} {what}")


def environment(folder: Path, settings: Mapping[str, str]) -> dict[str, str]:
    """A process's environment: ours, without what would change how Mercury behaves.

    :param folder: where the samples are imported from.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MERCURY_")}
    path = os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))
    return {**kept, "PYTHONPATH": path, "PYTHONSAFEPATH": "1", **settings}


def python(*arguments: str) -> list[str]:
    return [sys.executable, *arguments]


def mercury(*arguments: str) -> list[str]:
    """The command `mercury` of this interpreter."""
    return python("-c", "from mercury.cli.main import run; run()", *arguments)
