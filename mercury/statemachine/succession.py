"""The pause before the successor of a sequence that the destination has ended. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence

from mercury.statemachine.retransmission import Backoff
from mercury.statemachine.rms_counters import RmsCounters

#: The error if the destination gives no reason.
NOTHING_TAKEN = "the destination ended a sequence and has taken none of its messages; it is tried with another sequence"


def took_nothing(machine: RmsCounters) -> bool:
    """Whether the destination acknowledged nothing of a sequence, and messages of it have gone to a successor."""
    return bool(machine.moved) and not machine.acknowledged


def successor_pause(before: Sequence[RmsCounters], backoff: Backoff, chance: float) -> float:
    """Seconds before CreateSequence of a sequence that follows these is sent.

    The first successor is requested at once. If the destination accepts none of its messages either, the pauses before
    further ones are those of a message that is not acknowledged.

    :param before: the sequences of its key before it, oldest first.
    :param chance: a random number, 0 <= chance < 1.
    """
    vain = 0
    for machine in reversed(before):
        if not took_nothing(machine):
            break
        vain += 1
    return backoff.delay(vain - 1, chance) if vain > 1 else 0.0
