"""The end of a sequence waits while exchanges with its messages are open."""

from __future__ import annotations

from mercury.engine.source.after_start import ThisProcess
from mercury.statemachine.messages import IncompleteSequenceBehavior
from mercury.statemachine.rms_table import RmsState
from mercury.storage.records import RmsRecord

#: Seconds until an end that waits is looked at again.
PAUSE = 0.25


def put_off_end(record: RmsRecord, process: ThisProcess, now: float) -> bool:
    """Whether the end of a sequence is not sent yet: it is looked at again after a pause (IOP-WCF-11).

    A service of .NET whose responses go over connections holds the exchange of a message until the application has it,
    but acknowledges it before, on other exchanges. It discards it at the end of the sequence. No exchange is open for
    longer than `http.timeout`.
    """
    machine = record.machine
    is_mercury = record.batch_messages > 0
    if machine.state is not RmsState.ENDING or machine.abandoned or is_mercury:
        return False
    if not (record.offer_accepted and record.channel.reply_to.anonymous):
        return False
    if machine.incomplete_behavior is IncompleteSequenceBehavior.DISCARD_ENTIRE_SEQUENCE:
        return False  # such a destination delivers nothing before the end
    if not process.has_exchange(record.id):
        return False
    machine.put_off_control(now + PAUSE)
    return True
