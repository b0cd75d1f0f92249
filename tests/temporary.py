"""Temporary files of tests are in memory where there is room.

Tests flush to disk tens of thousands of times, and each waits. What they check are processes and servers that are
killed, and what those have written is there afterwards, on a disk or in memory; that a machine loses its power is
checked by no test. The programs still flush: only the file system is another.

``TMPDIR`` in the environment is obeyed: tests then use that folder.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
#: Where Linux has files in memory.
MEMORY = Path("/dev/shm")
#: The room that tests need there, and the memory that must be left for it, in bytes. They use about a gigabyte.
ROOM, LEFT = 4 * 2**30, 8 * 2**30
#: Whether ``TMPDIR`` was set here.
SET = pytest.StashKey[bool]()


def has_room(folder: Path, available: int) -> bool:
    """Whether tests can have their files in a folder that is in memory.

    :param available: the bytes of memory that programs can still get.
    """
    try:
        found = os.statvfs(folder)
    except OSError:
        return False
    room = found.f_bavail * found.f_frsize
    # PostgreSQL's programs are copied into a server's folder if its user cannot reach them.
    return os.access(folder, os.W_OK) and not found.f_flag & os.ST_NOEXEC and room >= ROOM and available >= LEFT


def available_memory(text: str) -> int:
    """The bytes of memory that programs can still get, from the text of ``/proc/meminfo``; 0 = it does not say that."""
    found = (line.split() for line in text.splitlines() if line.startswith("MemAvailable:"))
    return next((int(words[1]) * 1024 for words in found), 0)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Processes that share the tests inherit the variable."""
    about = Path("/proc/meminfo")
    config.stash[SET] = (
        "TMPDIR" not in os.environ and about.exists() and has_room(MEMORY, available_memory(about.read_text()))
    )
    if config.stash[SET]:
        os.environ["TMPDIR"] = str(MEMORY)
        tempfile.tempdir = None  # it is found again, by the variable


def pytest_unconfigure(config: pytest.Config) -> None:
    if config.stash.get(SET, False):
        del os.environ["TMPDIR"]
        tempfile.tempdir = None
