"""The calls on a store in memory, which only its own process reaches: those that need no tables.

Such a store keeps no audit: the log names who has acted.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from mercury.client.dead_letters import DeadLetters
from mercury.client.inbound_ends import end_at_destination
from mercury.engine.events import Side
from mercury.engine.status import SequenceStatus, destination_status, status_of
from mercury.errors import SequenceError
from mercury.operations import values
from mercury.operations.acting import NotPossible
from mercury.operations.calls.arguments import Arguments
from mercury.operations.calls.call import Call, Calls
from mercury.operations.calls.database import CALLS
from mercury.operations.calls.letter_selection import SELECTION, chosen, selection
from mercury.operations.calls.sequence_selection import selection as sequence_selection
from mercury.operations.reasons import Wait, why_destination_waits, why_source_waits
from mercury.statemachine.events import DestinationEnd
from mercury.statemachine.tables import RmsState
from mercury.storage.api import StorageManager, Transaction
from mercury.storage.audit import Actor
from mercury.storage.bulk import MOST_REFUSALS, Bulk, BulkAction, BulkState
from mercury.storage.letters import LetterFilter
from mercury.storage.records import RmdRecord, RmsRecord
from mercury.storage.searching import Count, DestinationSeen, SequenceFilter, SourceSeen, position_of

log = logging.getLogger("mercury.operations")

#: Why a call is refused that only a store in a database answers.
IN_MEMORY = "this process has its store in memory: it takes this only with a store in SQLite or PostgreSQL"


@dataclass(frozen=True, slots=True)
class InMemory:
    """A store in memory, and what is known of it."""

    store: StorageManager
    #: Seconds since the epoch.
    clock: Callable[[], float]

    @property
    def letters(self) -> DeadLetters:
        """Its dead letters."""
        return DeadLetters(self.store, self.clock)


def calls_in_memory(store: StorageManager, clock: Callable[[], float]) -> Calls[InMemory]:
    """The calls on a store in memory."""
    return Calls(InMemory(store, clock), MEMORY_CALLS)


def _log(actor: Actor, action: str, target: str, given: Arguments) -> None:
    log.warning("%s: %s of %s: %s", actor.name, action, target, given.text("note") or "no reason given")


def _end(action: str, end: DestinationEnd) -> Call[InMemory]:
    def run(on: InMemory, given: Arguments, actor: Actor) -> Any:
        name = given.needed("id")
        try:
            end_at_destination(on.store, name, end)
        except SequenceError as error:
            raise NotPossible(str(error)) from error
        _log(actor, action, name, given)
        return {"identifier": name}

    return Call(run, ("id", "note"), changes=True)


def _ages(on: InMemory, _given: Arguments, _actor: Actor) -> Any:
    now = on.clock()
    with on.store.transaction() as tx:
        sent, received = tx.rms.oldest_unacknowledged(), tx.invoker.oldest()
    ages = {"not acknowledged": sent, "not handled": received}
    return {name: 0.0 if since is None else max(0.0, now - since) for name, since in ages.items()}


def _list_sequences(on: InMemory, given: Arguments, _actor: Actor) -> Any:
    """The page after a number of sequences; those that are forgotten between two pages move the others forward."""
    which, begin, now = sequence_selection(given), position_of(given.text("after") or "0"), on.clock()
    end = begin + given.limit()
    with on.store.transaction() as tx:
        sources = [] if which.source is False else [_source(tx, each, now) for each in tx.rms.all()]
        destinations = [] if which.source is True else [_destination(tx, each, now) for each in tx.rmd.all()]
    found = [status.as_dict() for status, wait in sources + destinations if _is_selected(which, status, wait)]
    return {"items": found[begin:end], "after": str(end) if len(found) > end else None}


def _source(tx: Transaction, record: RmsRecord, now: float) -> tuple[SequenceStatus, Wait | None]:
    status = status_of(record, tx.rms.backlog(record.channel.key))
    seen = SourceSeen(record=record, waiting=Count(status.waiting), unsent=Count(0), holder=None)
    return status, why_source_waits(seen, now)


def _destination(tx: Transaction, record: RmdRecord, now: float) -> tuple[SequenceStatus, Wait | None]:
    buffer = tx.invoker.read(record.identifier)
    before = tx.invoker.read(buffer.follows) if buffer is not None and buffer.follows is not None else None
    status = destination_status(record, buffer)
    seen = DestinationSeen(
        record=record,
        buffer=buffer,
        waiting=status.waiting,
        holder=None,
        predecessor_waits=before is not None and not before.machine.finished,
    )
    return status, why_destination_waits(seen, now)


def _is_selected(which: SequenceFilter, status: SequenceStatus, wait: Wait | None) -> bool:
    """As the statements of `mercury.storage.sql.reads.sequences` select; nothing in memory is suspended or paused."""
    state = RmsState.FAILED.name if status.failure is not None else status.state.name
    over = status.failure is not None or state.startswith("ENDED")
    return (
        (not which.states or state in which.states)
        and which.endpoint in (None, status.endpoint)
        and (which.key_prefix is None or (status.side is Side.SOURCE and status.key.startswith(which.key_prefix)))
        and (not which.active or not over or status.waiting > 0)
        and (not which.stuck or (wait is not None and wait.stuck))
    )


def _list(on: InMemory, given: Arguments, _actor: Actor) -> Any:
    return [values.letter(each) for each in on.letters.find(selection(given), given.limit())]


def _count(on: InMemory, given: Arguments, _actor: Actor) -> Any:
    return [values.letter_count(each) for each in on.letters.count(selection(given))]


def _show(on: InMemory, given: Arguments, _actor: Actor) -> Any:
    found = on.letters.find(LetterFilter(ids=frozenset([given.needed("id")])), 1)
    return values.whole_letter(found[0]) if found else None


def _redrive(on: InMemory, given: Arguments, actor: Actor) -> Any:
    return _redriven(on, LetterFilter(ids=chosen(given)), given, actor)


def _redriven(on: InMemory, which: LetterFilter, given: Arguments, actor: Actor) -> dict[str, Any]:
    found = on.letters.redrive(which, allow_duplicate=given.flag("even_if_unknown"))
    for each in found.done:
        _log(actor, "redrive", each.id, given)
    refused = [{"id": each.id, "reason": why} for each, why in found.refused]
    return {"done": [each.id for each in found.done], "refused": refused}


def _discard(on: InMemory, given: Arguments, actor: Actor) -> Any:
    return _discarded(on, LetterFilter(ids=chosen(given)), given, actor)


def _discarded(on: InMemory, which: LetterFilter, given: Arguments, actor: Actor) -> dict[str, Any]:
    names = [each.id for each in on.letters.find(which)]
    on.letters.discard(which)
    for each in names:
        _log(actor, "discard", each, given)
    return {"done": names, "refused": []}


def _begin(on: InMemory, given: Arguments, actor: Actor) -> Any:
    """All at once: the letters are in memory anyway, and there is no table that would keep how far it is."""
    action, now = given.choice("action", BulkAction), on.clock()
    if action is BulkAction.REDRIVE:
        result = _redriven(on, selection(given), given, actor)
    elif action is BulkAction.DISCARD:
        result = _discarded(on, selection(given), given, actor)
    else:
        raise NotPossible(IN_MEMORY)
    done, refused = len(result["done"]), result["refused"]
    bulk = Bulk(
        action=action,
        state=BulkState.DONE,
        which=selection(given),
        last_position=0,
        allow_duplicate=given.flag("even_if_unknown"),
        actor=actor,
        note=given.text("note") or "",
        started_at=now,
        changed_at=now,
        total=done + len(refused),
        done=done,
        refused=len(refused),
        refusals=tuple((each["id"], each["reason"]) for each in refused[:MOST_REFUSALS]),
    )
    return values.bulk(bulk, now)


def _refused(call: Call[Any]) -> Call[InMemory]:
    def run(_on: InMemory, _given: Arguments, _actor: Actor) -> Any:
        raise NotPossible(IN_MEMORY)

    return Call(run, call.names, call.changes)


MEMORY_CALLS = MappingProxyType(
    {name: _refused(call) for name, call in CALLS.items()}
    | {
        "sequences.list": Call(_list_sequences, CALLS["sequences.list"].names),
        "sequences.close": _end("close", DestinationEnd.CLOSE),
        "sequences.terminate": _end("terminate", DestinationEnd.TERMINATE),
        "store.ages": Call(_ages),
        "dlq.list": Call(_list, (*SELECTION, "limit")),
        "dlq.count": Call(_count, SELECTION),
        "dlq.show": Call(_show, ("id",)),
        "dlq.redrive": Call(_redrive, ("ids", "even_if_unknown", "note"), changes=True),
        "dlq.discard": Call(_discard, ("ids", "note"), changes=True),
        "dlq.begin": Call(_begin, CALLS["dlq.begin"].names, changes=True),
    }
)
