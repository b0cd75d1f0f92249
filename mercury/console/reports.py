"""Reports of `mercury reconcile` in a folder, and comparisons that are begun from there, one at a time."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

#: Names of reports and of comparisons: one folder or file in the configured folder, and never a path.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
#: The most entries of the folder that are read, and the bytes of a report that are searched for its verdict.
MOST, HEAD = 500, 64 * 1024
#: Bytes of a report that the console shows.
MOST_BYTES = 32 * 1024 * 1024
REPORT, LOG = "report.html", "console.log"
_COMMAND = (sys.executable, "-c", "from mercury.cli.main import run; run()", "reconcile")


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One report."""

    name: str
    #: When it was written, in seconds since the epoch.
    at: float
    reconciled: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A comparison that a file describes."""

    name: str
    running: bool = False
    #: The end of what its last run here has printed, if it failed.
    error: str = ""


class Reports:
    """A folder with reports, each in a folder of its own, and ``*.toml`` files that describe comparisons.

    :param folder: ``None`` = there is none.
    """

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self._mutex = threading.Lock()
        self._running: tuple[str, subprocess.Popen[bytes]] | None = None
        self._errors: dict[str, str] = {}

    def all(self) -> list[Report]:
        """The reports, the newest first."""
        found = []
        for each in self._entries():
            file = each / REPORT
            if NAME.fullmatch(each.name) and file.is_file():
                with file.open("rb") as stream:
                    head = stream.read(HEAD)
                found.append(
                    Report(name=each.name, at=file.stat().st_mtime, reconciled=b"<title>Not reconciled" not in head)
                )
        return sorted(found, key=lambda report: -report.at)

    def page(self, name: str) -> bytes | None:
        """A report as HTML; ``None`` = there is none, or it is too large."""
        if self.folder is None or not NAME.fullmatch(name):
            return None
        file = self.folder / name / REPORT
        return file.read_bytes() if file.is_file() and file.stat().st_size <= MOST_BYTES else None

    def comparisons(self) -> list[Comparison]:
        """The comparisons that files describe, by name."""
        with self._mutex:
            self._look()
            names = sorted(
                each.stem for each in self._entries() if each.suffix == ".toml" and NAME.fullmatch(each.stem)
            )
            running = self._running[0] if self._running is not None else None
            return [Comparison(name=name, running=name == running, error=self._errors.get(name, "")) for name in names]

    def start(self, name: str) -> str | None:
        """Begin a comparison in a process of its own. Returns why it is not begun; ``None`` = it is."""
        with self._mutex:
            self._look()
            if self._running is not None:
                return f"the comparison {self._running[0]} is running: one runs at a time"
            folder = self.folder
            if folder is None or not NAME.fullmatch(name) or not (folder / f"{name}.toml").is_file():
                return f"there is no comparison {name}"
            out = folder / name
            out.mkdir(exist_ok=True)
            command = (*_COMMAND, "--config", str(folder / f"{name}.toml"), "--out", str(out))
            with (out / LOG).open("wb") as log:
                process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)  # noqa: S603 - fixed
            self._running = (name, process)
            self._errors.pop(name, None)
            return None

    def stop(self) -> None:
        """End a comparison that is running."""
        with self._mutex:
            if self._running is not None:
                self._running[1].terminate()
                self._running[1].wait()
                self._running = None

    def _look(self) -> None:
        """Note the end of a comparison."""
        if self._running is None:
            return
        name, process = self._running
        code = process.poll()
        if code is None:
            return
        self._running = None
        if code not in (0, 1) and self.folder is not None:  # 1 = there are differences, which the report shows
            text = (self.folder / name / LOG).read_bytes()[-400:].decode("utf-8", "replace").strip()
            self._errors[name] = f"it ended with exit code {code}: {text}"

    def _entries(self) -> list[Path]:
        if self.folder is None or not self.folder.is_dir():
            return []
        return sorted(self.folder.iterdir())[:MOST]
