"""The calls on the dead letters of a store in a database."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

from mercury.operations import values
from mercury.operations.calls.arguments import Arguments
from mercury.operations.calls.call import Call
from mercury.operations.calls.letter_selection import SELECTION, chosen, selection
from mercury.operations.letter_actions import Progress
from mercury.operations.operator import Operations
from mercury.storage.audit import Actor


def done(progress: Progress) -> dict[str, Any]:
    """The result of an action on dead letters."""
    return {"done": list(progress.ids), "refused": [{"id": name, "reason": why} for name, why in progress.refusals]}


def _list(on: Operations, given: Arguments, _actor: Actor) -> Any:
    return [values.letter(each) for each in on.letters.find(selection(given), given.limit())]


def _count(on: Operations, given: Arguments, _actor: Actor) -> Any:
    return [values.letter_count(each) for each in on.letters.count(selection(given))]


def _show(on: Operations, given: Arguments, _actor: Actor) -> Any:
    found = on.letters.one(given.needed("id"))
    return None if found is None else values.whole_letter(found)


def _ids(on: Operations, given: Arguments, _actor: Actor) -> Any:
    found, after = on.letters.identifiers(selection(given), given.text("after"))
    return {"ids": found, "after": after}


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


LETTER_CALLS = MappingProxyType(
    {
        "dlq.list": Call(_list, (*SELECTION, "limit")),
        "dlq.count": Call(_count, SELECTION),
        "dlq.show": Call(_show, ("id",)),
        "dlq.ids": Call(_ids, (*SELECTION, "after")),
        "dlq.redrive": Call(_redrive, ("ids", "even_if_unknown", "note"), changes=True),
        "dlq.redirect": Call(_redirect, ("ids", "to", "even_if_unknown", "note"), changes=True),
        "dlq.edit": Call(_edit, ("id", "body", "even_if_unknown", "note"), changes=True),
        "dlq.discard": Call(_discard, ("ids", "note"), changes=True),
    }
)
