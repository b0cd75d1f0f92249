"""The files and names in CONTRIBUTING.md exist."""

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


def defines(text: str, name: str) -> bool:
    """Whether a file's text defines a function, class, constant, field or variable of this name."""
    return re.search(rf"(?:\bdef|\bclass) {name}\b|^ *{name}\b *[:=]", text, re.MULTILINE) is not None


def test_every_name_behind_a_file_is_defined_in_it() -> None:
    named = [(file, name, (ROOT / file).read_text(encoding="utf-8")) for file, name in named_in_files(TEXT)]
    assert [(file, name) for file, name, text in named if not defines(text, name)] == []


def test_there_is_something_to_check() -> None:
    assert (len(named_files(TEXT)) > 80, len(list(named_in_files(TEXT))) > 50) == (True, True)


@pytest.mark.parametrize("text", ["`mercury/a.py` (`One`, and `two`)", "`mercury/a.py`\n   (`One`; `two` for it)"])
def test_files_and_names_are_found(text: str) -> None:
    assert named_files(text) == ["mercury/a.py"]
    assert list(named_in_files(text)) == [("mercury/a.py", "One"), ("mercury/a.py", "two")]


def test_a_name_that_is_only_imported_is_not_defined() -> None:
    assert not defines("from a import Thing\n\nmade = Thing()\n", "Thing")
    assert defines("class Thing:\n", "Thing")
    assert defines("THING: int = 1\n", "THING")
