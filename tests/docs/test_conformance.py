"""``make conformance`` counts each rule once, and gives the reason for each rule that does not hold."""

from __future__ import annotations

import re

import pytest

from . import conformance
from .conformance import report, sections
from .pages import ROOT
from .rules import PAGE, citing_tests, rules

TEXT = PAGE.read_text(encoding="utf-8")
ROW = "| {} | It holds. | RM 1.1 | {} | - |\n"


def test_every_rule_of_the_page_is_counted_in_one_section() -> None:
    counted = [rule.id for section in sections(TEXT, frozenset()) for rule in section.rules]
    assert counted == [rule.id for rule in rules(TEXT)]


def test_it_prints_the_counts_of_the_page_and_the_reason_of_each_rule_that_is_not_held(
    capsys: pytest.CaptureFixture[str],
) -> None:
    conformance.main()
    printed = capsys.readouterr().out
    every = rules(TEXT)
    held = [rule for rule in every if rule.held]
    citing = citing_tests()
    cited = [rule for rule in held if rule.id in citing]
    assert re.search(rf"^All +{len(every)} +{len(held)} +{len(cited)}$", printed, re.MULTILINE)
    listed, _, uncited = printed.partition("Not held:\n")[2].partition("Held, and cited by no test:\n")
    assert {rule.id for rule in every if not rule.held} == set(re.findall(r"^  ([\w-]+): \S", listed, re.MULTILINE))
    assert len(re.findall(r"^  ([\w-]+): \S", uncited, re.MULTILINE)) == len(held) - len(cited)


def test_a_rule_is_counted_as_shown_only_when_it_is_held_and_cited() -> None:
    text = "## 1. One\n\n" + "".join(
        (ROW.format("NS-01", "`wire/ns.py`"), ROW.format("NS-02", "`wire/ns.py`"), ROW.format("NS-03", "not held: why"))
    )
    printed = report(text, frozenset({"NS-01", "NS-03"}))
    assert re.search(r"^1\. One +3 +2 +1$", printed, re.MULTILINE)
    assert "NS-03: why" in printed
    assert "NS-02: It holds." in printed


def test_every_rule_that_is_held_is_cited_by_a_test() -> None:
    assert report(TEXT, frozenset(citing_tests())).endswith("Held, and cited by no test:\n  none\n")


def test_make_runs_it() -> None:
    assert "-m tests.docs.conformance\n" in (ROOT / "Makefile").read_text(encoding="utf-8")
