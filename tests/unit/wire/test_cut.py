"""An element that is cut out of a document gets the same declarations whichever way its prefixes are found."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mercury.wire import cut as module
from mercury.wire.cut import FEW_PREFIXES, Prefixes, Steps, cut, searchable, uses
from mercury.wire.read_common import Document
from mercury.wire.scan import DEFAULT_LIMITS, Scanner

from .test_fuzz import wire

#: Some are the end of others.
PREFIXES = ["a", "b", "ab", "a-b", "_a", "a1", "b.a", "\N{LATIN SMALL LETTER E WITH ACUTE}", "a\N{MIDDLE DOT}b"]
#: What stands around prefixes: letters and other characters of names, separators, and what a reader does not see.
AROUND = [
    "x",
    "_",
    "-",
    ".",
    "1",
    " ",
    "(",
    "'",
    "::",
    "&#58;",
    "&#97;",
    "<!--a:-->",
    "<![CDATA[b:]]>",
    "\N{WHITE SUN}",
]
TEXTS = st.lists(st.sampled_from([*PREFIXES, *(f"{each}:" for each in PREFIXES), *AROUND]), max_size=30).map("".join)


def cut_within(text: str, *, others: int) -> bytes:
    """An element with this text, cut out of one that declares the prefixes, and others among them."""
    declared = [f"xmlns:{prefix}='urn:{prefix}'" for prefix in PREFIXES]
    declared[1:1] = [f"xmlns:zz{number}='urn:z'" for number in range(others)]
    data = f"<r xmlns='urn:r' {' '.join(declared)}><c xmlns:b='urn:nearer'>{text}</c></r>".encode()
    root = Scanner(data, DEFAULT_LIMITS, levels=2).run()
    return cut(data, root.children[0])


@wire
@given(TEXTS)
def test_element_gets_the_same_declarations_however_many_are_around_it(text: str) -> None:
    assert cut_within(text, others=30) == cut_within(text, others=0)


@wire
@given(TEXTS, st.integers(1, 12))
def test_prefixes_are_found_by_one_reading_as_by_a_search_for_each(text: str, piece: int) -> None:
    plain = searchable(f"<c>{text}</c>".encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_PIECE", piece)
        assert set(Prefixes(PREFIXES, Steps()).used_in(plain)) == {prefix for prefix in PREFIXES if uses(plain, prefix)}


def test_declarations_are_in_the_order_of_those_around_the_element() -> None:
    assert len(PREFIXES) <= FEW_PREFIXES
    for others in (0, 30):
        assert cut_within("_a: a: ab:", others=others).startswith(
            b'<c xmlns="urn:r" xmlns:a="urn:a" xmlns:ab="urn:ab" xmlns:_a="urn:_a" xmlns:b='
        )


def test_prefix_behind_very_many_words_that_end_like_it_is_judged_as_it_is() -> None:
    plain = b"<c>" + b"xa: " * 5000 + b"</c>"
    assert Prefixes(["a"], Steps()).used_in(plain) == set()
    assert Prefixes(["a"], Steps()).used_in(plain + b"a:") == {"a"}


def test_all_prefixes_count_as_used_once_finding_them_takes_too_long() -> None:
    """A word has as many ends as there are lengths of prefixes: a message of 8 MB would take seconds."""
    plain = b"<c>" + b"".join(b"1....%d: " % number for number in range(50)) + b"</c>"
    several = ["a", "bb", "ccc"]
    assert Prefixes(several, Steps(150)).used_in(plain) == set()
    assert set(Prefixes(several, Steps(149)).used_in(plain)) == set(several)


def test_elements_of_one_document_share_the_limit_on_the_search_for_prefixes() -> None:
    """Otherwise a batch of 256 elements could take 256 times as long as one element."""
    names = [f"p{number}" for number in range(FEW_PREFIXES + 1)]
    declared = " ".join(f"xmlns:{name}='urn:{name}'" for name in names)
    elements = b"".join(b"<c>" + b" ".join(b"1...%d:" % word for word in range(40)) + b"</c>" for _ in range(4))
    data = b"<r " + declared.encode() + b">" + elements + b"</r>"
    document = Document(data, DEFAULT_LIMITS)
    document.allowance.steps.left = 40 * 2 * 2
    nodes = Scanner(data, DEFAULT_LIMITS, levels=2).run().children
    assert [document.cut(node).count(b"xmlns:") for node in nodes] == [0, 0, len(names), len(names)]
