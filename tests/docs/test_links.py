"""Every link in README and docs leads to a file and a heading that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .pages import ROOT, anchors, broken_links, links, pages, prose


def test_there_are_pages_to_check() -> None:
    names = {path.relative_to(ROOT).as_posix() for path in pages()}
    assert {"README.md", "docs/guarantees.md", "docs/reference.md", "docs/tutorial.md", "docs/how-to.md"} <= names


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    assert broken_links(page) == []


@pytest.mark.parametrize(("name", "least"), [("how-to", 40), ("guarantees", 20)])
def test_an_index_leads_to_every_section_of_its_pages(name: str, least: int) -> None:
    index = links((ROOT / f"docs/{name}.md").read_text(encoding="utf-8"))
    sections = {
        f"{name}/{page.name}#{anchor}"
        for page in (ROOT / f"docs/{name}").glob("*.md")
        for heading in re.findall(r"^## .*", prose(page.read_text(encoding="utf-8")), re.MULTILINE)
        for anchor in anchors(heading)
    }
    assert len(sections) > least
    assert sections - set(index) == set()


def test_a_heading_has_the_name_that_it_is_linked_by() -> None:
    text = "# One `two:` three\n\n## Twice\n\n### Twice\n\n```sh\n# no heading\n```\n"
    assert anchors(text) == {"one-two-three", "twice", "twice-1"}


@pytest.mark.parametrize("link", ["gone.md", "other.md#nowhere", "#nowhere", "../outside.md"])
def test_a_link_that_leads_nowhere_is_found(tmp_path: Path, link: str) -> None:
    root = tmp_path / "tree"
    root.mkdir()
    (tmp_path / "outside.md").write_text("# Outside\n")
    (root / "other.md").write_text("# Here\n")
    page = root / "page.md"
    page.write_text(f"# Top\n\n[a](other.md#here) [b](#top) [c](https://example.org/x#y) and [d]({link})\n")
    (found,) = broken_links(page, root)
    assert found.startswith(f"page.md: {link}: ")
