"""A program of the deployment, through all its restarts."""

from __future__ import annotations

import asyncio
import contextlib
import enum
import os
import resource
import signal
from asyncio.subprocess import DEVNULL
from collections.abc import Mapping, Sequence
from pathlib import Path

from mercury.trial.scenario import Program
from mercury.trial.starting import Started, Starter

#: The timeouts of an orderly stop and of a probe, in seconds.
STOP_TIMEOUT, PROBE_TIMEOUT = 20.0, 0.4
#: The number of characters of a log's end in an error text.
TAIL = 800


class State(enum.Enum):
    """What the last probe of a program has said."""

    #: It does not run, or does not answer.
    DOWN = "down"
    #: It answers that it does not serve.
    STANDBY = "standby"
    SERVES = "serves"


class Member:
    """Starts, signals, probes and stops one program.

    :param command: the program's, with all names filled in.
    :param log: the file for its output.
    """

    def __init__(
        self,
        program: Program,
        command: Sequence[str],
        environment: Mapping[str, str],
        stop: Sequence[str],
        port: int,
        log: Path,
        starter: Starter,
    ) -> None:
        self.name, self.side, self.port = program.name, program.side, port
        self.state = State.DOWN
        #: The number of starts.
        self.starts = 0
        self._probe = program.probe
        self._command, self._environment, self._stop = tuple(command), dict(environment), tuple(stop)
        self._log = log
        self._starter = starter
        self._process: Started | None = None

    @property
    def pid(self) -> int | None:
        """``None`` = it does not run."""
        return self._process.pid if self._process is not None and self._process.returncode is None else None

    async def start(self) -> None:
        """Start it; `probe` says when it serves.

        :raises ConfigurationError: there is no such program.
        """
        self._process = await self._starter.start(self._command, self._environment, self._log)
        self.starts += 1

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to it and to the processes that it has started."""
        if self.pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, number)

    def limit_files(self, *, fails: bool) -> None:
        """Let what it writes to files fail, or no longer."""
        if self.pid is not None:
            _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
            with contextlib.suppress(ProcessLookupError):
                resource.prlimit(self.pid, resource.RLIMIT_FSIZE, (0 if fails else most, most))

    async def kill(self) -> None:
        """SIGKILL, and wait for its end."""
        self.signal(signal.SIGKILL)
        if self._process is not None:
            await self._process.wait()
        self.state = State.DOWN

    async def stop(self) -> bool:
        """Stop it in an orderly way; returns false if it had to be killed after `STOP_TIMEOUT`."""
        if self._process is None or self._process.returncode is not None:
            return True
        self.signal(signal.SIGCONT)
        if self._stop:
            stopping = await asyncio.create_subprocess_exec(*self._stop, stdin=DEVNULL, env=self._environment)
            await stopping.wait()
        else:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process.pid, signal.SIGTERM)
        try:
            async with asyncio.timeout(STOP_TIMEOUT):
                await self._process.wait()
        except TimeoutError:
            await self.kill()
            return False
        self.state = State.DOWN
        return True

    async def probe(self) -> State:
        """Ask it once, and remember what it says."""
        if self.pid is None:
            self.state = State.DOWN
        elif self._probe is None:
            self.state = State.SERVES
        else:
            self.state = await self._ask(self._probe)
        return self.state

    async def _ask(self, path: str) -> State:
        try:
            async with asyncio.timeout(PROBE_TIMEOUT):
                reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
                try:
                    head = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\nConnection: close\r\n\r\n"
                    writer.write(head.encode())
                    status = (await reader.readline()).split()
                finally:
                    writer.close()
        except (OSError, TimeoutError):
            return State.DOWN
        if len(status) < 2:
            return State.DOWN
        return State.SERVES if status[1] == b"200" else State.STANDBY

    def trouble(self) -> str | None:
        """Why it does not run, with the end of its log; ``None`` = it runs, or was not started."""
        if self._process is None or self._process.returncode is None:
            return None
        said = self._log.read_text(errors="replace")[-TAIL:].strip() if self._log.exists() else ""
        return f"{self.name} has ended with code {self._process.returncode}: {' '.join(said.split())}"
