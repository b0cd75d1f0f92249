"""The state of a store on one page: how much waits, and what is wrong now, in words. Pure."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

from mercury.engine.lateness import Ages, WatchSettings, lateness
from mercury.operations.nodes import NodeLine
from mercury.operations.sequences import SequenceLine
from mercury.operations.transactions import SOON, InDoubt
from mercury.storage.peer_stores import PeerStore
from mercury.storage.searching import Count, Depth
from mercury.texts import counted, span


class Severity(enum.Enum):
    """How urgent a problem is."""

    #: Something was done on purpose, and holds messages back.
    NOTE = "note"
    WARNING = "warning"
    CRITICAL = "critical"


class Place(enum.Enum):
    """Where an operator looks at a problem: a group of commands, and a page of the console."""

    SEQUENCES = "sequences"
    MESSAGES = "messages"
    LETTERS = "dlq"
    SERVICES = "services"
    TRANSACTIONS = "xa"
    NODES = "nodes"
    STATUS = "status"


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Something that is wrong."""

    severity: Severity
    #: What is wrong, as a sentence without a full stop.
    text: str
    place: Place
    #: The identifier of a sequence, or the name of a service; empty = the list shows it.
    target: str = ""
    #: The destination that it is about; empty = another problem.
    endpoint: str = ""
    #: The command that shows it.
    command: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreView:
    """The state of a store."""

    #: When it was read, in seconds since the epoch.
    at: float
    depth: Depth
    nodes: tuple[NodeLine, ...]
    #: The first stuck sequences.
    stuck: tuple[SequenceLine, ...]
    #: What is wrong, the most urgent first.
    problems: tuple[Problem, ...]


def problems(
    depth: Depth,
    nodes: Sequence[NodeLine],
    stuck: Sequence[SequenceLine],
    watch: WatchSettings,
    now: float,
    doubt: InDoubt | None = None,
    refused: Sequence[PeerStore] = (),
) -> tuple[Problem, ...]:
    """What is wrong, the most urgent first.

    :param now: seconds since the epoch.
    :param doubt: the transactions in doubt; ``None`` = the databases were not asked, and the decisions are judged.
    :param refused: the destinations for which another store has answered.
    """
    found = [*_of_doubt(depth, watch, now, doubt), *_of_nodes(depth, nodes), *_of_transactions(depth)]
    found += [_of_store(each) for each in refused]
    found += _late(depth, watch, now)
    found += _of_handlers(depth)
    if depth.dead_letters.value:
        text = _counted(depth.dead_letters, "dead letter waits", "dead letters wait") + " for a decision"
        found.append(_problem(Severity.WARNING, text, Place.LETTERS, "mercury dlq list --count"))
    for line in stuck:
        on_purpose = line.suspended_by is not None or line.paused
        severity = Severity.NOTE if on_purpose else Severity.WARNING
        about = f"sequence {line.id} ({line.status.endpoint or 'responses'}): {line.why}"
        found.append(_problem(severity, about, Place.SEQUENCES, f"mercury sequences show {line.id}", line.id))
    order = (Severity.CRITICAL, Severity.WARNING, Severity.NOTE)
    return tuple(sorted(found, key=lambda each: order.index(each.severity)))


def _of_doubt(depth: Depth, watch: WatchSettings, now: float, doubt: InDoubt | None) -> list[Problem]:
    if doubt is None:
        texts = lateness(Ages(in_doubt=depth.oldest_in_doubt), watch, now)
    elif doubt.many and doubt.oldest >= SOON:
        what = "transaction is in doubt and holds" if doubt.many == 1 else "transactions are in doubt and hold"
        texts = [f"{doubt.many} {what} locks in databases, the oldest for {span(doubt.oldest)}"]
    else:
        texts = []
    return [_problem(Severity.CRITICAL, text, Place.TRANSACTIONS, "mercury xa list") for text in texts]


def _of_store(peer: PeerStore) -> Problem:
    text = (
        f"{peer.refused_address}: the store {peer.refused} answers there, and {peer.endpoint} has the store "
        f"{peer.store}: nothing is sent to the other one"
    )
    command = f"mercury sequences list --endpoint '{peer.endpoint}'"
    return _problem(Severity.CRITICAL, text, Place.SEQUENCES, command, endpoint=peer.endpoint)


def _of_nodes(depth: Depth, nodes: Sequence[NodeLine]) -> list[Problem]:
    found = []
    waits = any(each.value for each in (depth.unsent, depth.unacknowledged, depth.unhandled))
    waits |= depth.oldest_unacknowledged is not None  # also if it waits behind those that were counted
    if waits and nodes and not any(each.alive for each in nodes):
        text = "messages wait, and no process that works on them has been seen lately"
        found.append(_problem(Severity.CRITICAL, text, Place.NODES, "mercury nodes"))
    for each in nodes:
        if each.holds is not None or not each.alive:
            severity = Severity.NOTE if each.replaced else Severity.WARNING
            text = f"node {each.node.name} {each.state}"
            found.append(_problem(severity, text, Place.NODES, "mercury nodes", each.node.id))
    return found


def _of_transactions(depth: Depth) -> list[Problem]:
    if not depth.heuristic.value:
        return []
    text = (
        f"{_counted(depth.heuristic, 'branch was', 'branches were')} finished by hand against the decision: "
        "the databases do not agree"
    )
    return [_problem(Severity.CRITICAL, text, Place.TRANSACTIONS, "mercury xa list")]


def _late(depth: Depth, watch: WatchSettings, now: float) -> list[Problem]:
    kinds = (
        (
            Ages(unacknowledged=depth.oldest_unacknowledged),
            Place.MESSAGES,
            "mercury messages list --direction outbound",
        ),
        (Ages(unhandled=depth.oldest_unhandled), Place.MESSAGES, "mercury messages list --direction inbound"),
    )
    return [
        _problem(Severity.CRITICAL, text, place, command)
        for ages, place, command in kinds
        for text in lateness(ages, watch, now)
    ]


def _of_handlers(depth: Depth) -> list[Problem]:
    found = []
    for service in depth.services:
        name = service.name or "(responses)"
        if service.failing:
            text = (
                f"service {name}: {counted(service.failing, 'sequence is', 'sequences are')} held back by a message "
                "that its handler refuses"
            )
            command = "mercury messages list --state failing"
            found.append(_problem(Severity.WARNING, text, Place.MESSAGES, command, service.name))
        if service.paused_by is not None:
            text = (
                f"service {name} is paused by {service.paused_by}; "
                f"{_counted(service.waiting, 'message waits', 'messages wait')}"
            )
            found.append(_problem(Severity.NOTE, text, Place.SERVICES, "mercury services list", service.name))
    return found


def _counted(count: Count, one: str, many: str) -> str:
    return counted(count.value, one, many, more=count.more)


def _problem(
    severity: Severity, text: str, place: Place, command: str, target: str = "", endpoint: str = ""
) -> Problem:
    return Problem(severity=severity, text=text, place=place, command=command, target=target, endpoint=endpoint)
