"""The pages use the words of docs/glossary.md; some that were private to this project do not come back."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .pages import ROOT, pages, prose, section, table
from .rules import code

#: A word that is retired, and what to say instead.
RETIRED = {
    r"crews?": "worker pool",
    r"bury|buried": "dead-letter",
    r"aftermath": "effects",
    r"upkeep": "maintenance",
    r"fates?": "transaction status, outcome",
    r"volleys?": "acknowledgement request interval",
    r"company": "several that merge",
    r"liv(?:e|es|ed) again|back to life": "redriven",
    r"can not": "cannot",
}
#: Printed from the code, which is renamed by and by.
PRINTED = {ROOT / "docs/state-machines.md"}


def retired(text: str) -> list[str]:
    """What a page says that should be said otherwise. Names in code spans, and links, do not count."""
    text = re.sub(r"\]\([^)]*\)", "]", re.sub(r"`[^`\n]*`", "", prose(text)))
    found = [(word, instead) for word, instead in RETIRED.items() if re.search(rf"\b(?:{word})\b", text, re.IGNORECASE)]
    return [f"{word}: say {instead}" for word, instead in found]


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_no_page_uses_a_retired_word(page: Path) -> None:
    assert page in PRINTED or retired(page.read_text(encoding="utf-8")) == []


def test_every_term_of_the_glossary_has_a_meaning_and_a_source() -> None:
    text = (ROOT / "docs/glossary.md").read_text(encoding="utf-8")
    text = text.partition("## Older names in code")[0]
    lines = [line for line in text.splitlines() if line.startswith("| ") and not line.startswith("| term")]
    assert [line for line in lines if len([cell for cell in line.strip("| ").split(" | ") if cell.strip()]) != 3] == []
    assert len(lines) > 120


def test_every_older_name_is_still_in_the_code() -> None:
    cells = [row[0] for row in table(section((ROOT / "docs/glossary.md").read_text(), "Older names in code"))]
    names = re.findall(r"`(\w+)`", " ".join(cells))
    words = {word for _, text in code("mercury") for word in re.findall(r"\w+", text)}
    assert (len(names) > 0, [name for name in names if name not in words]) == (True, [])


def test_a_retired_word_is_found_and_a_name_in_code_is_not() -> None:
    assert retired("The crew waits.\n") == ["crews?: say worker pool"]
    assert retired("`engine/runtime/worker_pool.py` and [this](crew.md) accompany it.\n") == []
