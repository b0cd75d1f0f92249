"""Processes that tests start, observe and end."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, TypeVar

from tests.patience import patience
from tests.prepared import PreparedProcess, prepared_process

ROOT = Path(__file__).resolve().parents[2]
MERCURY = str(Path(sysconfig.get_path("scripts")) / "mercury")

#: The timeout of waiting, in seconds, long enough for a busy machine.
PATIENCE = patience(300.0)

T = TypeVar("T")


def environment(settings: dict[str, str]) -> dict[str, str]:
    """This process's environment without variables that change Mercury's or rich's behaviour; the store is in
    memory."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("MERCURY_") and name not in ("FORCE_COLOR", "COLUMNS", "TTY_COMPATIBLE")
    }
    return kept | {"MERCURY_STORE": "memory:"} | settings


def eventually(ask: Callable[[], T], what: str, patience: float = PATIENCE) -> T:
    """Call ``ask`` until its result is true, and return the result."""
    until = time.monotonic() + patience
    while not (answer := ask()):
        assert time.monotonic() < until, f"never: {what}"
        time.sleep(0.01)
    return answer


@dataclass(frozen=True)
class Ended:
    """The exit code and the output of a process."""

    code: int
    out: str
    err: str

    @property
    def value(self) -> Any:
        """Its stdout, parsed as JSON."""
        return json.loads(self.out)

    def refused(self, *words: str, code: int = 2) -> None:
        """Check that it printed one line with the error to stderr, and nothing else."""
        assert self.code == code, self
        assert self.out == "", self
        lines = self.err.splitlines()
        assert len(lines) == 1, self
        assert lines[0].startswith("error: "), self
        for word in words:
            assert word in lines[0], self


def get(netloc: str, path: str, **headers: str) -> tuple[int, str]:
    """One GET; returns the status and the body."""
    connection = http.client.HTTPConnection(netloc, timeout=PATIENCE)
    try:
        connection.request("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        reply = connection.getresponse()
        return reply.status, reply.read().decode()
    finally:
        connection.close()


#: What most commands import: more than half of their CPU time.
IMPORTED = (
    "fastapi",
    "typer.rich_utils",
    "mercury.cli.main",
    "mercury.facade",
    "mercury.hosting",
    "mercury.storage.opening",
)
#: Variables that an interpreter reads when it starts.
AT_START = ("PYTHON", "LANG", "LC_", "TZ")


class Commands:
    """Runs commands in forks of one process, which is started with the first of them. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stack = contextlib.ExitStack()
        self._process: PreparedProcess | None = None

    def run(self, *arguments: str, given: str, cwd: Path, settings: dict[str, str]) -> Ended:
        with self._lock:
            if self._process is None:
                self._process = self._stack.enter_context(prepared_process(IMPORTED, environment({})))
            process = self._process
        done = process.run([MERCURY, *arguments], cwd, environment(settings), PATIENCE, given)
        return Ended(done.returncode, done.stdout, done.stderr)

    def close(self) -> None:
        """End the process, if it runs."""
        with self._lock:
            self._process = None
            self._stack.close()


#: One for all tests of this process: a fixture would end it with a test, and it takes a second to start.
COMMANDS = Commands()


def mercury(*arguments: str, given: str = "", cwd: Path = ROOT, **settings: str) -> Ended:
    """Run the command to its end, in a process of its own."""
    if any(name.startswith(AT_START) for name in settings):
        return run([MERCURY, *arguments], given=given, cwd=cwd, **settings)
    ended = COMMANDS.run(*arguments, given=given, cwd=cwd, settings=settings)
    assert "Traceback" not in ended.out + ended.err, ended.err
    return ended


def python(*arguments: str, **settings: str) -> Ended:
    """Run Python to its end."""
    return run([sys.executable, *arguments], cwd=ROOT, **settings)


def run(command: list[str], *, cwd: Path, given: str = "", **settings: str) -> Ended:
    ended = subprocess.run(
        command,
        cwd=cwd,
        env=environment(settings),
        input=given,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert "Traceback" not in ended.stdout + ended.stderr, ended.stderr
    return Ended(ended.returncode, ended.stdout, ended.stderr)


def run_by_default(command: list[str], cwd: Path) -> Ended:
    """Run a command in a folder without any setting, not even the store."""
    settings = {name: value for name, value in environment({}).items() if name != "MERCURY_STORE"}
    ended = subprocess.run(
        command,
        cwd=cwd,
        env={**settings, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    return Ended(ended.returncode, ended.stdout, ended.stderr)


def each(cases: Iterable[T], do: Callable[[T], Ended]) -> Iterator[tuple[T, Ended]]:
    """Run a process for each case, several at a time."""
    cases = list(cases)
    with ThreadPoolExecutor(max_workers=4) as pool:
        yield from zip(cases, pool.map(do, cases), strict=True)


class Running:
    """A process that runs in parallel with the test; its output is collected. It is killed at the end of the block."""

    def __init__(self, *command: str, cwd: Path = ROOT, **settings: str) -> None:
        self._process = subprocess.Popen(
            command,
            cwd=cwd,
            env=environment(settings),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._said: dict[str, list[str]] = {"out": [], "err": []}
        pipes = (("out", self._process.stdout), ("err", self._process.stderr))
        self._readers = [threading.Thread(target=self._read, args=pipe) for pipe in pipes]
        for reader in self._readers:
            reader.start()

    def __enter__(self) -> Running:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._finish()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def out(self) -> str:
        return "".join(self._said["out"])

    @property
    def err(self) -> str:
        return "".join(self._said["err"])

    def says(self, pattern: str) -> str:
        """Wait until its output matches; returns the first group, or the whole match."""

        def look() -> re.Match[str] | None:
            found = re.search(pattern, self.out)
            assert found or self._process.poll() is None, f"it ended without {pattern!r}: {self.out}{self.err}"
            return found

        found = eventually(look, f"{pattern!r} is printed")
        assert found is not None
        return found[1] if found.re.groups else found[0]

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def terminate(self) -> None:
        self._process.terminate()

    def ends(self, patience: float = PATIENCE) -> Ended:
        """Wait until it has ended by itself."""
        self._process.wait(patience)
        self._finish()
        return Ended(self._process.returncode, self.out, self.err)

    def _finish(self) -> None:
        self._process.wait(PATIENCE)
        for reader in self._readers:
            reader.join()

    def _read(self, name: str, pipe: IO[str]) -> None:
        with pipe:
            for line in pipe:
                self._said[name].append(line)


class Serving(Running):
    """``mercury serve``, when it accepts connections."""

    def __init__(self, target: str = "tests.acceptance.app:app", *options: str, cwd: Path = ROOT, **settings: str):
        settings = {"MERCURY_LOG_LEVEL": "WARNING", **settings}
        super().__init__(MERCURY, "serve", target, "--port", "0", *options, cwd=cwd, **settings)
        self.url = self.says(r"(http://[^\s\"]+)")

    def __enter__(self) -> Serving:
        return self

    @property
    def netloc(self) -> str:
        return self.url.removeprefix("http://")

    def connection(self) -> socket.socket:
        """A raw connection to it."""
        host, port = self.netloc.split(":")
        return socket.create_connection((host, int(port)), PATIENCE)
