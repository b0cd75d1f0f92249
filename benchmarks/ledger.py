"""The lines of ``results.jsonl``: what is measured, step by step, and what an earlier run of the same code measured.

Each line names its step. A step that has ended has a last line, with its seconds and the conditions: only that says
that its lines are complete, so an interrupted run can be continued.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from benchmarks.child import ROOT

NAME = "results.jsonl"
#: The part of the last line of a step.
ENDED = "step"
#: What is measured, and what measures: a commit that changes nothing here gives the same figures.
MEASURED = ("mercury", "benchmarks", "samples/hello", "constraints.txt", ":!benchmarks/*.md", ":!benchmarks/*.svg")
OWN = (f":!benchmarks/{NAME}",)


def measured_commit(root: Path = ROOT) -> str | None:
    """The last commit that changed what is measured; ``None`` = it is changed now, or there is no repository."""

    def git(*arguments: str) -> str | None:
        command = ["git", *arguments, "--", *MEASURED, *OWN]
        try:
            done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
        except FileNotFoundError:
            return None
        return None if done.returncode else done.stdout.strip()

    if git("status", "--porcelain", "--untracked-files=no") != "":
        return None
    return git("log", "-1", "--format=%h") or None


def lines_of(path: Path) -> list[dict[str, Any]]:
    """The records of a file; a last line that was not written in full is left out."""
    found = []
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            found.append(json.loads(line))
        except ValueError:
            break
    return found


def seconds_of(paths: Iterable[Path]) -> dict[str, float]:
    """How long each step took, in any conditions; the last file counts."""
    return {
        str(line["step"]): float(line["seconds"])
        for path in paths
        for line in lines_of(path)
        if line.get("part") == ENDED
    }


class Ledger:
    """The file of a run.

    :param conditions: the commit, and what else figures depend on; steps of other conditions are not kept.
    :param resume: keep what the file has of steps that have ended under the same conditions.
    """

    def __init__(self, path: Path, conditions: dict[str, object], *, resume: bool) -> None:
        self._conditions = conditions
        kept = lines_of(path) if resume else []
        #: The steps that need not be measured again.
        self.ended = {
            str(line["step"])
            for line in kept
            if line["part"] == ENDED and all(line.get(name) == value for name, value in conditions.items())
        }
        self._lines = [line for line in kept if line.get("step") in self.ended]
        self._path = path
        self._file: IO[str] | None = None

    @property
    def records(self) -> list[dict[str, Any]]:
        """What was measured, without the ends of the steps."""
        return [line for line in self._lines if line["part"] != ENDED]

    def __enter__(self) -> Ledger:
        self._file = self._path.open("w")
        for line in self._lines:
            self._write(line)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._file is not None
        self._file.close()

    def add(self, step: str, record: dict[str, Any]) -> None:
        line = {"step": step, **record}
        self._lines.append(line)
        self._write(line)

    def end(self, step: str, seconds: float) -> None:
        """The step has measured all that it should."""
        self.add(step, {"part": ENDED, "seconds": round(seconds, 1), **self._conditions})
        self.ended.add(step)

    def _write(self, line: dict[str, Any]) -> None:
        assert self._file is not None
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()
