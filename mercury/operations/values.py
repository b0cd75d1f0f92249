"""What operators see, as values that JSON has: for the command line and for the operator's API."""

from __future__ import annotations

import dataclasses
from typing import Any

from mercury.operations.destinations import NewDestination
from mercury.operations.messages import Places, WholeMessage
from mercury.operations.nodes import NodeLine
from mercury.operations.sequences import SequenceLine, WholeSequence
from mercury.storage.audit import AuditEntry
from mercury.storage.bulk import Bulk
from mercury.storage.letters import DeadLetter, LetterCount
from mercury.storage.peer_stores import PeerStore
from mercury.storage.searching import ServiceSeen
from mercury.storage.waiting import WaitingMessage


def sequence(line: SequenceLine) -> dict[str, Any]:
    """A sequence in a list."""
    return line.status.as_dict() | {
        "identifier": line.id,
        "waiting": line.waiting.value,
        "waiting_more": line.waiting.more,
        "why": line.why,
        "stuck": line.stuck,
        "suspended_by": line.suspended_by,
    }


def whole_sequence(whole: WholeSequence) -> dict[str, Any]:
    """A sequence in full."""
    holder, peer = whole.holder, whole.peer_store
    return sequence(whole.line) | {
        "gaps": whole.gaps,
        "unsent": whole.unsent.value,
        "pair": whole.pair.id if whole.pair is not None else None,
        "worked_on_by": holder.owner if holder is not None else None,
        "host": whole.node.host if whole.node is not None else None,
        "pid": whole.node.pid if whole.node is not None else None,
        "epoch": holder.epoch if holder is not None else None,
        "claimed_until": holder.until if holder is not None and holder.suspended_by is None else None,
        "worker_seen_at": whole.node.seen_at if whole.node is not None else None,
        "store_of_destination": getattr(whole.record, "store", None),
        "refused_store": peer.refused if peer is not None else None,
        "refused_address": peer.refused_address if peer is not None else None,
        "timeline": [dataclasses.asdict(each) for each in whole.timeline],
    }


def new_destination(done: NewDestination) -> dict[str, Any]:
    """The result of saying that a destination is a new one."""
    return dataclasses.asdict(done) | {"in_doubt": done.in_doubt.value}


def peer_store(known: PeerStore) -> dict[str, Any]:
    """The store of a destination."""
    return dataclasses.asdict(known)


def message(seen: WaitingMessage) -> dict[str, Any]:
    """A waiting message without its body."""
    value = dataclasses.asdict(seen)
    del value["position"]
    return {"id": seen.id} | value | {"direction": seen.direction.value}


def whole_message(found: WholeMessage) -> dict[str, Any]:
    """A waiting message with its body."""
    whole = found.message
    return message(found.seen) | {
        "relates_to": whole.relates_to,
        "trace": whole.trace.id if whole.trace is not None else None,
        "is_fault": whole.is_fault,
        "damaged": whole.damaged,
        "headers": [header.decode(errors="backslashreplace") for header in whole.headers],
        "body": whole.payload.decode(errors="backslashreplace"),
        "timeline": [dataclasses.asdict(each) for each in found.timeline],
    }


def places(found: Places) -> dict[str, Any]:
    """Where else a message is that was searched for: settled, or dead."""
    return {
        "settled": [
            {"message_id": each.message_id, "correlation": each.correlation, "settled_at": each.settled_at}
            for each in found.settled
        ],
        "dead_letters": [each.id for each in found.letters],
    }


def service(seen: ServiceSeen) -> dict[str, Any]:
    """A service."""
    return dataclasses.asdict(seen) | {"waiting": str(seen.waiting)}


def node(line: NodeLine) -> dict[str, Any]:
    """A process on the store."""
    return dataclasses.asdict(line.node) | {
        "alive": line.alive,
        "late": line.late,
        "state": line.state,
        "silence": line.silence,
        "up": line.up,
        "claims": line.claims,
        "claimed_for": line.claimed_for,
        "holds": line.holds,
        "replaced": line.replaced,
    }


def audit_entry(entry: AuditEntry) -> dict[str, Any]:
    """What an operator has done."""
    return dataclasses.asdict(entry) | {"via": entry.via.value, "kind": entry.kind.value}


def letter(found: DeadLetter) -> dict[str, Any]:
    """A dead letter without its body.

    ``damaged`` in a list is what was known when it was added: its body is not read, and not compared with its checksum.
    """
    return {
        "id": found.id,
        "direction": found.direction.value,
        "certainty": found.certainty.value,
        "reason": found.reason,
        "dead_at": found.dead_at,
        "message_id": found.message_id,
        "endpoint": found.endpoint,
        "key": found.key,
        "sequence": found.sequence,
        "number": found.number,
        "action": found.action,
        "correlation": found.correlation,
        "damaged": found.damaged,
    }


def whole_letter(found: DeadLetter) -> dict[str, Any]:
    """A dead letter with its body."""
    return letter(found) | {
        "created_at": found.created_at,
        "relates_to": found.relates_to,
        "trace": found.trace.id if found.trace is not None else None,
        "expects_response": found.expects_response,
        "callback": found.callback,
        "is_fault": found.is_fault,
        "disowned": found.disowned,
        "headers": [header.decode(errors="backslashreplace") for header in found.headers],
        "payload": found.payload.decode(errors="backslashreplace"),
    }


def bulk(found: Bulk, now: float) -> dict[str, Any]:
    """An action on many dead letters, and how far it is.

    :param now: seconds since the epoch.
    """
    return {
        "id": found.id,
        "action": found.action.value,
        "state": found.state.value,
        "silent": found.is_silent(now),
        "total": found.total,
        "done": found.done,
        "refused": found.refused,
        "refusals": [{"id": name, "reason": why} for name, why in found.refusals],
        "by": found.actor.name,
        "note": found.note,
        "endpoint": found.endpoint,
        "started_at": found.started_at,
        "changed_at": found.changed_at,
    }


def letter_count(count: LetterCount) -> dict[str, Any]:
    """A number of dead letters that have these values in common."""
    return {
        "count": count.count,
        "direction": count.direction.value,
        "endpoint": count.endpoint,
        "key": count.key,
        "certainty": count.certainty.value,
        "reason": count.reason,
    }
