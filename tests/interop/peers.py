"""Processes of any product that read commands from standard input.

A command is one line: a serial number, a name and words ``key=value``, separated by tabs. The answer is a line that
begins with ``@`` and the number. A process ends at the end of its standard input, so none is left behind.
"""

from __future__ import annotations

import hashlib
import os
import queue
import shutil
import subprocess
import sys
import threading
from pathlib import Path

from tests.acceptance.processes import environment

ROOT = Path(__file__).resolve().parents[2]
JAVA = Path(__file__).parent / "java"
#: Seconds for something that takes a few of them on a quiet machine.
PATIENCE = 240.0
STACKS = ("cxf", "metro")

#: A small heap, and no time spent on compiling well what runs for a minute.
OPTIONS = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-Djava.net.preferIPv4Stack=true")
#: Metro registers each endpoint for monitoring under one name: the second one of a process would fail.
OWN_OPTIONS = {"metro": ("-Dcom.sun.xml.ws.monitoring.endpoint=false",)}


class CommandFailed(Exception):
    """A peer says that a command went wrong, or is gone."""


class Peer:
    """A process that takes commands; a context manager.

    :param stack: what runs in it, for texts.
    :param command: how it is started; the same again after `kill`.
    :param log: the file that gets its standard error.
    """

    def __init__(self, stack: str, command: list[str], log: Path, **settings: str) -> None:
        self.stack = stack
        self._command, self._log, self._settings = command, log, settings
        self._serial = 0
        self._mutex = threading.Lock()
        self._start()

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def begin(self, name: str, **words: object) -> Answer:
        """Give a command without waiting for what comes of it. Words that are ``None`` are left out."""
        answer = Answer(f"{self.stack}: {name} {words}")
        with self._mutex:
            self._serial += 1
            self._waiting[str(self._serial)] = answer
            parts = [str(self._serial), name, *(f"{key}={value}" for key, value in words.items() if value is not None)]
            assert self._process.stdin is not None
            try:
                self._process.stdin.write("\t".join(parts) + "\n")
                self._process.stdin.flush()
            except OSError:
                answer.put(None)
        return answer

    def ask(self, name: str, **words: object) -> dict[str, str]:
        """Give a command and wait for its result.

        :raises CommandFailed: it went wrong.
        """
        return self.begin(name, **words).result()

    def received(self, cell: str) -> list[int]:
        """The numbers of the messages of a cell that reached the application, in the order in which they did."""
        numbers = self.ask("received", cell=cell)["numbers"]
        return [int(number) for number in numbers.split(",") if number]

    def kill(self) -> None:
        """End it as a failing machine does."""
        self._process.kill()
        self._process.wait()
        self._reader.join()

    def restart(self) -> None:
        """Start it again after `kill`, with the same files."""
        self._start()

    def stop(self) -> None:
        if self._process.poll() is None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self._process.wait()
        self._reader.join()

    def _start(self) -> None:
        ready = Answer(f"{self.stack}: start")
        self._waiting = {"0": ready}
        with open(self._log, "a") as log:
            self._process = subprocess.Popen(
                self._command,
                cwd=ROOT,
                env=environment(self._settings),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self._reader = threading.Thread(target=self._read, args=(self._process, self._waiting), daemon=True)
        self._reader.start()
        ready.result()

    @staticmethod
    def _read(process: subprocess.Popen[str], waiting: dict[str, Answer]) -> None:
        assert process.stdout is not None
        with process.stdout:
            for line in process.stdout:
                if line.startswith("@"):
                    serial, *parts = line[1:].rstrip("\n").split("\t")
                    waiting.pop(serial).put(parts)
        for answer in waiting.values():
            answer.put(None)


class Answer:
    """What comes of one command."""

    def __init__(self, asked: str) -> None:
        self._asked = asked
        self._queue: queue.SimpleQueue[list[str] | None] = queue.SimpleQueue()

    def put(self, parts: list[str] | None) -> None:
        self._queue.put(parts)

    def result(self, patience: float = PATIENCE) -> dict[str, str]:
        """:raises CommandFailed: it went wrong, or nothing came for ``patience`` seconds."""
        try:
            parts = self._queue.get(timeout=patience)
        except queue.Empty:
            raise CommandFailed(f"{self._asked}: no answer within {patience:g} s") from None
        if parts is None:
            raise CommandFailed(f"{self._asked}: the process is gone")
        words = dict(part.partition("=")[::2] for part in parts[1:])
        if parts[0] != "ok":
            raise CommandFailed(f"{self._asked}: {words.get('error', parts)}")
        return words


def why_not() -> str | None:
    """Why no Java peer can run here, or ``None``."""
    missing = [name for name in ("java", "javac", "mvn") if shutil.which(name) is None]
    return f"not installed: {', '.join(missing)}" if missing else None


def build(stack: str) -> str:
    """Compile a Java peer, unless that was done; returns its class path.

    Maven puts the libraries into the user's own repository; what is compiled stands in ``build/``, which git ignores.
    """
    sources = sorted([*JAVA.joinpath("src/interop").rglob("*.java"), JAVA / stack / "pom.xml"])
    mark = hashlib.sha256(b"\0".join(path.read_bytes() for path in sources)).hexdigest()
    target = ROOT / "build" / "interop" / stack
    stamp, classpath = target / "stamp", target / "classpath"
    if not (stamp.exists() and stamp.read_text() == mark):
        goals = ["compiler:compile", "dependency:build-classpath"]
        command = ["mvn", "-q", "-B", f"-Dpeer.build={target}", "-DincludeScope=runtime"]
        done = subprocess.run(
            [*command, f"-Dmdep.outputFile={classpath}", *goals],
            cwd=JAVA / stack,
            capture_output=True,
            text=True,
            timeout=1800,
            check=False,
        )
        if done.returncode != 0:
            raise CommandFailed(f"Maven cannot build {stack}: {(done.stdout + done.stderr)[-1500:]}")
        stamp.write_text(mark)
    return f"{target / 'classes'}{os.pathsep}{classpath.read_text().strip()}"


def java_peer(stack: str, folder: Path, name: str, *options: str) -> Peer:
    """A process with that stack; ``folder`` gets its journal and its log.

    :param options: for Java, beside those that every process has.
    """
    main = f"interop.{stack}.{stack.capitalize()}Peer"
    command = [
        "java",
        *OPTIONS,
        *OWN_OPTIONS.get(stack, ()),
        *options,
        "-cp",
        build(stack),
        main,
        str(folder / f"{name}.journal"),
    ]
    return Peer(stack, command, folder / f"{name}.log")


def mercury_peer(folder: Path, name: str, port: int, *, handler_seconds: float = 0.0, **settings: str) -> Peer:
    """A process with Mercury, on an SQLite file in ``folder``, with the defaults but for ``settings``.

    :param handler_seconds: how long the handler of a request takes.
    """
    command = [sys.executable, "-m", "tests.interop.mercury_peer", str(folder / f"{name}.db"), str(port)]
    command.append(str(handler_seconds))
    return Peer("mercury", command, folder / f"{name}.log", **settings)
