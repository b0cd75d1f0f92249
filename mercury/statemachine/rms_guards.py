"""Maps the inputs of RMSSequence to the events of its table, and evaluates the guards of the table. Pure."""

from __future__ import annotations

from types import MappingProxyType
from typing import assert_never

from mercury.statemachine import events
from mercury.statemachine.faults import FaultCode, Ranges
from mercury.statemachine.policy import SourcePolicy
from mercury.statemachine.protocol import MAX_MESSAGE_NUMBER, RmVersion
from mercury.statemachine.rms_counters import RmsCounters
from mercury.statemachine.rms_table import RmsEvent, RmsGuard

#: The event of each fault, besides FAULT. SequenceClosed has none: its final acknowledgement causes the event, and
#: without one CloseSequence or a retransmission requests it.
_FAULTS = MappingProxyType(
    {
        FaultCode.UNKNOWN_SEQUENCE: RmsEvent.FAIL,
        FaultCode.SEQUENCE_TERMINATED: RmsEvent.FAIL,
        FaultCode.LAST_MESSAGE_NUMBER_EXCEEDED: RmsEvent.FAIL,
        FaultCode.CREATE_SEQUENCE_REFUSED: RmsEvent.REFUSED,
        FaultCode.WSRM_REQUIRED: RmsEvent.REFUSED,
        FaultCode.MESSAGE_NUMBER_ROLLOVER: RmsEvent.ROLLOVER,
    }
)


def events_of(given: events.RmsInput) -> tuple[RmsEvent, ...]:
    """The events of the table that an input is, one after the other."""
    match given:
        case events.Number(last=last):
            return (RmsEvent.LMR_NUMBERED if last else RmsEvent.AMR,)
        case events.End(abandon=abandon):
            return (RmsEvent.ABANDON if abandon else RmsEvent.LMR_BARE,)
        case events.Acknowledged():
            return (RmsEvent.ACK,)
        case events.Transmitted():
            return (RmsEvent.SENT,)
        case events.ResponseStored():
            return (RmsEvent.RESPONSE,)
        case events.Created():
            return (RmsEvent.CSRR,)
        case events.IdentifierTaken():
            return (RmsEvent.TAKEN,)
        case events.Withdrawn():
            return (RmsEvent.WITHDRAWN,)
        case events.Overdue():
            return (RmsEvent.OVERDUE,)
        case events.ControlSent():
            return (RmsEvent.CONTROL,)
        case events.Finished():
            return (RmsEvent.FIN,)
        case events.Settled():
            return (RmsEvent.TMS,)
        case events.FaultReceived(fault=fault, ranges=ranges):
            final = (RmsEvent.FIN,) if ranges is not None else ()
            specific = (_FAULTS[fault.code],) if fault.code in _FAULTS else ()
            return (RmsEvent.FAULT, *final, *specific)
        case events.GaveUp():
            return (RmsEvent.FAIL,)
        case events.Tick():
            return (RmsEvent.TICK,)
        case _:
            assert_never(given)


def holds(guard: RmsGuard, machine: RmsCounters, given: events.RmsInput, now: float, policy: SourcePolicy) -> bool:
    """Whether a guard holds, by the counters before the event."""
    match guard:
        case RmsGuard.INVALID:
            return machine.invalid(ranges_of(given))
        case RmsGuard.ALL:
            return _all_acknowledged(machine, ranges_of(given))
        case RmsGuard.NO_NUMBER_LEFT:
            return machine.last_number >= MAX_MESSAGE_NUMBER
        case RmsGuard.RM10:
            return machine.rm is RmVersion.RM10
        case RmsGuard.NO_RANGES:
            return isinstance(given, events.Finished) and given.ranges is None
        case RmsGuard.NONE_TAKEN:
            return _none_taken(machine, given)
        case RmsGuard.NOTHING_BEHIND:
            return machine.acknowledged.highest < machine.lowest_outstanding()
        case RmsGuard.BUSY:
            return isinstance(given, events.FaultReceived) and (given.fault.busy or not given.fault.sender)
        case RmsGuard.REPEATED:
            return _is_refused(given) and machine.control_attempts > 1
        case RmsGuard.OFFERED:
            return isinstance(given, events.FaultReceived) and given.offered and _is_refused(given)
        case RmsGuard.EXPIRED:
            return machine.expires_at is not None and machine.expires_at <= now
        case RmsGuard.SILENT:
            return _passed(machine.inactive_at(policy), now)
        case RmsGuard.IDLE_FOR_LONG:
            return _passed(machine.idle_at(policy), now)
        case _:
            assert_never(guard)


def ranges_of(given: events.RmsInput) -> Ranges:
    """The ranges of an input; empty if it has none."""
    match given:
        case events.Acknowledged(ranges=ranges) | events.Finished(ranges=ranges) | events.FaultReceived(ranges=ranges):
            return ranges or ()
        case _:
            return ()


def _all_acknowledged(machine: RmsCounters, ranges: Ranges) -> bool:
    after = machine.acknowledged.copy()
    after.update(ranges)
    after.update(machine.moved)
    return after.covers(1, machine.last_number)


def _is_refused(given: events.RmsInput) -> bool:
    """Whether it is CreateSequenceRefused; WSRMRequired says nothing about what CreateSequence asks for."""
    return isinstance(given, events.FaultReceived) and given.fault.code is FaultCode.CREATE_SEQUENCE_REFUSED


def _none_taken(machine: RmsCounters, given: events.RmsInput) -> bool:
    """Whether everything unacknowledged is above the highest number that the destination takes."""
    most = given.fault.max_message_number if isinstance(given, events.FaultReceived) else None
    return most is not None and machine.lowest_outstanding() > most


def _passed(at: float | None, now: float) -> bool:
    return at is not None and at <= now
