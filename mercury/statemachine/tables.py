"""The three machines as tables: RMSSequence, RMDSequence, InvokerBuffer.

Theory: a state's value is the tuple of its factors, 1 = has happened. The machines in `rms`, `rmd` and `invoker`
keep counters; the tuple always equals the predicate on them. No order of events is assumed, and a repeat leaves the
state alone: a message lost on the wire is an event that did not happen, the state stays, and the state is what
causes the retransmission. Only states, events and cells live here; what is done about them lives in the machines.

Origin: A. C. Suriarachchi, *Queued transaction processing with Web Services ReliableMessaging* (2010), figures 3-5
to 3-13: seven, five and four states. Added since: the ends of incomplete sequences (1001, 1101), the buffer that
knows its end but has a gap (010), the failure F and the closing C beside the tuple, which WS-RM 1.1 needs.
"""

from __future__ import annotations

from mercury.statemachine.hashed_enum import HashedEnum
from mercury.statemachine.table import read_table


class RmsState(HashedEnum):
    """RMSSequence: SS sequence started, MIB messages in the buffer, LMR last message received, TMS end settled."""

    #: Messages wait; CreateSequence is on its way.
    CREATING = "0100"
    #: The same, and the application has said its last.
    CREATING_LAST = "0110"
    #: Nothing is unacknowledged; more may come.
    IDLE = "1000"
    #: Messages are unacknowledged; more may come.
    SENDING = "1100"
    #: Messages are unacknowledged; no more will come.
    SENDING_LAST = "1110"
    #: Everything is acknowledged or has left; the end is being sent.
    ENDING = "1010"
    #: The end is settled; a tombstone that still answers.
    ENDED = "1011"


class RmsEvent(HashedEnum):
    """What happens to an RMSSequence."""

    #: Application message received from the application (it takes a number).
    AMR = "AMR"
    #: Last message that takes a number.
    LMR_NUMBERED = "LMR+"
    #: The end, without a number of its own.
    LMR_BARE = "LMR0"
    #: CreateSequenceResponse received.
    CSRR = "CSRR"
    #: Acknowledgement received, after which the buffer is not empty.
    ACK = "ACK"
    #: Acknowledgement received, after which the buffer is empty.
    ACKALL = "ACKALL"
    #: The destination's final word.
    FIN = "FIN"
    #: The end is settled.
    TMS = "TMS"
    #: Refused, unknown, terminated, expired or given up.
    FAIL = "FAIL"


class RmdState(HashedEnum):
    """RMDSequence: FMR identifier used, LMR last number known, EMR every message received, TMR ended."""

    #: Created; the source may not know the identifier yet.
    CREATED = "0000"
    #: In use; the last number is not known.
    RECEIVING = "1000"
    #: The last number is known; something is missing.
    LAST_KNOWN = "1100"
    #: Everything up to the last number was received.
    COMPLETE = "1110"
    #: Ended complete; a tombstone.
    ENDED_COMPLETE = "1111"
    #: Ended, the last number unknown; a tombstone.
    ENDED_OPEN = "1001"
    #: Ended with something missing; a tombstone.
    ENDED_INCOMPLETE = "1101"


class RmdEvent(HashedEnum):
    """What happens to an RMDSequence. SC = the sequence is complete after it, SNC = it is not."""

    AMR_SNC = "AMR(SNC)"
    AMR_SC = "AMR(SC)"
    #: The last message, or a LastMsgNumber.
    LMR_SNC = "LMR(SNC)"
    LMR_SC = "LMR(SC)"
    #: TerminateSequence received.
    TMR = "TMR"
    #: Expired or inactive.
    EXP = "EXP"


class InvokerState(HashedEnum):
    """InvokerBuffer: MIB releasable messages in the buffer, LMR the end is known, EMS nothing is left to release."""

    #: Nothing to release now.
    EMPTY = "000"
    #: Something to release.
    RELEASING = "100"
    #: The end is known; a gap stands before what is left.
    AWAITING = "010"
    #: The end is known; something to release.
    RELEASING_LAST = "110"
    #: Everything that will ever be released has been.
    DONE = "011"


class InvokerEvent(HashedEnum):
    """What happens to an InvokerBuffer."""

    #: Application message received.
    AMR = "AMR"
    #: Last message received, with its body.
    LMR_MESSAGE = "LMRm"
    #: Only the last number became known.
    LMR_NUMBER = "LMR#"
    #: Messages were given to the application; releasable ones are left.
    SAM_SOME = "SAM-some"
    #: The same; none is left, more are expected.
    SAM_MORE = "SAM-more"
    #: The same; it was all there will be.
    SAM_ALL = "SAM-all"
    #: The sequence ended incomplete; releasable messages are left.
    CUT_LEFT = "CUT-left"
    #: The same; none is left.
    CUT_NONE = "CUT-none"


RMS = read_table(
    "RMSSequence",
    factors={
        "SS": "sequence started (identifier known)",
        "MIB": "messages in the buffer (unacknowledged)",
        "LMR": "last message received from the application",
        "TMS": "the end is settled",
    },
    states=RmsState,
    events=RmsEvent,
    text="""
    state AMR    LMR+ LMR0 CSRR ACK  ACKALL FIN    TMS  FAIL
    0100  0100   0110 0110 1100 x    x      x      x    F
    0110  refuse x    0110 1110 x    x      x      x    F
    1000  1100   1110 1010 1000 x    1000   1010·C x    1011
    1100  1100   1110 1110 1100 1100 1000   1010·C x    F
    1110  refuse x    1110 1110 1110 1010   1010·C x    F
    1010  refuse x    1010 1010 x    1010   1010·C 1011 1011
    1011  refuse x    1011 1011 x    1011   1011   1011 1011
    """,
    work={
        RmsState.CREATING: "(re)send CreateSequence, with the same MessageID and offer; a refused repeat: see F",
        RmsState.CREATING_LAST: "the same",
        RmsState.IDLE: "nothing; when idle for long, end",
        RmsState.SENDING: "(re)transmit due messages",
        RmsState.SENDING_LAST: "(re)transmit due messages; WS-RM 1.0: a bare LastMessage when all before it is "
        "acknowledged; WS-RM 1.1, to abandon the rest, or when all is sent and nothing was ever acknowledged: "
        "CloseSequence",
        RmsState.ENDING: "WS-RM 1.1: CloseSequence while not C, then TerminateSequence; WS-RM 1.0: TerminateSequence",
        RmsState.ENDED: "nothing; answers CloseSequence and TerminateSequence",
    },
    start=(
        "AMR: 0100",
        "LMR+: 0110",
        "an accepted offer: 1000",
        "a late answer to a CreateSequence that was replaced: 1010",
    ),
)

RMD = read_table(
    "RMDSequence",
    factors={
        "FMR": "the identifier was used by the source",
        "LMR": "the last number is known",
        "EMR": "every message up to it was received",
        "TMR": "ended",
    },
    states=RmdState,
    events=RmdEvent,
    text="""
    state AMR(SNC) AMR(SC) LMR(SNC) LMR(SC) TMR  EXP
    0000  1000     x       1100     1110    1001 -
    1000  1000     x       1100     1110    1001 1001
    1100  1100     1110    1100     x       1101 1101
    1110  x        x       1110     1110    1111 1111
    1001  refuse   refuse  1001     1001    1001 1001
    1101  refuse   refuse  1101     1101    1101 1101
    1111  refuse   refuse  1111     1111    1111 1111
    """,
    work={
        RmdState.CREATED: "repeat the response to a repeated CreateSequence; acknowledge only when asked",
        RmdState.RECEIVING: "acknowledge: on request, after a new message or a duplicate, when the interval is over",
        RmdState.LAST_KNOWN: "the same; when closed, every acknowledgement is Final",
        RmdState.COMPLETE: "the same",
        RmdState.ENDED_COMPLETE: "a tombstone: fault with ranges; the same answers to Close and Terminate again",
        RmdState.ENDED_OPEN: "a tombstone: the same",
        RmdState.ENDED_INCOMPLETE: "a tombstone: the same",
    },
    start=("CreateSequence, or an offer that was accepted: 0000",),
)

INVOKER = read_table(
    "InvokerBuffer",
    factors={
        "MIB": "releasable messages in the buffer",
        "LMR": "the end is known",
        "EMS": "the end is known and nothing is left to release",
    },
    states=InvokerState,
    events=InvokerEvent,
    text="""
    state AMR     LMRm    LMR#        SAM-some SAM-more SAM-all CUT-left CUT-none
    000   100/000 110/010 110/011/010 x        x        x       110      011
    100   100     110     110         100      000      x       110      011
    010   110/010 x       010         x        x        x       110      011
    110   110     x       110         110      010      011     110      011
    011   011     011     011         x        x        x       x        011
    """,
    work={
        InvokerState.EMPTY: "wait",
        InvokerState.RELEASING: "invoke the application, in order, and mark what it took as delivered",
        InvokerState.AWAITING: "wait for the gap to be filled or the sequence to be cut",
        InvokerState.RELEASING_LAST: "invoke the application, in order, and mark what it took as delivered",
        InvokerState.DONE: "nothing; once every response is stored, the response sequence may end",
    },
    start=("with its RMDSequence: 000",),
)

#: All three, in the order in which one message meets them.
ALL = (RMS, RMD, INVOKER)
