"""What a form sends back is what was stored, whatever characters it has."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from html import unescape
from importlib.resources import files
from urllib.parse import urlencode

import pytest

from mercury.console.payloads import editable
from mercury.console.rendering import unchanged
from mercury.operations.operator import Operations
from mercury.storage.letters import EVERY_LETTER, LetterFilter
from mercury.storage.records import Channel, SequenceKey
from mercury.storage.sql.store import SqlStore
from mercury.testing.contract.builders import letter
from mercury.wire import canonical

from .browsing import Browser, console_of, serving
from .prepared import Prepared

#: Payloads that pages for people show in another way.
PAYLOADS = {
    "a carriage return": "<a>one&#13;two&#xD;\n</a>",
    "line ends of another system": "<a>one\r\ntwo\rthree</a>",
    "direction marks": "<a b='\u200fx\u202e'>\u05d0\u200f\u200e\u061c</a>",
    "a line separator and a byte order mark": "<a>\u2028\ufeff</a>",
    "C1 controls": "<a>\x85\x9b</a>",
    "white space in attributes": '<a b="x&#10;y&#9;z\n" c="\'&quot;&amp;#10;"/>',
    "mixed content": "<p>Do <b>not</b> <i>pay</i>  twice\t<br/> .</p>",
    "blanks that mean something": '<a xml:space="preserve"> <b> </b>\n</a>',
    "comments": "<a><!-- \u200f kept --><b/><!--c--></a>",
    "character data": "<a><![CDATA[<x>&\u200f]]></a>",
    "a namespace that is relative": '<a xmlns="b">\u200f</a>',
    "what ends a text area": "<textarea>\n\n&lt;/textarea></textarea>",
}


@pytest.fixture
def browser(prepared_store: SqlStore, prepared: Prepared) -> Iterator[Browser]:
    with contextlib.ExitStack() as stack:
        console = stack.enter_context(contextlib.closing(console_of(prepared_store, prepared.clock)))
        made = Browser(stack.enter_context(serving(console.application())))
        made.log_in()
        yield made


@pytest.mark.parametrize("case", PAYLOADS)
def test_a_payload_that_nobody_changes_is_sent_as_the_same_document(case: str) -> None:
    text = editable(PAYLOADS[case].encode())
    if case == "a namespace that is relative":  # it has no canonical form
        assert text == PAYLOADS[case]
    else:
        assert canonical(text.replace("\n", "\r\n")) == canonical(PAYLOADS[case])


def test_direction_marks_are_seen_in_the_text_that_is_edited() -> None:
    assert editable("<a b='\u202e'>\u200f\x85</a>".encode()) == "<a b='&#x202E;'>&#x200F;&#x85;</a>"
    assert editable("<a>\u200f<!--\u200f--></a>".encode()) == "<a>\u200f<!--\u200f--></a>", "a comment has none"


def test_a_payload_that_is_no_xml_is_edited_as_it_is() -> None:
    assert editable(b"") == ""
    assert editable("<a>\u200f".encode()) == "<a>\u200f"


def test_a_copy_that_nobody_edits_has_the_payload_of_the_dead_letter(browser: Browser, operations: Operations) -> None:
    payload = "\n".join(["<all>", *PAYLOADS.values(), "</all>"]).replace('xmlns="b"', 'xmlns="urn:b"').encode()
    store = operations._store
    channel = Channel(key=SequenceKey("http://b/", "k"))
    dead = letter("mixed", endpoint="http://b/", key="k", payload=payload, message_id="urn:m", channel=channel)
    with store.transaction() as tx:
        tx.dead_letters.add([dead])
    question = browser.get("letter-edit?id=mixed")
    text = question.form("letter-edit")["payload"].replace("\n", "\r\n")  # as browsers send it
    done = browser.submit(question, "letter-edit", payload=text)
    assert "The edited copy is sent as message" in done.words
    assert "mixed" not in [each.id for each in operations.letters.page(EVERY_LETTER, limit=100).items]
    with store.transaction() as tx:
        tx.rms.lock([channel.key])
        (sent,) = tx.rms.unnumbered(channel.key, 10)
    assert canonical(sent.payload) == canonical(payload)


def test_an_action_on_a_filter_with_invisible_characters_is_done_to_what_the_question_was_about(
    browser: Browser, operations: Operations
) -> None:
    endpoint, key = "http://b/\u200fa", "north\u202e\ufeff\u200d\x85x\"'<&"
    with operations._store.transaction() as tx:
        tx.dead_letters.add([letter("marked", endpoint=endpoint, key=key)])
    page = browser.get("letters?" + urlencode({"endpoint": endpoint, "key": key}))
    fields = page.form("letters")
    assert (fields["endpoint"], fields["key"]) == (endpoint, key)
    question = browser.get("letters-discard?" + urlencode({"endpoint": endpoint, "key": key}))
    assert question.title == "Discard 1 dead letter?"
    assert "1 discarded." in browser.submit(question, "letters-discard").words
    assert not operations.letters.page(LetterFilter(endpoint=endpoint)).items


def test_no_direction_mark_stands_in_the_html_of_a_form() -> None:
    text = "a\u202e\r\ufeff\ud800\x1b\"<&>'\n\t"
    assert unchanged(text) == "a&#x202E;&#xD;&#xFEFF;&#xD800;&#x1B;&#34;&lt;&amp;&gt;&#39;\n\t"
    assert unescape(unchanged("\x85\x9b\u200f")) == "\x85\x9b\u200f", "no characters of Windows"
    assert unchanged("Zo\u00eb & \u5317") == "Zo\u00eb &amp; \u5317"


def test_every_value_of_a_form_comes_back_unchanged() -> None:
    found = []
    for template in files("mercury.console").joinpath("templates").iterdir():
        text = template.read_text(encoding="utf-8")
        values = re.findall(r'<(?:input|option)\b[^>]*?\bvalue="(\{\{.*?\}\})"', text)
        values += re.findall(r"<textarea\b[^>]*>\n?(\{\{.*?\}\})", text)
        assert not [each for each in values if not re.search(r"\| unchanged \}\}$", each)], template.name
        found += values
    assert len(found) > 20
