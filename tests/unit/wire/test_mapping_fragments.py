"""Raw XML out of a document with namespace declarations around it: it has those that it uses, and it stays small."""

from __future__ import annotations

import tracemalloc
from dataclasses import dataclass, field

import pytest
from lxml import etree

from mercury.errors import PayloadError
from mercury.wire.mapping import Xml, from_xml, to_xml

NS = "urn:example:notes"
MIB = 1024 * 1024


@dataclass
class Note:
    content: Xml | None = None
    parts: list[Xml] = field(default_factory=list)
    inner: Note | None = None


def declarations(count: int, letter: str, length: int = 1000) -> str:
    return "".join(f' xmlns:{letter}{number}="urn:{number}:{"n" * length}"' for number in range(count))


def content(inside: str, around: str = "") -> bytes:
    raw = from_xml(
        f'<Note xmlns="{NS}" {around}><content xmlns="">{inside}</content></Note>'.encode(), Note, NS
    ).content
    assert raw is not None
    etree.fromstring(b"<x>%b</x>" % raw)  # all prefixes of names are declared
    assert from_xml(to_xml(Note(raw), NS), Note, NS) == Note(raw)
    return raw


def crowded(shape: str, child: str, count: int) -> bytes:
    """Many elements of raw XML below 120 declarations of 1,000 bytes each."""
    q = declarations(60, "q")
    if shape == "one field":
        inside = f"<content{q}>{child * count}</content>"
    else:
        own = ' xmlns:z="urn:z"' if "own" in shape else ""
        inside = f"<inner{q}>{f'<parts{own}>{child}</parts>' * count}</inner>"
    return f'<Note xmlns="{NS}"{declarations(60, "p")}>{inside}</Note>'.encode()


@pytest.mark.parametrize("shape", ["one field", "list", "list with declarations of its own"])
@pytest.mark.parametrize("child", ["<x/>", "<x>at 10:30</x>", '<x a="r0:T"/>', "<!---->"])
def test_declarations_that_no_element_uses_are_not_repeated(shape: str, child: str) -> None:
    message = crowded(shape, child, 4000)
    tracemalloc.start()
    try:
        note = from_xml(message, Note, NS)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    raw = note.content if note.inner is None else b"".join(note.inner.parts)
    assert raw is not None
    assert raw.count(b"<") == child.count("<") * 4000
    assert len(raw) < 2 * len(message)
    assert peak < 16 * MIB


@pytest.mark.parametrize("child", ['<q0:x q1:a=""/>', f"<x>{' '.join(f'p{number}:T' for number in range(60))}</x>"])
@pytest.mark.parametrize("shape", ["one field", "list", "list with declarations of its own"])
def test_declarations_that_every_element_uses_are_refused_above_the_limit(shape: str, child: str) -> None:
    assert from_xml(crowded(shape, child, 10), Note, NS)
    message = crowded(shape, child, 8000)
    tracemalloc.start()
    try:
        with pytest.raises(PayloadError, match=r"the elements need more than \d+ bytes of namespace") as refused:
            from_xml(message, Note, NS)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert str(refused.value).startswith("Note/content: " if shape == "one field" else "Note/inner/parts[")
    assert peak < 48 * MIB


def test_elements_with_many_words_before_colons_declare_all_prefixes() -> None:
    around = "".join(f' xmlns:p{number}="urn:{number}"' for number in range(10))
    inside = f"<x>{''.join(f'a{number}:' for number in range(600_000))}</x><x>p1:T</x>"
    raw = from_xml(f"<Note{around}><content>{inside}</content></Note>".encode(), Note, "").content
    assert raw is not None
    first, second = raw.split(b"</x><x")
    assert (first.count(b"xmlns:"), second.count(b"xmlns:")) == (10, 10)  # the elements share the limit on searching


def test_declarations_count_as_they_are_written() -> None:
    prefixes = [chr(letter) for letter in range(ord("a"), ord("z") + 1)]
    around = "".join(f' xmlns:{prefix}="{"&amp;" * 1000}"' for prefix in prefixes)
    child = f"<x>{''.join(f'{prefix}:' for prefix in prefixes)}</x>"
    message = f'<Note xmlns="{NS}"{around}><content>{child * 5000}</content></Note>'.encode()
    tracemalloc.start()
    try:
        with pytest.raises(PayloadError, match="bytes of namespace declarations"):
            from_xml(message, Note, NS)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 16 * MIB


@pytest.mark.parametrize(
    "inside",
    [
        "<p:a/>",
        "<a><p:b/></a>",
        '<a p:b=""/>',
        '<a type="p:T"/>',
        "<a>p:T</a>",
        "<a>x | -p:T</a>",
        "<a>3p:T</a>",
        "<a>“p:T”</a>",
        "<a>x-p:T</a>",
        "<a>very.long.text.before-p:T</a>",
        "<a>p<!-- -->:T</a>",
        "<a>p<![CDATA[:]]>T</a>",
        "<a>&#112;:T</a>",
        '<a xmlns:q="urn:q">q:p:T</a>',
        '<a b="c"/>text<a>p:T</a>',
        '<a><b xmlns:p="urn:other"/>p:T</a>',
    ],
)
def test_prefix_from_around_an_element_is_declared_in_it_wherever_it_is_used(inside: str) -> None:
    assert b' xmlns:p="urn:p"' in content(inside, 'xmlns:p="urn:p"')


@pytest.mark.parametrize("inside", ["<a/>", "<a>p</a>", "<a>pp:T</a>", "<a>sp:T</a>", "<a><!-- p: --></a>", "p:T<a/>"])
def test_prefix_that_an_element_does_not_use_is_not_declared_in_it(inside: str) -> None:
    assert content(inside, 'xmlns:p="urn:p"') == inside.encode()


def test_prefixes_with_letters_of_any_script_are_declared() -> None:
    around = 'xmlns:é="urn:1" xmlns:λόγος="urn:2" xmlns:a.b-c1="urn:3"'
    assert content("<é:x/><x>λόγος:T</x><x a='a.b-c1:T'/>", around).count(b"xmlns:") == 3


def test_declaration_of_an_element_wins_over_the_one_around_it() -> None:
    raw = content('<p:a xmlns:p="urn:inner"><p:b/></p:a><p:c/>', 'xmlns:p="urn:outer"')
    assert raw == b'<p:a xmlns:p="urn:inner"><p:b/></p:a><p:c xmlns:p="urn:outer"/>'


def test_default_namespace_around_an_element_holds_in_it_unless_it_was_cancelled() -> None:
    xml = f'<Note xmlns="{NS}"><content><a/>text<b xmlns=""/><c xmlns="urn:c"/></content></Note>'.encode()
    raw = from_xml(xml, Note, NS).content
    assert raw == f'<a xmlns="{NS}"/>text<b xmlns=""/><c xmlns="urn:c"/>'.encode()


def test_namespace_with_characters_of_markup_is_escaped_in_the_copy() -> None:
    assert content("<p:a/>", 'xmlns:p="urn:a?b&amp;c"') == b'<p:a xmlns:p="urn:a?b&amp;c"/>'


@pytest.mark.parametrize(
    "inside", ["", "text", "<!-- c -->", "<?pi a>b?>", "a&amp;b", "<a/>\n <b/> ", '<a b="&gt;"/>x']
)
def test_content_without_declarations_around_it_is_the_same_bytes(inside: str) -> None:
    assert content(inside) == inside.encode()


def test_declaration_of_another_encoding_is_ignored_also_for_raw_xml() -> None:
    xml = (
        '<?xml version="1.0" encoding="ISO-8859-1"?><!-- é --><Note><content a=">">é<é>é</é></content></Note>'.encode()
    )
    assert from_xml(xml, Note, "").content == "é<é>é</é>".encode()
