"""Processes of a PostgreSQL server, as the operating system tells them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
#: What begins the state of a process that ended and was not waited for by its parent.
ZOMBIE = b"Z"


@dataclass(frozen=True, slots=True)
class Recorded:
    """What a server writes down in its data folder while it runs. Nobody removes it when the server is killed."""

    pid: int
    """Of the server, or of whatever has got its number since."""
    sockets: Path | None
    """Where its Unix socket is; None: not there yet."""


def recorded(data: Path) -> Recorded | None:
    """What the pid file of a data folder says; None when there is none, or none that makes sense.

    :raises OSError: the folder cannot be read.
    """
    try:
        lines = (data / "postmaster.pid").read_text(errors="surrogateescape").splitlines()
        sockets = lines[4] if len(lines) > 4 else ""
        return Recorded(int(lines[0]), Path(sockets) if sockets else None)
    except (FileNotFoundError, NotADirectoryError, IndexError, ValueError):
        return None


def is_there(pid: int) -> bool:
    """Whether a process has this number, of any user."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (ProcessLookupError, OverflowError):
        return False
    return True


def serves(pid: int, data: Path) -> bool:
    """Whether a process is the PostgreSQL server of a data folder, and has not ended."""
    if not is_there(pid):
        return False
    if not PROC.is_dir():
        return f"postgres -D {data} " in _shown(pid) + " "
    arguments = _arguments(pid)
    named = os.fsencode(data) in arguments or _working_folder(pid) == str(data)
    return os.path.basename(arguments[0]) == b"postgres" and named


def ended(pid: int) -> bool:
    """Whether a process is gone, or only waits for its parent to notice that it is."""
    if not is_there(pid):
        return True
    if not PROC.is_dir():
        return False
    state = _state(pid)
    return state is None or state[0] == ZOMBIE


def children(pid: int) -> list[int]:
    """The processes that a process started and that have not ended."""
    if not PROC.is_dir():
        found = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False)  # noqa: S603, S607
        return [int(line) for line in found.stdout.split()]
    parents = ((each, _state(each)) for each in _pids())
    return [each for each, state in parents if state is not None and state[0] != ZOMBIE and int(state[1]) == pid]


def orphans(name: str) -> list[int]:
    """What is left of a server after it was killed: its sessions' and its helpers' processes.

    They end by themselves when they notice, which a busy session may do late.

    :param name: the server's setting ``cluster_name``; its processes show it.
    """
    shown = f"postgres: {name}: ".encode()
    return [pid for pid in _pids() if _arguments(pid)[0].startswith(shown)]


def _pids() -> Iterator[int]:
    if PROC.is_dir():
        yield from (int(entry.name) for entry in PROC.iterdir() if entry.name.isdigit())


def _arguments(pid: int) -> list[bytes]:
    """Its command line; one empty word for a process that is gone, or is a zombie."""
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
    """The letter of its state, its parent, and so on; None: it is gone."""
    try:
        text = (PROC / str(pid) / "stat").read_bytes()
    except OSError:
        return None
    # The name before it stands in parentheses and may have any in it.
    return text.rpartition(b")")[2].split()


def _shown(pid: int) -> str:
    shown = subprocess.run(["ps", "-ww", "-o", "command=", "-p", str(pid)], capture_output=True, text=True, check=False)  # noqa: S603, S607
    return shown.stdout
