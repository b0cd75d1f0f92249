"""What all actions of operators have in common: the audit, and the check of what the operator saw."""

from __future__ import annotations

from collections.abc import Mapping

from mercury.client.waiting import NotPossible
from mercury.storage.audit import Actor, AuditEntry, TargetKind

__all__ = ["Changed", "NotPossible", "check", "entry_of"]


class Changed(NotPossible):
    """The target is not as the operator saw it; nothing was done."""


def check(what: str, expected: str | None, found: str) -> None:
    """Check that a target is still as the operator saw it.

    :param expected: what the operator saw; ``None`` = no check.
    :raises Changed: it is another one.
    """
    if expected is not None and expected != found:
        raise Changed(f"{what} was {expected}, and is {found} now: look at it again. Nothing was done")


def entry_of(
    at: float,
    actor: Actor,
    action: str,
    kind: TargetKind,
    target: str,
    before: Mapping[str, object] | None = None,
    after: Mapping[str, object] | None = None,
    reason: str = "",
    bulk: int | None = None,
) -> AuditEntry:
    """An action as the audit has it.

    :param at: seconds since the epoch.
    :param before: what the action changes, as it was, by name.
    :param after: the same, as it is now.
    :param reason: given by the operator.
    :param bulk: the bulk action that it is a part of.
    """
    return AuditEntry(
        at=at,
        actor=actor.name,
        via=actor.via,
        action=action,
        kind=kind,
        target=target,
        before=before or {},
        after=after or {},
        note=reason,
        bulk=bulk,
    )
