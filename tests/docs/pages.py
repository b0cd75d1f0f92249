"""Reads README and docs: their links, headings, code blocks, and the tests and commands that they name."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} +(.+?)\s*$", re.MULTILINE)
_CODE = re.compile(r"`([^`\n]+)`")
_TEST = re.compile(r"tests/[\w/]+\.py(?:::\w+)*")


def pages(root: Path = ROOT) -> list[Path]:
    """README, CONTRIBUTING, and everything in docs and samples that is written for people."""
    return [
        root / "README.md",
        *sorted(root.glob("CONTRIBUTING.md")),
        *sorted((root / "docs").rglob("*.md")),
        *sorted((root / "samples").rglob("*.md")),
    ]


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, and its text."""

    language: str
    text: str


def blocks(text: str) -> list[Block]:
    return [Block(language, inner) for language, inner in _FENCE.findall(text)]


def prose(text: str) -> str:
    """The text without its fenced blocks."""
    return _FENCE.sub("", text)


def code_spans(text: str) -> list[str]:
    return _CODE.findall(prose(text))


# --- links -----------------------------------------------------------------------------------------------------------


def anchors(text: str) -> set[str]:
    """The names that a reader's browser can jump to: one for each heading, as the usual renderers make them."""
    found: set[str] = set()
    for heading in _HEADING.findall(prose(text)):
        plain = re.sub(r"[^\w\- ]", "", heading.replace("`", "").lower()).replace(" ", "-")
        name, count = plain, 0
        while name in found:
            count += 1
            name = f"{plain}-{count}"
        found.add(name)
    return found


def links(text: str) -> list[str]:
    """The targets of a text's links, as they are written."""
    return _LINK.findall(prose(text))


def broken_links(page: Path, root: Path = ROOT) -> list[str]:
    """The links of a page to files or headings that are not there. Links to other hosts are not looked at."""
    found = []
    text = page.read_text(encoding="utf-8")
    for link in links(text):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.is_relative_to(root) or not target.exists():
            found.append(f"{page.relative_to(root)}: {link}: there is no such file")
        elif anchor and anchor not in anchors(target.read_text(encoding="utf-8")):
            found.append(f"{page.relative_to(root)}: {link}: there is no such heading")
    return found


# --- tests -----------------------------------------------------------------------------------------------------------


def named_tests(text: str) -> list[str]:
    """Every ``tests/file.py`` or ``tests/file.py::test`` that a text names."""
    return _TEST.findall(text)


def missing_tests(text: str, root: Path = ROOT) -> list[str]:
    """Those of them that are not there."""
    return [name for name in named_tests(text) if not _is_there(root, *name.split("::"))]


def _is_there(root: Path, path: str, *names: str) -> bool:
    file = root / path
    return file.is_file() and names in _defined(root, file)


@functools.cache
def _defined(root: Path, file: Path) -> frozenset[tuple[str, ...]]:
    """What a file defines, each with the names of what it is in; also the file itself, without a name."""
    nodes: list[ast.stmt] = ast.parse(file.read_text(encoding="utf-8")).body
    for node in list(nodes):
        # The tests of the stores' contract are those of `mercury.testing`.
        if isinstance(node, ast.ImportFrom) and node.module and [each.name for each in node.names] == ["*"]:
            brought = root / (node.module.replace(".", "/") + ".py")
            nodes += ast.parse(brought.read_text(encoding="utf-8")).body
    return frozenset({(), *_names_in(nodes)})


def _names_in(nodes: Iterable[ast.stmt], *around: str) -> Iterator[tuple[str, ...]]:
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield (*around, node.name)
            yield from _names_in(node.body, *around, node.name)


# --- tables ----------------------------------------------------------------------------------------------------------


def section(text: str, heading: str) -> str:
    """What stands below a heading, up to the next one of its level or above."""
    start = re.search(rf"^(#+) +{re.escape(heading)}\s*$", text, re.MULTILINE)
    assert start is not None, f"there is no heading {heading!r}"
    rest = text[start.end() :]
    end = re.search(rf"^#{{1,{len(start[1])}}} ", rest, re.MULTILINE)
    return rest[: end.start()] if end else rest


def rows(text: str) -> Iterator[list[str]]:
    """The rows of the tables in a text, without their heads."""
    for line in text.splitlines():
        if line.startswith("|") and not re.fullmatch(r"\|[\s|:-]+\|", line):
            cells = [cell.strip().replace(r"\|", "|") for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]
            yield cells


def table(text: str) -> list[list[str]]:
    """The rows of the one table in a text."""
    return list(rows(text))[1:]
