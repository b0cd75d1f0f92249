"""CONTRIBUTING.md names files and names that there are."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from .pages import ROOT, prose

TEXT = prose((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
FOLDERS = ("mercury", "tests", "samples", "benchmarks", "docs")


def named_files(text: str) -> list[str]:
    """The code spans that are files or folders of the repository."""
    return re.findall(rf"`((?:{'|'.join(FOLDERS)})/[\w/.-]*)`", text)


def named_in_files(text: str) -> Iterator[tuple[str, str]]:
    """The names in brackets behind a file, each with the file."""
    for file, names in re.findall(r"`([\w/]+\.py)`\s+\(((?:[^()`]*`\w+`)+)[^()]*\)", text):
        yield from ((file, name) for name in re.findall(r"`(\w+)`", names))


def test_every_file_that_is_named_is_there() -> None:
    assert [file for file in named_files(TEXT) if not (ROOT / file).exists()] == []


def test_every_name_behind_a_file_is_in_it() -> None:
    missing = [
        (file, name)
        for file, name in named_in_files(TEXT)
        if not re.search(rf"\b{name}\b", (ROOT / file).read_text(encoding="utf-8"))
    ]
    assert missing == []


def test_there_is_something_to_check() -> None:
    assert (len(named_files(TEXT)) > 80, len(list(named_in_files(TEXT))) > 50) == (True, True)


@pytest.mark.parametrize("text", ["`mercury/a.py` (`One`, and `two`)", "`mercury/a.py`\n   (`One`; `two` for it)"])
def test_files_and_names_are_found(text: str) -> None:
    assert named_files(text) == ["mercury/a.py"]
    assert list(named_in_files(text)) == [("mercury/a.py", "One"), ("mercury/a.py", "two")]
