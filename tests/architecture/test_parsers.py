"""One kind of parser parses the documents of peers, and it reads no other file or URL."""

from __future__ import annotations

from pathlib import Path

from .imports import python_files

ROOT = Path(__file__).resolve().parents[2]


def test_parsers_of_libxml2_are_made_in_one_file() -> None:
    files = [path for path in python_files(ROOT, "mercury") if "etree.XMLParser(" in (ROOT / path).read_text("utf-8")]
    assert [path.relative_to(ROOT).as_posix() for path in files] == ["mercury/wire/xml_parser.py"]
