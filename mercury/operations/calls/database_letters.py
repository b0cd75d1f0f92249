"""The calls on the dead letters of a store in a database."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

from mercury.operations import values
from mercury.operations.calls.arguments import Arguments
from mercury.operations.calls.call import Call
from mercury.operations.calls.letter_selection import CONDITIONS, SELECTION, chosen, selection
from mercury.operations.letter_actions import Handled
from mercury.operations.operator import Operations
from mercury.storage.audit import Actor
from mercury.storage.bulk import Bulk, BulkAction

#: Pieces that one call of `dlq.advance` makes at most.
PIECES = 5


def done(handled: Handled) -> dict[str, Any]:
    """The result of an action on dead letters."""
    return {"done": list(handled.done), "refused": [{"id": name, "reason": why} for name, why in handled.refused]}


def _list(on: Operations, given: Arguments, _actor: Actor) -> Any:
    return [values.letter(each) for each in on.letters.find(selection(given), given.limit())]


def _count(on: Operations, given: Arguments, _actor: Actor) -> Any:
    return [values.letter_count(each) for each in on.letters.count(selection(given))]


def _show(on: Operations, given: Arguments, _actor: Actor) -> Any:
    found = on.letters.one(given.needed("id"))
    return None if found is None else values.whole_letter(found)


def _redrive(on: Operations, given: Arguments, actor: Actor) -> Any:
    allow, note = given.flag("even_if_unknown"), given.text("note") or ""
    return done(on.letter_actions.redrive(chosen(given), actor, allow_duplicate=allow, reason=note))


def _redirect(on: Operations, given: Arguments, actor: Actor) -> Any:
    allow, note = given.flag("even_if_unknown"), given.text("note") or ""
    to = given.needed("to")
    return done(on.letter_actions.redirect(chosen(given), to, actor, allow_duplicate=allow, reason=note))


def _edit(on: Operations, given: Arguments, actor: Actor) -> Any:
    allow, note = given.flag("even_if_unknown"), given.text("note") or ""
    body = given.needed("body").encode()
    new = on.letter_actions.send_edited(given.needed("id"), body, actor, allow_duplicate=allow, reason=note)
    return {"id": given.needed("id"), "message_id": new}


def _discard(on: Operations, given: Arguments, actor: Actor) -> Any:
    return done(on.letter_actions.discard(chosen(given), actor, reason=given.text("note") or ""))


# --- many of them ----------------------------------------------------------------------------------------------------


def _begin(on: Operations, given: Arguments, actor: Actor) -> Any:
    action = given.choice("action", BulkAction)
    if action is None:
        raise ValueError("action is missing")
    begun = on.bulk_actions.begin(
        action,
        selection(given),
        actor,
        endpoint=given.needed("to") if action is BulkAction.REDIRECT else None,
        allow_duplicate=given.flag("even_if_unknown"),
        reason=given.text("note") or "",
    )
    return _value(on, begun)


def _advance(on: Operations, given: Arguments, _actor: Actor) -> Any:
    return _value(on, on.bulk_actions.advance(bulk_number(given), PIECES))


def _stop(on: Operations, given: Arguments, _actor: Actor) -> Any:
    return _value(on, on.bulk_actions.stop(bulk_number(given)))


def _resume(on: Operations, given: Arguments, actor: Actor) -> Any:
    return _value(on, on.bulk_actions.resume(bulk_number(given), actor, reason=given.text("note") or ""))


def _cancel(on: Operations, given: Arguments, actor: Actor) -> Any:
    return _value(on, on.bulk_actions.cancel(bulk_number(given), actor, reason=given.text("note") or ""))


def _bulks(on: Operations, given: Arguments, _actor: Actor) -> Any:
    return [_value(on, each) for each in on.bulk_actions.newest(given.limit())]


def _value(on: Operations, found: Bulk) -> dict[str, Any]:
    return values.bulk(found, on.now())


def bulk_number(given: Arguments, name: str = "id") -> int:
    """The number of a bulk action."""
    text = given.needed(name)
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise ValueError(f"{name} is not the number of a bulk action")
    return int(text)


LETTER_CALLS = MappingProxyType(
    {
        "dlq.list": Call(_list, (*SELECTION, "limit")),
        "dlq.count": Call(_count, SELECTION),
        "dlq.show": Call(_show, ("id",)),
        "dlq.redrive": Call(_redrive, ("ids", "even_if_unknown", "note"), changes=True),
        "dlq.redirect": Call(_redirect, ("ids", "to", "even_if_unknown", "note"), changes=True),
        "dlq.edit": Call(_edit, ("id", "body", "even_if_unknown", "note"), changes=True),
        "dlq.discard": Call(_discard, ("ids", "note"), changes=True),
        "dlq.begin": Call(_begin, (*CONDITIONS, "action", "to", "even_if_unknown", "note"), changes=True),
        "dlq.advance": Call(_advance, ("id",), changes=True),
        "dlq.stop": Call(_stop, ("id",), changes=True),
        "dlq.resume": Call(_resume, ("id", "note"), changes=True),
        "dlq.cancel": Call(_cancel, ("id", "note"), changes=True),
        "dlq.bulks": Call(_bulks, ("limit",)),
    }
)
