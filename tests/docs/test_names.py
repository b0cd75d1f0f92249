"""docs/names.md is current, and complete for all public names."""

from __future__ import annotations

import mercury

from .names import PAGE, default, markdown, page, shown


def test_the_page_of_names_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "python -m tests.docs.names writes it"


def test_the_page_has_every_class_and_function() -> None:
    text = page()
    public = [name for name in mercury.__all__ if name not in ("events", "Authenticate", "ConsoleAccess")]
    assert [name for name in public if f"\n## `{name}`\n" not in text] == []
    for call in ("Mercury.to", "Mercury.atransaction", "Sender.asend", "Transaction.session", "TwoWay.with_callback"):
        assert f"\n### `{call}`\n" in text


def test_a_docstring_becomes_a_paragraph_and_a_list() -> None:
    said = "Do ``this``.\n\n:param a: one, which goes\n    on here.\n:returns: two.\n:raises ValueError: three."
    assert (
        markdown(said)
        == "Do `this`.\n\n- `a`: one, which goes\n  on here.\n- returns: two.\n- raises `ValueError`: three."
    )


def test_a_call_is_shown_with_types_and_defaults_that_do_not_change() -> None:
    def call(self: object, a: int, *b: str, c: object = print, d: float | None = None) -> bytes: ...  # type: ignore[empty-body]

    assert shown("call", call) == "call(a: int, *b: str, c: object = ..., d: float | None = None) -> bytes"
    assert default(mercury.Direction.INBOUND) == "Direction.INBOUND"
