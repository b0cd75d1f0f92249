"""The audit in words: no action and no property is shown by its name in the program."""

from __future__ import annotations

import re
from pathlib import Path

from mercury.console.pages.audit_words import ACTIONS, Property, properties, target_page
from mercury.storage.audit import AuditEntry, TargetKind, Via
from mercury.storage.bulk import BulkAction

OPERATIONS = Path(__file__).resolve().parents[2] / "mercury/operations"


def test_the_list_has_every_action_of_the_program() -> None:
    text = "".join(each.read_text() for each in OPERATIONS.glob("*.py"))
    named = re.findall(
        r"(?:note\(\s*tx, (?:self\._clock, )?actor|entry_of\(\s*self\._clock\(\), actor|told\("
        r'|_become\([^)]*actor|_end\(name, actor), "([a-z ]+)"',
        text,
    )
    named += re.findall(r'told\("([a-z ]+)"|self\._note\(tx, "([a-z]+)"', text)
    flat = {each for found in named for each in ([found] if isinstance(found, str) else found) if each}
    assert {"suspend", "resume", "pause", "resolve", "restart", "close", "cancel"} <= flat
    assert flat <= set(ACTIONS)
    assert {each.value for each in BulkAction} <= set(ACTIONS)


def test_properties_are_words_ranges_are_ranges_and_times_are_times() -> None:
    assert properties({"in_doubt": [[3, 4], [7, 7]], "in_doubt_messages": "park", "moved": []}) == [
        Property("sent and not acknowledged", "3 to 4, 7"),
        Property("what becomes of those", "dead letters"),
        Property("go to the successor", "none"),
    ]
    assert properties({"paused_at": 12.5, "suspended_by": None, "force": True, "done": 1200}) == [
        Property("paused since", "12.5", 12.5),
        Property("suspended by", "none"),
        Property("against the decision", "yes"),
        Property("done", "1,200"),
    ]
    assert properties({"finished": ["a", "b"]}) == [Property("branches finished", "a, b")]


def test_everything_that_an_action_changes_has_a_page() -> None:
    def page(kind: TargetKind, target: str) -> str | None:
        return target_page(AuditEntry(at=0.0, actor="", via=Via.CLI, action="", kind=kind, target=target))

    assert page(TargetKind.MESSAGE, "in-7") == "message?direction=inbound&position=7"
    assert page(TargetKind.MESSAGE, "out-7") == "message?direction=outbound&position=7"
    assert page(TargetKind.MESSAGE, "what") is None
    assert page(TargetKind.SEQUENCE, "urn:a&b") == "sequence?id=urn%3Aa%26b"
    assert all(page(kind, "1") for kind in TargetKind if kind is not TargetKind.MESSAGE)
