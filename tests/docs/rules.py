"""Reads docs/protocol.md and all citations: rules by id, decisions by number, figures, sections, pages.

``python -m tests.docs.rules`` writes the generated parts of the page (the column of tests, and the list of rules that
no test cites) and prints that list.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .pages import ROOT, pages, prose, rows

PAGE = ROOT / "docs/protocol.md"
DECISIONS = ROOT / "docs/decisions"

_FAMILIES = "NS|ACT|SCH|RM|RM10|RM11|MC|DA|ST|FC|POL|SEC|IOP|LIVE|FLT|WSA|HTTP"
_ID = rf"(?:{_FAMILIES})(?:-[A-Z]+)*-[A-Z]?\d\d"
#: ``NS-08``, ``NS-08 to NS-10``, ``RM10-SCH-05 to -07``, ``RM-CS-07, -08``
_CITED = re.compile(rf"\b({_ID})\b(?: to (?:(?:{_FAMILIES})(?:-[A-Z]+)*)?-[A-Z]?(\d\d)\b)?((?:, -\d\d\b)*)")
_DECISION = re.compile(r"\bdecisions? (\d+)(?:(, \d+)*(?: (and|to) (\d+))?)", re.IGNORECASE)
_FIGURE = re.compile(r"\bfigures? (\d+-\d+)(?: to (?:\d+-)?(\d+))?", re.IGNORECASE)
_SECTION = re.compile(r"docs/protocol\.md, sections? (\w+)(?: (and|to) (\w+))?(?:, (\d+\w?)\b)?")
_PAGE = re.compile(r"(?<![\w/.])((?:docs/)?[\w/-]+\.md)\b")
_BEGIN, _END = "<!-- generated: rules that no test cites -->", "<!-- end of what is generated -->"
#: What is planted there stands for what is wrong.
_PLANTED = ("tests/docs", "tests/architecture", "tests/mutation")


@dataclass(frozen=True)
class Rule:
    """One row of a table of rules."""

    id: str
    what: str
    specification: str
    #: Files of ``mercury/``, or "not held: why".
    kept: str

    @property
    def held(self) -> bool:
        return not self.kept.startswith("not held")

    @property
    def files(self) -> list[str]:
        return re.findall(r"`([\w/]+\.py)`", self.kept)


# --- what is cited ---------------------------------------------------------------------------------------------------


def cited_rules(text: str) -> Iterator[str]:
    """The ids that a text cites; a range cites all that it spans."""
    for match in _CITED.finditer(text):
        stem, low = match[1][:-2], int(match[1][-2:])
        yield from (f"{stem}{number:02}" for number in range(low, int(match[2] or low) + 1))
        yield from (f"{stem}{number}" for number in re.findall(r"\d\d", match[3]))


def cited_decisions(text: str) -> Iterator[int]:
    """The numbers of decisions that a text cites."""
    for match in _DECISION.finditer(text):
        first, *rest = (int(number) for number in re.findall(r"\d+", match[0]))
        yield from range(first, rest[-1] + 1) if match[3] == "to" else (first, *rest)


def cited_figures(text: str) -> Iterator[str]:
    """The figures of the dissertation that a text cites."""
    for match in _FIGURE.finditer(text):
        chapter, low = match[1].split("-")
        yield from (f"{chapter}-{number}" for number in range(int(low), int(match[2] or low) + 1))


def cited_sections(text: str) -> Iterator[str]:
    """The sections of docs/protocol.md that a text cites."""
    for match in _SECTION.finditer(text):
        first, kind, second, third = match.groups()
        yield from map(str, range(int(first), int(second) + 1)) if kind == "to" else (first, second or first)
        if third is not None:
            yield third


def cited_pages(text: str) -> list[str]:
    """The pages of the repository that a text names."""
    return _PAGE.findall(text)


# --- where -----------------------------------------------------------------------------------------------------------


def code(*tops: str, root: Path = ROOT) -> Iterator[tuple[str, str]]:
    """Every Python file below some folders: its path, and its text. What plants mistakes is left out."""
    for top in tops:
        for path in sorted((root / top).rglob("*.py")):
            name = path.relative_to(root).as_posix()
            if not name.startswith(_PLANTED):
                yield name, path.read_text(encoding="utf-8")


def everywhere() -> Iterator[tuple[str, str]]:
    """What may cite: code, tests, and the pages."""
    yield from code("mercury", "tests", "samples", "benchmarks")
    for page in pages():
        yield page.relative_to(ROOT).as_posix(), page.read_text(encoding="utf-8")


# --- the page --------------------------------------------------------------------------------------------------------


def rules(text: str) -> list[Rule]:
    """The rules of a page, in their order."""
    return [Rule(*cells[:4]) for cells in rows(text) if re.fullmatch(_ID, cells[0]) and len(cells) >= 4]


def known_figures(text: str) -> set[str]:
    return {cells[0] for cells in rows(text) if re.fullmatch(r"\d+-\d+", cells[0])}


def known_sections(text: str) -> set[str]:
    return set(re.findall(r"^## (\w+)\. ", prose(text), re.MULTILINE))


def known_decisions() -> set[int]:
    return {int(path.name[:4]) for path in DECISIONS.glob("[0-9][0-9][0-9][0-9]-*.md")}


def citing_tests(root: Path = ROOT) -> dict[str, list[str]]:
    """For each id the files of tests that cite it, without ``.py`` and their first folder."""
    found: dict[str, list[str]] = defaultdict(list)
    for name, text in code("tests", "mercury/testing/contract", root=root):
        for rule in dict.fromkeys(cited_rules(text)):
            found[rule].append(name.removeprefix("tests/").removeprefix("mercury/").removesuffix(".py"))
    return found


def filled(text: str, tests: dict[str, list[str]]) -> str:
    """The page with its generated parts as they should be."""
    lines = []
    for line in text.splitlines():
        cells = next(rows(line), [""])
        if re.fullmatch(_ID, cells[0]):
            cells = [*cells[:4], ", ".join(tests.get(cells[0], ())) or "-"]
            line = "| " + " | ".join(cells) + " |"
        lines.append(line)
    text = "\n".join(lines) + "\n"
    before, begin, rest = text.partition(_BEGIN)
    assert begin, f"{PAGE.name} has no {_BEGIN}"
    listed = ", ".join(uncited(text, tests)) or "None."
    return f"{before}{begin}\n\n{listed}\n\n{_END}{rest.partition(_END)[2]}"


def uncited(text: str, tests: dict[str, list[str]]) -> list[str]:
    """The rules that Mercury keeps and no test cites."""
    return [rule.id for rule in rules(text) if rule.held and rule.id not in tests]


def main() -> None:
    text, tests = PAGE.read_text(encoding="utf-8"), citing_tests()
    PAGE.write_text(filled(text, tests), encoding="utf-8")
    none = uncited(text, tests)
    sys.stdout.write(f"{len(rules(text))} rules; no test cites {len(none)}: {', '.join(none)}\n")


if __name__ == "__main__":
    main()
