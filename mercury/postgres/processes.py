"""Finds the processes of a PostgreSQL server."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
#: The state of a process that has ended and that its parent has not waited for yet.
ZOMBIE = b"Z"


@dataclass(frozen=True, slots=True)
class PidFile:
    """The content of a server's pid file. A server that is killed leaves the file behind."""

    pid: int
    """The id of the server's process. If the server was killed, another process may have this id now."""
    sockets: Path | None
    """The folder of its Unix socket; ``None`` = the server has not created it yet."""


def read_pid_file(data: Path) -> PidFile | None:
    """The content of the pid file of a data folder; ``None`` = there is no file, or it is not complete.

    :raises OSError: the folder cannot be read.
    """
    try:
        lines = (data / "postmaster.pid").read_text(errors="surrogateescape").splitlines()
        sockets = lines[4] if len(lines) > 4 else ""
        return PidFile(int(lines[0]), Path(sockets) if sockets else None)
    except (FileNotFoundError, NotADirectoryError, IndexError, ValueError):
        return None


def exists(pid: int) -> bool:
    """Whether a process with this id exists, of any user."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (ProcessLookupError, OverflowError):
        return False
    return True


def serves(pid: int, data: Path) -> bool:
    """Whether a process is the PostgreSQL server of a data folder, and has not ended."""
    if not exists(pid):
        return False
    if not PROC.is_dir():
        return f"postgres -D {data} " in _command_line(pid) + " "
    arguments = _arguments(pid)
    named = os.fsencode(data) in arguments or _working_folder(pid) == str(data)
    return os.path.basename(arguments[0]) == b"postgres" and named


def ended(pid: int) -> bool:
    """Whether a process does not exist, or is a zombie."""
    if not exists(pid):
        return True
    if not PROC.is_dir():
        return False
    state = _state(pid)
    return state is None or state[0] == ZOMBIE


def children(pid: int) -> list[int]:
    """The ids of a process's children that have not ended."""
    if not PROC.is_dir():
        found = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False)  # noqa: S603, S607
        return [int(line) for line in found.stdout.split()]
    parents = ((each, _state(each)) for each in _pids())
    return [each for each, state in parents if state is not None and state[0] != ZOMBIE and int(state[1]) == pid]


def orphans(name: str) -> list[int]:
    """The ids of the processes that a killed server has left: its sessions and background processes.

    They end by themselves when they notice that the server is dead, which a busy session does late.

    :param name: the server's setting ``cluster_name``, which is in its processes' titles.
    """
    shown = f"postgres: {name}: ".encode()
    return [pid for pid in _pids() if _arguments(pid)[0].startswith(shown)]


def _pids() -> Iterator[int]:
    if PROC.is_dir():
        yield from (int(entry.name) for entry in PROC.iterdir() if entry.name.isdigit())


def _arguments(pid: int) -> list[bytes]:
    """The command line of a process; one empty word if it does not exist or is a zombie."""
    try:
        return (PROC / str(pid) / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return [b""]


def _working_folder(pid: int) -> str | None:
    try:
        return os.readlink(PROC / str(pid) / "cwd")
    except OSError:
        return None


def _state(pid: int) -> list[bytes] | None:
    """The fields of ``/proc/PID/stat`` from the state on; ``None`` = the process does not exist."""
    try:
        text = (PROC / str(pid) / "stat").read_bytes()
    except OSError:
        return None
    # The field before the state is the name, in parentheses, and may contain parentheses itself.
    return text.rpartition(b")")[2].split()


def _command_line(pid: int) -> str:
    shown = subprocess.run(["ps", "-ww", "-o", "command=", "-p", str(pid)], capture_output=True, text=True, check=False)  # noqa: S603, S607
    return shown.stdout
