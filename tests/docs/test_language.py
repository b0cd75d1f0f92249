"""Pages, names and comments use the words of docs/glossary.md, and no retired word."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from .pages import ROOT, pages, prose
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
    r"turns? the crank": "runs a worker",
    r"can not": "cannot",
    r"nurser(?:y|ies)": "fork server",
    r"weather": "network faults",
    r"mishaps?": "failure",
    r"whoever": "the role: a client, a peer, a process",
    r"(?:some|any|every)body": "the role: a client, a peer, a process",
    r"nobody(?!\")": "no client, no peer, no process",
    r"strangers?": "another peer",
    r"told(?!:)": "who sends or reports what",
}
#: Parts of identifiers in code that are retired: words between underscores or humps, and whole names.
RETIRED_PARTS = {
    "crew": "pool",
    "bury": "dead_letter",
    "aftermath": "effects",
    "upkeep": "maintenance",
    "fate": "status, outcome",
    "fates": "statuses, outcomes",
    "volley": "ack_request_interval",
    "hurry": "hasten",
    "seeker": "work_filter",
    "draft": "exchange",
    "drafts": "exchanges",
    "can_not": "cannot",
    "nursery": "fork_server",
    "weather": "faults",
    "mishap": "failure",
    "buried": "dead_lettered",
    "stumble": "fail",
}
RETIRED_NAMES = {
    *(
        "Parts",
        "Surroundings",
        "Watched",
        "Seen",
        "Told",
        "Arrived",
        "Marks",
        "Sweeper",
        "Together",
        "Senders",
        "Keeper",
    ),
    *("Doing", "Troubles", "Parking", "Manner", "Looking", "Remembered", "Forgetting", "PutOff", "NoRoom", "Waited"),
    *("TOGETHER", "LATE", "PACE", "stands_in", "call_another", "message_died", "response_died", "watch_router"),
    *("trouble_with", "Senders", "forget_expected", "expect_messages", "expect_rows"),
    *("Looked", "starts_in_vain", "PLEASANT", "TO_COME_BY", "news_of", "given_back", "say_trouble"),
}
#: A test is named by its condition and result, not by a question.
QUESTION = re.compile(r"def (test_(?:what|who|whoever|whatever|whose|which)_\w+)")
#: An identifier, or a word of a comment or text.
WORD = re.compile(r"[^\W\d]\w*")
TOPS = ("mercury", "samples", "benchmarks")


def retired(text: str) -> list[str]:
    """What a page says that should be said otherwise. Names in code spans, and links, do not count."""
    text = re.sub(r"\]\([^)]*\)", "]", re.sub(r"`[^`\n]*`", "", prose(text)))
    found = [(word, instead) for word, instead in RETIRED.items() if re.search(rf"\b(?:{word})\b", text, re.IGNORECASE)]
    return [f"{word}: say {instead}" for word, instead in found]


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_no_page_uses_a_retired_word(page: Path) -> None:
    assert retired(page.read_text(encoding="utf-8")) == []


def test_every_term_of_the_glossary_has_a_meaning_and_a_source() -> None:
    text = (ROOT / "docs/glossary.md").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line.startswith("| ") and not line.startswith("| term")]
    assert [line for line in lines if len([cell for cell in line.strip("| ").split(" | ") if cell.strip()]) != 3] == []
    assert len(lines) > 120


def identifiers(text: str) -> Iterator[str]:
    """The names in a Python text; comments and texts are left out."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.NAME:
            yield token.string


def said_otherwise(name: str) -> list[str]:
    """What to call a name instead."""
    parts = "_" + re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower() + "_"
    found = [f"{name}: say {instead}" for part, instead in RETIRED_PARTS.items() if f"_{part}_" in parts]
    return [*found, f"{name}: see docs/glossary.md"] if name in RETIRED_NAMES else found


def retired_names(text: str) -> list[str]:
    """The identifiers of a Python text that should be called otherwise."""
    # To take a text apart takes seconds for all of them. Each of its identifiers is one of its words.
    if not any(said_otherwise(word) for word in set(WORD.findall(text))):
        return []
    return [line for name in dict.fromkeys(identifiers(text)) for line in said_otherwise(name)]


def comments(text: str) -> str:
    """The comments and docstrings of a Python text."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    kinds = (tokenize.COMMENT, tokenize.STRING)
    return "\n".join(token.string for token in tokens if token.type in kinds)


def test_no_name_in_code_is_a_retired_one() -> None:
    found = {path: names for path, text in code(*TOPS) if (names := retired_names(text))}
    assert found == {}


def test_no_name_in_tests_is_made_of_a_retired_word() -> None:
    found = [
        f"{path}: {name}" for path, text in code("tests") for name in retired_names(text) if "glossary" not in name
    ]
    assert found == []


def test_no_comment_or_text_in_code_uses_a_retired_word() -> None:
    found = {path: words for path, text in code("mercury", "samples") if (words := retired(comments(text)))}
    assert found == {}


def test_no_test_is_named_by_a_question() -> None:
    assert [f"{path}: {name}" for path, text in code("tests") for name in QUESTION.findall(text)] == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("class Crew: ...", ["Crew: say pool"]),
        ("self._all_crew = bury_inbound(a)", ["_all_crew: say pool", "bury_inbound: say dead_letter"]),
        ("def it_can_not_be(): ...", ["it_can_not_be: say cannot"]),
        ("class Parts: ...", ["Parts: see docs/glossary.md"]),
        ("screw = 'crew'  # crew", []),
    ],
)
def test_a_retired_name_is_found_and_a_longer_word_is_not(text: str, found: list[str]) -> None:
    assert retired_names(text) == found


def test_a_retired_word_is_found_and_a_name_in_code_is_not() -> None:
    assert retired("The crew waits.\n") == ["crews?: say worker pool"]
    assert retired("`engine/runtime/worker_pool.py` and [this](crew.md) accompany it.\n") == []
