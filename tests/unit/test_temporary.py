"""Tests have their files in memory only if that cannot fill it, and if programs can be run there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests import temporary
from tests.temporary import LEFT, ROOM, available_memory, has_room

BLOCK = 4096


@pytest.fixture
def room(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """What the system says about every folder: it has just the room that is needed."""
    found = SimpleNamespace(f_bavail=ROOM // BLOCK, f_frsize=BLOCK, f_flag=0)
    monkeypatch.setattr(os, "statvfs", lambda _: found)
    return found


def test_folder_with_room_is_used(room: SimpleNamespace, tmp_path: Path) -> None:
    del room
    assert has_room(tmp_path, LEFT)


def test_little_memory_is_left_to_the_programs(room: SimpleNamespace, tmp_path: Path) -> None:
    del room
    assert not has_room(tmp_path, LEFT - 1)


def test_small_folder_as_containers_have_it_is_not_used(room: SimpleNamespace, tmp_path: Path) -> None:
    room.f_bavail -= 1
    assert not has_room(tmp_path, LEFT)


def test_folder_without_programs_is_not_used(room: SimpleNamespace, tmp_path: Path) -> None:
    room.f_flag = os.ST_NOEXEC
    assert not has_room(tmp_path, LEFT)


def test_missing_folder_is_not_used(tmp_path: Path) -> None:
    assert not has_room(tmp_path / "missing", LEFT)


def test_available_memory_is_read_in_bytes() -> None:
    assert available_memory("MemTotal: 9 kB\nMemAvailable:   2048 kB\nSwapTotal: 3 kB\n") == 2048 * 1024


def test_system_that_does_not_say_what_is_available_has_nothing() -> None:
    assert available_memory("MemTotal: 9 kB\n") == 0


def test_named_folder_is_obeyed(tmp_path: Path) -> None:
    """A whole run of pytest with these tests' settings."""
    check = tmp_path / "test_where.py"
    check.write_text("def test_where(tmp_path):\n    print('here:', tmp_path)\n")
    (tmp_path / "named").mkdir()
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-s",
        "-p",
        "tests.temporary",
        "--rootdir",
        str(tmp_path),
        str(check),
    ]
    environment = {**os.environ, "TMPDIR": str(tmp_path / "named")}
    done = subprocess.run(command, env=environment, cwd=temporary.ROOT, capture_output=True, text=True, check=True)
    assert f"here: {tmp_path / 'named'}" in done.stdout
