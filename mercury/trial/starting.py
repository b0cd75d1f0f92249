"""Starts processes: each from its command, or as a fork of a process that has loaded Mercury."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from mercury.errors import ConfigurationError, StorageError

MODULE = "mercury.trial.programs.fork_server"


class Started(Protocol):
    """A process."""

    @property
    def pid(self) -> int: ...

    @property
    def returncode(self) -> int | None:
        """``None`` = it runs."""

    async def wait(self) -> int:
        """Wait until it has ended; returns its exit code."""


class Starter(Protocol):
    """Starts programs."""

    async def start(self, command: Sequence[str], environment: Mapping[str, str], log: Path) -> Started:
        """
        :raises ConfigurationError: there is no such program.
        """


class Commands:
    """Starts each command as a process."""

    async def start(self, command: Sequence[str], environment: Mapping[str, str], log: Path) -> Started:
        with log.open("ab") as file:
            try:
                # In a session of its own, so that Ctrl-C reaches only the trial, which ends it.
                return await asyncio.create_subprocess_exec(
                    *command, stdin=DEVNULL, stdout=file, stderr=file, env=environment, start_new_session=True
                )
            except OSError as error:
                raise ConfigurationError(f"{command[0]}: {error.strerror}") from error


class _Fork:
    """A process that the fork server has started."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._ended = asyncio.Event()

    def end(self, code: int) -> None:
        self.returncode = code
        self._ended.set()

    async def wait(self) -> int:
        await self._ended.wait()
        assert self.returncode is not None
        return self.returncode


class Forks:
    """Starts commands of `mercury` as forks of one process; see `mercury.trial.programs.fork_server`."""

    def __init__(self, environment: Mapping[str, str], log: Path) -> None:
        self._environment, self._log = dict(environment), log
        self._server: Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._said: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._forks: dict[int, _Fork] = {}
        self._mutex = asyncio.Lock()

    async def stop(self) -> None:
        """End the fork server, and what it has started."""
        if self._server is None:
            return
        assert self._server.stdin is not None
        self._server.stdin.close()
        await self._server.wait()
        if self._reading is not None:
            await self._reading

    async def start(self, command: Sequence[str], environment: Mapping[str, str], log: Path) -> Started:
        async with self._mutex:
            if self._server is None:
                await self._launch()
            assert self._server is not None
            assert self._server.stdin is not None
            program = {"argv": list(command), "environment": dict(environment), "log": str(log)}
            self._server.stdin.write(json.dumps(program).encode() + b"\n")
            said = await self._said.get()
            if "pid" not in said:
                raise StorageError("the process that starts programs has ended")
            return self._forks[said["pid"]]

    async def _launch(self) -> None:
        with self._log.open("ab") as log:
            self._server = await asyncio.create_subprocess_exec(
                sys.executable, "-m", MODULE,
                stdin=PIPE, stdout=PIPE, stderr=log, env=self._environment, start_new_session=True,
            )  # fmt: skip
        self._reading = asyncio.create_task(self._read(self._server))
        await self._said.get()

    async def _read(self, server: Process) -> None:
        assert server.stdout is not None
        while line := await server.stdout.readline():
            said = json.loads(line)
            if "ended" in said:
                with contextlib.suppress(KeyError):
                    self._forks.pop(said["ended"]).end(said["code"])
                continue
            if "pid" in said:
                self._forks[said["pid"]] = _Fork(said["pid"])
            self._said.put_nowait(said)
        for fork in self._forks.values():
            fork.end(-9)
        self._said.put_nowait({})
