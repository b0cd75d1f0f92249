"""Restarting a source sequence in a successor, by an operator."""

from __future__ import annotations

import enum
import time
from dataclasses import dataclass

from mercury.engine.claims import ClaimKeeper
from mercury.engine.context import EngineContext
from mercury.engine.ids import Ids
from mercury.engine.message_security import SecurityParties
from mercury.engine.observers import Observers
from mercury.engine.registry import Registry
from mercury.engine.settings import EngineSettings
from mercury.engine.source.apply_effects import apply_rms_effects, save_rms
from mercury.engine.source.peer_store import doubtful
from mercury.operations.acting import NotPossible
from mercury.statemachine import effects, events
from mercury.statemachine.faults import Ranges
from mercury.statemachine.ranges import RangeSet
from mercury.storage.records import RmsRecord
from mercury.storage.sql.store import SqlStore
from mercury.storage.sql.transaction import SqlTransaction
from mercury.texts import counted


class InDoubt(enum.Enum):
    """What becomes of messages that were sent and not acknowledged: the destination may have them."""

    #: The restart is refused if there are any.
    REFUSE = "refuse"
    #: They become dead letters with the certainty *unknown*.
    PARK = "park"
    #: The successor sends them again: they may take effect twice.
    RESEND = "resend"


@dataclass(frozen=True, slots=True, kw_only=True)
class Restarted:
    """The result of a restart, in message numbers of the old sequence."""

    #: Never sent: the successor sends them.
    moved: Ranges
    #: Sent and not acknowledged: what became of them is `in_doubt`.
    doubtful: Ranges
    in_doubt: InDoubt


def restart(
    tx: SqlTransaction, store: SqlStore, ids: Ids, record: RmsRecord, in_doubt: InDoubt, now: float
) -> Restarted:
    """Give a sequence of a locked key up; the worker of the key makes the successor.

    Messages of the key that have no number yet, and those that move, keep their order.

    :raises NotPossible: messages are in doubt, and ``in_doubt`` is REFUSE.
    """
    doubt = doubtful(record.machine)
    if doubt and in_doubt is InDoubt.REFUSE:
        many = RangeSet(doubt).count
        raise NotPossible(
            f"{counted(many, 'message was sent and is', 'messages were sent and are')} not acknowledged, so the "
            "destination may have them. Sending them again may repeat their effect: ask for it "
            "explicitly (--even-if-unknown), or make them dead letters (--park-unknown)"
        )
    context = _context(store, ids)
    machine, policy = record.machine, record.channel.policy
    requested = machine.handle(events.GaveUp(), now, policy)
    failed = next((each for each in requested if isinstance(each, effects.Failed)), None)
    others: list[effects.RmsEffect] = [each for each in requested if not isinstance(each, effects.Failed)]
    moved: Ranges = ()
    if failed is not None:
        again = failed.unknown if in_doubt is InDoubt.RESEND else ()
        moved = tuple(RangeSet((*failed.not_delivered, *again)))
        rows = tx.rms.unnumber(record, moved, again) if moved else []
        machine.pass_on(moved)
        unanswered = sum(row.expects_response and not row.answered for row in rows)
        machine.handle(events.ResponseStored(unanswered), now, policy)
        rest = () if in_doubt is InDoubt.RESEND else failed.unknown
        others.append(effects.Failed(failed.reason, (), rest))
    apply_rms_effects(tx, context, record, others, now)
    record.due = now
    save_rms(tx, record)
    return Restarted(moved=moved, doubtful=doubt, in_doubt=in_doubt)


def _context(store: SqlStore, ids: Ids) -> EngineContext:
    """The parts of the engine that the effects of a sequence need, without observers."""
    return EngineContext(
        store=store,
        application=Registry(),
        observers=Observers(),
        ids=ids,
        settings=EngineSettings(),
        claims=ClaimKeeper(store, "operator", 1.0),
        security=SecurityParties(time.time, ids.new),
    )
