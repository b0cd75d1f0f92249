"""``make conformance``: counts the rules of docs/protocol.md, those that hold, and those that tests cite.

It lists the other rules. The numbers are computed from the page and from the tests, so they are always current.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from .pages import prose
from .rules import PAGE, Rule, citing_tests, rules

_TITLE = re.compile(r"^## (\w+\. .+)$", re.MULTILINE)


@dataclass(frozen=True)
class Section:
    """The rules of one section of the page."""

    title: str
    rules: tuple[Rule, ...]
    #: The ids that a test cites.
    cited: frozenset[str]

    @property
    def held(self) -> list[Rule]:
        return [rule for rule in self.rules if rule.held]

    @property
    def shown(self) -> list[Rule]:
        """Held, and cited by a test."""
        return [rule for rule in self.held if rule.id in self.cited]


def sections(text: str, cited: frozenset[str]) -> Iterator[Section]:
    """The sections of a page that have rules, in their order."""
    _, *parts = _TITLE.split(prose(text))
    for title, content in zip(parts[::2], parts[1::2], strict=True):
        found = rules(content)
        if found:
            yield Section(title, tuple(found), cited)


def report(text: str, cited: frozenset[str]) -> str:
    """The counts of each section and of all; then the rules that are not held, with the reason, or cited by no test."""
    found = list(sections(text, cited))
    every = Section("All", tuple(rule for each in found for rule in each.rules), cited)
    width = max(len(each.title) for each in found)
    lines = [f"{'':{width}}  rules  held  cited by tests"]
    for each in (*found, every):
        lines.append(f"{each.title:{width}}  {len(each.rules):5}  {len(each.held):4}  {len(each.shown):14}")
    lines += ["", "Not held:"]
    lines += [f"  {rule.id}: {rule.kept.removeprefix('not held: ')}" for rule in every.rules if not rule.held]
    lines += ["", "Held, and cited by no test:"]
    lines += [f"  {rule.id}: {rule.what}" for rule in every.held if rule.id not in cited] or ["  none"]
    return "\n".join(lines) + "\n"


def main() -> None:
    sys.stdout.write(report(PAGE.read_text(encoding="utf-8"), frozenset(citing_tests())))


if __name__ == "__main__":
    main()
