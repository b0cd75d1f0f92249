"""Each rule, decision, figure, section and page that is cited exists in the repository."""

from __future__ import annotations

import re
import sys
from collections import Counter

import pytest

from .pages import ROOT
from .rules import (
    DECISIONS,
    PAGE,
    cited_decisions,
    cited_figures,
    cited_pages,
    cited_rules,
    cited_sections,
    citing_tests,
    code,
    everywhere,
    filled,
    known_decisions,
    known_figures,
    known_sections,
    rules,
    uncited,
)

TEXT = PAGE.read_text(encoding="utf-8")
RULES = rules(TEXT)


def test_every_id_that_is_cited_is_a_rule_of_the_catalogue() -> None:
    known = {rule.id for rule in RULES}
    unknown = {(name, rule) for name, text in everywhere() for rule in cited_rules(text) if rule not in known}
    assert unknown == set()


def test_every_decision_that_is_cited_is_there() -> None:
    known = known_decisions()
    unknown = {(name, number) for name, text in everywhere() for number in cited_decisions(text) if number not in known}
    assert unknown == set()


def test_every_figure_and_section_that_is_cited_is_there() -> None:
    figures, sections = known_figures(TEXT), known_sections(TEXT)
    unknown = {
        (name, cited)
        for name, text in everywhere()
        for cited in (*cited_figures(text), *(f"section {each}" for each in cited_sections(text)))
        if cited not in figures and cited.removeprefix("section ") not in sections
    }
    assert unknown == set()


def test_every_page_that_code_names_is_there() -> None:
    unknown = {
        (name, page)
        for name, text in code("mercury", "tests", "samples", "benchmarks")
        for page in cited_pages(text)
        if not (ROOT / page).is_file() and not (ROOT / "docs" / page).is_file()
    }
    assert unknown == set()


def test_the_generated_parts_of_the_catalogue_are_up_to_date() -> None:
    tests = citing_tests()
    sys.stdout.write(f"no test cites {', '.join(uncited(TEXT, tests))}\n")
    assert filled(TEXT, tests) == TEXT, "run: python -m tests.docs.rules"


def test_every_rule_says_where_it_is_kept_or_why_it_is_not() -> None:
    vague = [rule.id for rule in RULES if rule.held and not rule.files]
    vague += [rule.id for rule in RULES if not rule.held and len(rule.kept) < len("not held: as MC-01")]
    gone = [(rule.id, file) for rule in RULES for file in rule.files if not (ROOT / "mercury" / file).is_file()]
    assert (vague, gone) == ([], [])


def test_every_rule_stands_once_with_its_specification() -> None:
    assert [rule for rule, count in Counter(rule.id for rule in RULES).items() if count > 1] == []
    assert [rule.id for rule in RULES if not rule.what or not rule.specification] == []
    assert len(RULES) > 250


# --- decisions -------------------------------------------------------------------------------------------------------


def decisions() -> list[str]:
    return sorted(path.name for path in DECISIONS.glob("*.md"))


def test_each_decision_has_a_number_of_its_own() -> None:
    numbers = [int(name[:4]) for name in decisions() if name != "README.md"]
    assert len(numbers) == len(set(numbers))


@pytest.mark.parametrize("name", decisions())
def test_a_decision_has_its_context_its_consequences_and_its_tests(name: str) -> None:
    text = (DECISIONS / name).read_text(encoding="utf-8")
    if name == "README.md":
        assert [each for each in decisions() if each != name and f"]({each})" not in text] == []
        return
    assert re.match(rf"# {int(name[:4])}\. \S", text), "the title begins with the number"
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == ["Context", "Decision", "Consequences", "Tests"]
    assert re.search(r"tests/[\w/]+\.py", text.partition("## Tests")[2]), "no test is named"
    assert len(text.splitlines()) < 60


# --- planted ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "cited"),
    [
        ("(RM-ACK-03)", ["RM-ACK-03"]),
        ("NS-08 to NS-10, ST-S01", ["NS-08", "NS-09", "NS-10", "ST-S01"]),
        ("RM10-SCH-05 to -07", ["RM10-SCH-05", "RM10-SCH-06", "RM10-SCH-07"]),
        ("(RM-CS-07, -08)", ["RM-CS-07", "RM-CS-08"]),
        ("UTF-16, SHA-256, ISO-8859-1", []),
    ],
)
def test_the_ids_that_a_text_cites_are_found(text: str, cited: list[str]) -> None:
    assert list(cited_rules(text)) == cited


def test_decisions_figures_and_sections_that_a_text_cites_are_found() -> None:
    assert list(cited_decisions("decision 3; decisions 4 and 8; decisions 16 to 18")) == [3, 4, 8, 16, 17, 18]
    assert list(cited_figures("Figure 3-14, figures 3-17 to 3-19")) == ["3-14", "3-17", "3-18", "3-19"]
    assert list(dict.fromkeys(cited_sections("docs/protocol.md, section 17b"))) == ["17b"]
    assert list(cited_sections("docs/protocol.md, sections 3 to 5, 11")) == ["3", "4", "5", "11"]
    assert cited_pages('"""See plans.md, and docs/protocol.md."""') == ["plans.md", "docs/protocol.md"]


def test_a_rule_without_a_test_is_listed_and_one_that_is_not_held_is_not() -> None:
    row = "| {} | It holds. | RM 1.1 | {} | |\n"
    text = (
        row.format("NS-01", "`wire/ns.py`") + row.format("NS-02", "`wire/ns.py`") + row.format("NS-03", "not held: why")
    )
    assert uncited(text, {"NS-02": ["unit/test_a"]}) == ["NS-01"]
