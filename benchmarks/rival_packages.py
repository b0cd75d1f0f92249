"""A virtual environment with the packages of the rivals, beside Mercury's own, so that `make setup` stays small."""

from __future__ import annotations

import subprocess
import sys
import venv
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "build" / "rival-packages"
PACKAGES = (
    "aio-pika>=9",
    "fastapi>=0.115",
    "httptools>=0.6.1",
    "httpx>=0.26",
    "lxml>=5.2",
    "nats-py>=2.6",
    "pika>=1.3",
    "procrastinate>=3",
    "psycopg[binary,pool]>=3.2",
    "uvicorn>=0.30",
    "uvloop>=0.19",
)


class NotInstalled(Exception):
    """The rivals cannot run here; the text says why."""


@cache
def python() -> str:
    """The interpreter that has the packages; makes the environment at the first use.

    :raises NotInstalled: pip cannot install them.
    """
    interpreter, stamp = FOLDER / "bin" / "python", FOLDER / "installed"
    if not stamp.exists() or stamp.read_text() != "\n".join(PACKAGES):
        print(f"installing the rivals' packages into {FOLDER.relative_to(ROOT)}", file=sys.stderr)
        venv.create(FOLDER, with_pip=True, clear=True)
        command = [str(interpreter), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PACKAGES]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise NotInstalled(f"pip cannot install the rivals' packages: {done.stderr.strip().splitlines()[-1]}")
        stamp.write_text("\n".join(PACKAGES))
    return str(interpreter)


def versions() -> dict[str, str]:
    """The versions of the packages."""
    found = subprocess.run(
        [python(), "-m", "pip", "list", "--format=freeze", "--disable-pip-version-check"],
        capture_output=True,
        text=True,
        check=True,
    )
    listed = dict(line.split("==", 1) for line in found.stdout.splitlines() if "==" in line)
    return {name: listed[name] for name in ("aio-pika", "httpx", "nats-py", "pika", "procrastinate") if name in listed}
