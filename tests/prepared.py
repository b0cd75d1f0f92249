"""A process that has imported modules once, and forks another for each command: imports were most of their CPU time.

For mutants it imports libraries only: Mercury and its tests come from the tree of each mutant. It is run as a script.
"""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import Any

#: What the tests of mutants import. No module that is imported here may start a thread.
LIBRARIES = (
    "_hypothesis_pytestplugin",
    "alembic.command",
    "alembic.migration",
    "alembic.op",
    "anyio._backends._asyncio",
    "anyio._backends._trio",
    "anyio.pytest_plugin",
    "cryptography.x509",
    "fastapi",
    "httptools",
    "httpx",
    "hypothesis.strategies",
    "jinja2",
    "lxml.etree",
    "opentelemetry.metrics",
    "prometheus_client",
    "psycopg",
    "pytest",
    "sqlalchemy.dialects.postgresql",
    "sqlalchemy.dialects.sqlite",
    "sqlalchemy.orm",
    "sqlite3",
    "trio",
    "typer",
    "uvicorn",
    "xdist.plugin",
    "xml.etree.ElementTree",
)


#: How many objects are made before the collector looks for garbage among them: most are modules and tests, which stay.
COLLECTED_AFTER = 50_000

#: What of a tree its tests import.
TREE = ("mercury.cli.main", "mercury.facade", "mercury.hosting", "mercury.simulation.run", "mercury.testing.pair")


@dataclass(frozen=True)
class Done:
    """What became of a module that was run."""

    #: The exit code; negative = the signal that ended it.
    returncode: int
    stdout: str
    stderr: str


class PreparedProcess:
    """Runs commands in forks of a process that has imported modules. Its methods may be called by many threads."""

    def __init__(self, address: Path) -> None:
        self._address = address

    def run(
        self, command: Sequence[str], cwd: Path, environment: Mapping[str, str], seconds: float, given: str = ""
    ) -> Done:
        """Run Python code in a process of its own, which imports what it does not have yet.

        :param command: the arguments. The first is a module's name, which is imported from its folder and ends without
            its exit handlers; or a script's path, with which the process ends as one of its own would.
        :param seconds: after which it is killed with the processes of its group.
        :param given: its standard input.
        :raises ConnectionError: the process that has the modules has ended.
        """
        with tempfile.TemporaryDirectory(prefix="run-") as folder, socket.socket(socket.AF_UNIX) as connection:
            (Path(folder) / "in").write_text(given)
            connection.connect(str(self._address))
            asked = {"command": list(command), "cwd": str(cwd), "environment": dict(environment), "seconds": seconds}
            connection.sendall(json.dumps(asked | {"folder": folder}).encode())
            connection.shutdown(socket.SHUT_WR)
            answer = _received(connection)
            if not answer:
                raise ConnectionError("the process that runs commands has ended")
            out, err = ((Path(folder) / name).read_text(errors="replace") for name in ("out", "err"))
            return Done(json.loads(answer), out, err)


@contextlib.contextmanager
def prepared_process(
    modules: Sequence[str] = LIBRARIES, environment: Mapping[str, str] | None = None, *, tree: Path | None = None
) -> Iterator[PreparedProcess]:
    """Start the process; it ends with the block, or with this process.

    :param modules: what it imports, in this order.
    :param environment: in which it does that; by default this process's without the folders of ``PYTHONPATH``.
    :param tree: a tree most of whose dataclasses the commands will define again: it has the code of their methods.
    """
    with tempfile.TemporaryDirectory(prefix="prepared-") as folder:
        address = Path(folder) / "socket"
        # -P: the folder of the script is not one that modules are imported from.
        command = [sys.executable, "-P", __file__, str(address), str(tree or ""), *modules]
        if environment is None:
            environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        with subprocess.Popen(command, env=environment, **pipes) as process:  # type: ignore[call-overload]
            assert process.stdin is not None
            assert process.stdout is not None
            if process.stdout.readline() != b"ready\n":
                raise ConnectionError("the process that runs commands did not start")
            try:
                yield PreparedProcess(address)
            finally:
                process.stdin.close()


def _received(connection: socket.socket) -> bytes:
    return b"".join(iter(lambda: connection.recv(65536), b""))


def _compile_dataclasses(tree: str) -> None:
    """Compile what `dataclasses` will be asked to execute for the modules of a tree: half of the time of their import.

    Another process imports them, and says what that is. Any other text is compiled when it is executed.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        texts: dict[str, None] = {}

        def noted(text: str, *names: dict[str, Any]) -> None:
            texts[text] = None
            exec(_compiled(text), *names)

        vars(dataclasses)["exec"] = noted
        sys.path.insert(0, tree)
        for name in TREE:
            importlib.import_module(name)
        with open(writing, "w") as pipe:
            json.dump(list(texts), pipe)
        os._exit(0)
    os.close(writing)
    with open(reading) as pipe:
        known = {text: _compiled(text) for text in json.load(pipe)}
    os.waitpid(child, 0)

    def executed(text: str, *names: dict[str, Any]) -> None:
        exec(known.get(text) or _compiled(text), *names)

    vars(dataclasses)["exec"] = executed


def _compiled(text: str) -> CodeType:
    """As ``exec`` compiles it, without the ``__future__`` of this file."""
    return compile(text, "<string>", "exec", dont_inherit=True)


def _serve(address: str, tree: str, modules: Sequence[str]) -> None:
    """Fork a process for each connection, until standard input ends."""
    for name in modules:
        importlib.import_module(name)
    if tree:
        _compile_dataclasses(tree)
    if threading.active_count() != 1:
        raise RuntimeError("a module has started a thread: a fork would be without it")
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECTED_AFTER)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the system takes away processes that have ended
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(address)
        listening.listen()
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        while True:
            ready, _, _ = select.select([listening, sys.stdin], [], [])
            if sys.stdin in ready:
                return
            connection, _ = listening.accept()
            with connection:
                if os.fork() == 0:
                    listening.close()
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    _answer(connection)
                    os._exit(0)


def _answer(connection: socket.socket) -> None:
    asked = json.loads(_received(connection))
    child = os.fork()
    if child == 0:
        connection.close()
        _become(**asked)
    killing = threading.Timer(asked["seconds"], os.killpg, (child, signal.SIGKILL))
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.setpgid(child, child)  # both do it: either may be the first
    killing.start()
    _, status = os.waitpid(child, 0)
    killing.cancel()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # what a test that failed has left
    connection.sendall(json.dumps(os.waitstatus_to_exitcode(status)).encode())


def _become(command: list[str], cwd: str, environment: dict[str, str], folder: str, seconds: float) -> None:
    """Turn this process into one that was started with a command. It does not return."""
    os.setpgid(0, 0)
    os.chdir(cwd)
    for number, name, flags in (
        (0, f"{folder}/in", os.O_RDONLY),
        (1, f"{folder}/out", os.O_WRONLY | os.O_CREAT),
        (2, f"{folder}/err", os.O_WRONLY | os.O_CREAT),
    ):
        opened = os.open(name, flags, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    os.environ.clear()
    os.environ.update(environment)
    sys.dont_write_bytecode = "PYTHONDONTWRITEBYTECODE" in environment
    sys.argv = command
    is_script = "/" in command[0]
    sys.path.insert(0, str(Path(command[0]).parent) if is_script else cwd)
    code = 1
    try:
        if is_script:
            runpy.run_path(command[0], run_name="__main__")
        else:
            runpy.run_module(command[0], run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as ended:
        code = int(ended.code or 0)
    except BaseException as error:
        if is_script:
            sys.excepthook(type(error), error, error.__traceback__)
        else:
            sys.stderr.write(f"{type(error).__name__}: {error}\n")
            code = 3  # not even the check could be run
    finally:
        if is_script:
            threading._shutdown()  # type: ignore[attr-defined]  # waits for threads, as an interpreter does at its end
            atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    _serve(sys.argv[1], sys.argv[2], sys.argv[3:])
