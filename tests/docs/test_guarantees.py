"""Each line of docs/guarantees.md and of its parts names a test that exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .pages import ROOT, missing_tests, named_tests, pages, rows, section

TEXT = (ROOT / "docs/guarantees.md").read_text(encoding="utf-8")
#: What the protocol promises.
PARTS = sorted((ROOT / "docs/guarantees").glob("*.md"))


def unproved(text: str) -> list[str]:
    """The promises of a text, as list items or rows of tables, under which no test stands."""
    items = re.split(r"^- ", re.sub(r"^\|.*\n", "", text, flags=re.MULTILINE), flags=re.MULTILINE)[1:]
    found = [item.partition("\n")[0] for item in items if not named_tests(item)]
    return found + [" | ".join(row) for row in rows(text) if row[-1] != "proof" and not named_tests(row[-1])]


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_every_test_that_a_page_names_exists(page: Path) -> None:
    assert missing_tests(page.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("heading", ["What each store promises", "The console", "How it is proved"])
def test_every_promise_has_its_proof(heading: str) -> None:
    assert unproved(section(TEXT, heading)) == []


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
def test_every_promise_of_the_protocol_has_its_proof(part: Path) -> None:
    text = part.read_text(encoding="utf-8")
    assert unproved(text) == []
    assert len(set(named_tests(text))) > 30


def test_there_are_promises() -> None:
    assert len(set(named_tests("".join(part.read_text(encoding="utf-8") for part in PARTS)))) > 600


def test_excluded_combinations_give_the_reason() -> None:
    assert section(TEXT, "What is excluded").count("\n- ") >= 8


def test_every_kind_of_store_has_a_section() -> None:
    stores = section(TEXT, "What each store promises")
    assert re.findall(r"^### `(\w+):`", stores, re.MULTILINE)


# --- planted ---------------------------------------------------------------------------------------------------------


def test_a_test_that_is_gone_is_found(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_a.py").write_text("def test_here(): ...\nclass TestB:\n    def test_in(self): ...\n")
    here = "`tests/test_a.py`, `tests/test_a.py::test_here` and `tests/test_a.py::TestB::test_in`"
    gone = ["tests/test_a.py::test_gone", "tests/test_b.py::test_here", "tests/test_a.py::TestB::test_here"]
    assert missing_tests(f"{here} {' '.join(gone)}", tmp_path) == gone


def test_a_promise_without_proof_is_found() -> None:
    proved = "- **One.** Always.\n  - `tests/a.py::test_one`\n"
    assert unproved(proved + "- **Two.** Never.\n" + proved) == ["**Two.** Never."]
    table = "| what | happens | proof |\n|---|---|---|\n| a | b | `tests/a.py::test_one` |\n| c | d | |\n"
    assert unproved(table) == ["c | d | "]
