"""The calls on a store in a database, except those on dead letters."""

from __future__ import annotations

import re
from collections.abc import Callable
from types import MappingProxyType
from typing import Any

from mercury.operations import values
from mercury.operations.acting import NotPossible
from mercury.operations.calls.arguments import Arguments
from mercury.operations.calls.call import Call, Calls
from mercury.operations.calls.database_letters import LETTER_CALLS, bulk_number
from mercury.operations.calls.sequence_selection import SELECTION, selection
from mercury.operations.operator import Operations
from mercury.operations.restarting import InDoubt
from mercury.storage.audit import Actor, AuditFilter
from mercury.storage.letters import Direction
from mercury.storage.searching import MessageFilter, MessageState, Page

_ID = re.compile(r"(in|out)-(\d{1,18})")


def calls_of(operations: Operations) -> Calls[Operations]:
    """The calls on a store in a database."""
    return Calls(operations, CALLS)


def _page(page: Page[Any], value: Callable[[Any], Any]) -> dict[str, Any]:
    return {"items": [value(each) for each in page.items], "after": page.after}


# --- sequences -----------------------------------------------------------------------------------------------------


def _sequences(on: Operations, given: Arguments, _actor: Actor) -> Any:
    page = on.sequences.page(selection(given), given.text("after"), given.limit())
    return _page(page, values.sequence)


def _sequence(on: Operations, given: Arguments, _actor: Actor) -> Any:
    found = on.sequences.one(_name(on, given))
    return None if found is None else values.whole_sequence(found)


def _name(on: Operations, given: Arguments) -> str:
    """The identifier that this text is, or else that of the only sequence with this text in it."""
    part = given.needed("id")
    if not part.strip():  # a variable that is not set: every identifier has it in it, and an only one would be meant
        raise ValueError("id is empty: it is the identifier of a sequence, or a part of it")
    found = set(on.sequences.find(part, 3))
    if not found:
        raise NotPossible(f"no sequence of this store has the identifier {part}")
    if len(found) > 1:
        raise ValueError(f"several sequences of this store have {part} in their identifier; give a longer part")
    return found.pop()


def _act_on_sequence(action: str) -> Call[Operations]:
    def run(on: Operations, given: Arguments, actor: Actor) -> Any:
        name = _name(on, given)
        getattr(on.sequence_actions, action)(name, actor, reason=given.text("note") or "")
        return {"identifier": name}

    return Call(run, ("id", "note"), changes=True)


def _restart(on: Operations, given: Arguments, actor: Actor) -> Any:
    choice = given.choice("in_doubt", InDoubt) or InDoubt.REFUSE
    name = _name(on, given)
    done = on.sequence_actions.restart(name, actor, in_doubt=choice, reason=given.text("note") or "")
    return {"identifier": name, "moved": done.moved, "in_doubt": done.doubtful, "in_doubt_messages": choice.value}


def _refused_stores(on: Operations, given: Arguments, _actor: Actor) -> Any:
    return [values.peer_store(each) for each in on.destination_actions.refused(given.limit())]


def _new_destination(on: Operations, given: Arguments, actor: Actor) -> Any:
    choice = given.choice("in_doubt", InDoubt) or InDoubt.REFUSE
    endpoint, store, reason = given.needed("endpoint"), given.text("store"), given.text("note") or ""
    done = on.destination_actions.replace(endpoint, actor, store=store, in_doubt=choice, reason=reason)
    return values.new_destination(done)


# --- messages ------------------------------------------------------------------------------------------------------


def _messages(on: Operations, given: Arguments, _actor: Actor) -> Any:
    direction = given.choice("direction", Direction)
    if direction is None:
        raise ValueError("direction is missing")
    where = given.text("endpoint")
    sent = direction is Direction.OUTBOUND
    which = MessageFilter(
        message_id=given.text("message_id"),
        correlation=given.text("correlation"),
        endpoint=where if sent else None,
        service=None if sent else where,
        key=given.text("key"),
        sequence=given.text("sequence"),
        state=given.choice("state", MessageState),
        since=given.seconds("since"),
        until=given.seconds("until"),
    )
    return _page(on.messages.page(direction, which, given.text("after"), given.limit()), values.message)


def _places(on: Operations, given: Arguments, _actor: Actor) -> Any:
    return values.places(on.messages.places(message_id=given.text("message_id"), correlation=given.text("correlation")))


def _message(on: Operations, given: Arguments, _actor: Actor) -> Any:
    found = on.messages.one(*_position(given))
    return None if found is None else values.whole_message(found)


def _act_on_message(action: str) -> Call[Operations]:
    def run(on: Operations, given: Arguments, actor: Actor) -> Any:
        direction, position = _position(given)
        getattr(on.message_actions, action)(direction, position, actor, reason=given.text("note") or "")
        return {"id": given.needed("id")}

    return Call(run, ("id", "note"), changes=True)


def _position(given: Arguments) -> tuple[Direction, int]:
    found = _ID.fullmatch(given.needed("id"))
    if found is None:
        raise ValueError("id is not a message's id such as out-17 or in-4")
    return Direction.INBOUND if found[1] == "in" else Direction.OUTBOUND, int(found[2])


# --- services, processes, the store ----------------------------------------------------------------------------------


def _services(on: Operations, _given: Arguments, _actor: Actor) -> Any:
    return [values.service(each) for each in on.services.all()]


def _pause(on: Operations, given: Arguments, actor: Actor) -> Any:
    """A service may be paused before any process hosts it: whether it is known, only tells a name that is misspelt."""
    service = given.needed("service")
    known = on.services.one(service) is not None
    on.service_actions.pause(service, actor, reason=given.text("note") or "")
    return {"service": service, "known": known}


def _resume(on: Operations, given: Arguments, actor: Actor) -> Any:
    service = given.needed("service")
    on.service_actions.resume(service, actor, reason=given.text("note") or "")
    return {"service": service}


def _nodes(on: Operations, _given: Arguments, _actor: Actor) -> Any:
    return [values.node(each) for each in on.nodes.all()]


def _audit(on: Operations, given: Arguments, _actor: Actor) -> Any:
    which = AuditFilter(
        actor=given.text("by"),
        action=given.text("action"),
        target=given.text("target"),
        bulk=bulk_number(given, "bulk") if given.text("bulk") is not None else None,
    )
    return _page(on.audit(which, given.text("after"), given.limit()), values.audit_entry)


def _problems(on: Operations, _given: Arguments, _actor: Actor) -> Any:
    return [{"severity": each.severity.value, "text": each.text} for each in on.overview().problems]


def _ages(on: Operations, _given: Arguments, _actor: Actor) -> Any:
    return on.ages()


#: The calls by name.
CALLS = MappingProxyType(
    {
        "sequences.list": Call(_sequences, (*SELECTION, "after", "limit")),
        "sequences.show": Call(_sequence, ("id",)),
        "sequences.suspend": _act_on_sequence("suspend"),
        "sequences.resume": _act_on_sequence("resume"),
        "sequences.close": _act_on_sequence("close"),
        "sequences.terminate": _act_on_sequence("terminate"),
        "sequences.restart": Call(_restart, ("id", "in_doubt", "note"), changes=True),
        "destinations.refused": Call(_refused_stores, ("limit",)),
        "destinations.replace": Call(_new_destination, ("endpoint", "store", "in_doubt", "note"), changes=True),
        "messages.list": Call(
            _messages,
            (
                *("direction", "endpoint", "key", "sequence", "message_id", "correlation", "state", "since", "until"),
                *("after", "limit"),
            ),
        ),
        "messages.places": Call(_places, ("message_id", "correlation")),
        "messages.show": Call(_message, ("id",)),
        "messages.park": _act_on_message("park"),
        "messages.retry": _act_on_message("retry"),
        "services.list": Call(_services),
        "services.pause": Call(_pause, ("service", "note"), changes=True),
        "services.resume": Call(_resume, ("service", "note"), changes=True),
        "nodes.list": Call(_nodes),
        "audit.list": Call(_audit, ("by", "action", "target", "bulk", "after", "limit")),
        "store.problems": Call(_problems),
        "store.ages": Call(_ages),
        **LETTER_CALLS,
    }
)
