"""The states of a sequence and the events of the machines in words, for the command line, the console and the docs."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType

from mercury.statemachine.tables import InvokerEvent, RmdEvent, RmdState, RmsEvent, RmsState

#: What a sequence does in each state.
STATES: Mapping[RmsState | RmdState, str] = MappingProxyType(
    {
        RmsState.NEW: "nothing to send yet",
        RmsState.CREATING: "being created",
        RmsState.CREATING_LAST: "being created, then ends",
        RmsState.IDLE: "open, all acknowledged",
        RmsState.SENDING: "sending",
        RmsState.SENDING_LAST: "sending the rest",
        RmsState.ENDING: "ending",
        RmsState.ENDED: "ended",
        RmsState.FAILED: "failed",
        RmdState.CREATED: "open, nothing received",
        RmdState.RECEIVING: "open, receiving",
        RmdState.LAST_KNOWN: "ending, some are missing",
        RmdState.COMPLETE: "all received",
        RmdState.ENDED_COMPLETE: "ended, all received",
        RmdState.ENDED_OPEN: "ended early",
        RmdState.ENDED_INCOMPLETE: "ended, some are missing",
    }
)
#: The same by the name of the state: no name is in both machines.
BY_NAME: Mapping[str, str] = MappingProxyType({state.name: words for state, words in STATES.items()})

#: The meaning of each event.
EVENTS: Mapping[Enum, str] = MappingProxyType(
    {
        RmsEvent.AMR: "a message from the application is to take the next number",
        RmsEvent.LMR_NUMBERED: "the application's last message is to take the next number",
        RmsEvent.LMR_BARE: "the application ends the sequence without another message",
        RmsEvent.ABANDON: "the same, and it abandons what is not acknowledged",
        RmsEvent.CSRR: "CreateSequenceResponse received",
        RmsEvent.TAKEN: "the same, with the identifier of another sequence",
        RmsEvent.WITHDRAWN: "a numbered message has expired before anything was sent",
        RmsEvent.ACK: "acknowledgement received that is not final",
        RmsEvent.FIN: "the destination's final acknowledgement: final ranges, by any message",
        RmsEvent.TMS: "TerminateSequence was taken by the transport (WS-RM 1.0) or answered (WS-RM 1.1)",
        RmsEvent.FAULT: (
            "any fault about the sequence; FIN, REF, ROLL or FAIL follows it if the fault means one of these"
        ),
        RmsEvent.REFUSED: "the fault CreateSequenceRefused or WSRMRequired",
        RmsEvent.ROLLOVER: "the fault MessageNumberRollover",
        RmsEvent.FAIL: "the fault UnknownSequence, SequenceTerminated or LastMessageNumberExceeded; or given up",
        RmsEvent.SENT: "messages are about to leave",
        RmsEvent.OVERDUE: (
            "the lowest number in flight is due again, and the destination has answered since it was sent"
        ),
        RmsEvent.CONTROL: "CreateSequence, AckRequested alone, CloseSequence or TerminateSequence is about to leave",
        RmsEvent.RESPONSE: "responses to requests of the sequence are stored",
        RmsEvent.TICK: "time has passed",
        RmdEvent.AMR: "message received",
        RmdEvent.LMR: "message received that is marked as the last",
        RmdEvent.CLOSE: "CloseSequence received",
        RmdEvent.TMR: "TerminateSequence received",
        RmdEvent.ACK_WANTED: "AckRequested received",
        RmdEvent.ACK_SENT: "an acknowledgement is about to leave",
        RmdEvent.CONSUMED: "the application has consumed messages",
        RmdEvent.OWN_CLOSE: "CloseSequence of this side is about to leave",
        RmdEvent.OWN_TERMINATE: "TerminateSequence of this side is about to leave",
        RmdEvent.ANSWERED: "the source has answered it, or no answer is waited for",
        RmdEvent.ROOM: "how many more messages fit was counted",
        RmdEvent.TICK: "time has passed",
        InvokerEvent.AMR: "message received",
        InvokerEvent.LMR_MESSAGE: "last message received, with its body",
        InvokerEvent.LMR_NUMBER: "only the last number became known",
        InvokerEvent.SAM: "messages were given to the application",
        InvokerEvent.BEGUN: (
            "the application is about to get messages, and never again (AtMostOnce); SAM comes after it"
        ),
        InvokerEvent.COMPLETED: "the handler has finished with the begun messages",
        InvokerEvent.INTERRUPTED: "no worker has the begun messages any more",
        InvokerEvent.CUT: "the sequence ended incomplete",
    }
)
