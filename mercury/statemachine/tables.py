"""The three machines as tables: RMSSequence, RMDSequence, InvokerBuffer, each in a file of its own.

Theory: a state's value is the tuple of its factors, 1 = has happened. The machines in `rms`, `rmd` and `invoker`
keep counters; the tuple always equals the predicate on them. No order of events is assumed, and a repeat leaves the
state alone: a message lost on the wire is an event that did not happen, the state stays, and the state is what
causes the retransmission. Every input of a machine is looked up in its table first, whatever its state; what is then
done with the counters, and when a guard holds, is in the machine (for RMSSequence also in `rms_guards`).

Origin: A. C. Suriarachchi, *Queued transaction processing with Web Services ReliableMessaging* (2010), figures 3-5
to 3-13: seven, five and four states. Added since: the ends of incomplete sequences (1001, 1101), the buffer that
knows its end but has a gap (010), the failure F and the closing C beside the tuple, which WS-RM 1.1 needs.
"""

from __future__ import annotations

from mercury.statemachine.invoker_table import INVOKER, InvokerEvent, InvokerGuard, InvokerState
from mercury.statemachine.rmd_table import RMD, RmdEvent, RmdGuard, RmdState
from mercury.statemachine.rms_table import RMS, RmsEvent, RmsGuard, RmsState

__all__ = [
    "ALL",
    "INVOKER",
    "InvokerEvent",
    "InvokerGuard",
    "InvokerState",
    "RMD",
    "RMS",
    "RmdEvent",
    "RmdGuard",
    "RmdState",
    "RmsEvent",
    "RmsGuard",
    "RmsState",
]

#: All three, in the order in which one message meets them.
ALL = (RMS, RMD, INVOKER)
