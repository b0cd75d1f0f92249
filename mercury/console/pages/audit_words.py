"""The audit in the words of the pages: its actions, what they have changed, and the page of what they were done to."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from mercury.console.visits import link
from mercury.storage.audit import AuditEntry, TargetKind

#: The actions, in the order of the list, with their words.
ACTIONS: Mapping[str, str] = MappingProxyType(
    {
        "suspend": "suspend",
        "resume": "resume",
        "close": "close",
        "terminate": "terminate",
        "restart": "restart in a successor",
        "replace": "say that a destination is new",
        "pause": "pause",
        "retry": "try again",
        "park": "park",
        "redrive": "redrive",
        "redirect": "redirect",
        "edit": "edit a copy",
        "discard": "discard",
        "cancel": "cancel",
        "resolve": "resolve: begun",
        "resolved": "resolve: done",
        "resolve refused": "resolve: refused",
        "reconcile": "start a comparison",
    }
)
#: The properties whose names in the store are not words.
NAMES: Mapping[str, str] = MappingProxyType(
    {
        "requested": "asked to",
        "moved": "go to the successor",
        "in_doubt": "sent and not acknowledged",
        "in_doubt_messages": "what becomes of those",
        "message_id": "MessageID",
        "paused_at": "paused since",
        "force": "against the decision",
        "store": "id of the destination's store",
        "finished": "branches finished",
        "refused": "stay dead letters",
        "to": "to the endpoint",
        "dead_before": "dead before",
        "dead_since": "dead since",
    }
)
#: Values that are not words, by name and value.
VALUES: Mapping[str, str] = MappingProxyType(
    {
        "in_doubt_messages refuse": "there are none",
        "in_doubt_messages park": "dead letters",
        "in_doubt_messages resend": "sent again",
    }
)
TIMES = frozenset({"paused_at", "dead_before", "dead_since"})
_MESSAGE = re.compile(r"(in|out)-(\d{1,18})")


@dataclass(frozen=True, slots=True)
class Property:
    """What an action has changed."""

    name: str
    text: str
    #: A time, in seconds since the epoch, in place of the text.
    at: float | None = None


def action_words(action: str) -> str:
    """An action in words."""
    return ACTIONS.get(action, action)


def properties(values: Mapping[str, object]) -> list[Property]:
    """Values of the audit in words."""
    return [
        Property(
            NAMES.get(name, name.replace("_", " ")),
            VALUES.get(f"{name} {value}") or _text(value),
            float(value) if name in TIMES and isinstance(value, int | float) else None,
        )
        for name, value in values.items()
    ]


def target_page(entry: AuditEntry) -> str | None:
    """The address of the page about what an action was done to; ``None`` = there is none."""
    target = entry.target
    match entry.kind:
        case TargetKind.SEQUENCE:
            return link("sequence", id=target)
        case TargetKind.SERVICE:
            return link("service", name=target)
        case TargetKind.DEAD_LETTER:
            return link("letter", id=target)
        case TargetKind.BULK:
            return link("bulk", id=target)
        case TargetKind.DESTINATION:
            return link("sequences", side="source", endpoint=target)
        case TargetKind.TRANSACTION:
            return link("doubt")
        case TargetKind.COMPARISON:
            return link("reconcile")
        case TargetKind.MESSAGE:
            found = _MESSAGE.fullmatch(target)
            if found is None:
                return None
            return link("message", direction="inbound" if found[1] == "in" else "outbound", position=found[2])


def _text(value: object) -> str:
    if value is None or value == []:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(_part(each) for each in value)
    return f"{value:,}" if isinstance(value, int) else str(value)


def _part(value: object) -> str:
    """A range of message numbers, or another part of a list."""
    if isinstance(value, list) and len(value) == 2:
        low, high = value
        return str(low) if low == high else f"{low} to {high}"
    return str(value)
