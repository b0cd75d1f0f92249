"""The three machines as tables: RMSSequence, RMDSequence, InvokerBuffer.

Theory: a state's value is the tuple of its factors, 1 = has happened. The machines in `rms`, `rmd` and `invoker`
keep counters; the tuple always equals the predicate on them. No order of events is assumed, and a repeat leaves the
state alone: a message lost on the wire is an event that did not happen, the state stays, and the state is what
causes the retransmission. Every input of a machine is looked up here first, whatever its state; what is then done with
the counters lives in the machines, and what a guard means in `guards`.

Origin: A. C. Suriarachchi, *Queued transaction processing with Web Services ReliableMessaging* (2010), figures 3-5
to 3-13: seven, five and four states. Added since: the ends of incomplete sequences (1001, 1101), the buffer that
knows its end but has a gap (010), the failure F and the closing C beside the tuple, which WS-RM 1.1 needs.
"""

from __future__ import annotations

from typing import get_args

from mercury.statemachine import effects
from mercury.statemachine.hashed_enum import HashedEnum
from mercury.statemachine.table import read_table


class RmsState(HashedEnum):
    """RMSSequence: SS sequence started, MIB messages in the buffer, LMR last message received, TMS end settled."""

    #: Nothing was ever numbered.
    NEW = "0000"
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
    #: F, with its reason beside it. The tuple is frozen as it was.
    FAILED = "F"


class RmsEvent(HashedEnum):
    """What happens to an RMSSequence."""

    #: Application message received from the application: it is to take a number.
    AMR = "AMR"
    #: The last one of them.
    LMR_NUMBERED = "LMR+"
    #: The end, without a number of its own.
    LMR_BARE = "LMR0"
    #: The same, and what is not acknowledged is abandoned.
    ABANDON = "ABN"
    #: CreateSequenceResponse received.
    CSRR = "CSRR"
    #: The same, with the identifier of another sequence.
    TAKEN = "TAKEN"
    #: Acknowledgement received that is not final.
    ACK = "ACK"
    #: The destination's final word.
    FIN = "FIN"
    #: The end is settled.
    TMS = "TMS"
    #: Any fault about the sequence.
    FAULT = "FLT"
    #: CreateSequence is refused.
    REFUSED = "REF"
    #: The destination takes no more numbers.
    ROLLOVER = "ROLL"
    #: Unknown, terminated or given up.
    FAIL = "FAIL"
    #: Numbers are about to leave.
    SENT = "SENT"
    #: The lowest number in flight is due again, and something was heard since it was sent.
    OVERDUE = "ODUE"
    #: A message that creates, asks, closes or terminates is about to leave.
    CONTROL = "CTRL"
    #: Responses are stored.
    RESPONSE = "RESP"
    #: Time has passed.
    TICK = "TICK"


class RmsGuard(HashedEnum):
    """When a row of RMSSequence is chosen; the meaning for people is the value."""

    NO_NUMBER_LEFT = "the highest number there is was given"
    RM10 = "WS-RM 1.0, which has no CloseSequence"
    INVALID = "the ranges list a number that was not sent, or are none"
    NO_RANGES = "no ranges came with it"
    ALL = "nothing is unacknowledged after it"
    NONE_TAKEN = "the destination takes nothing of what is unacknowledged"
    NOTHING_BEHIND = "nothing that follows the number is acknowledged"
    BUSY = "it says busy, or that the fault is the destination's"
    REPEATED = "it answers a repetition of CreateSequence"
    EXPIRED = "the sequence has expired"
    SILENT = "nothing was heard for too long"
    IDLE_FOR_LONG = "there was nothing to do for long"


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
    """What happens to an RMDSequence."""

    #: Application message received.
    AMR = "AMR"
    #: The same, marked as the last.
    LMR = "LMR"
    #: CloseSequence received.
    CLOSE = "CLS"
    #: TerminateSequence received.
    TMR = "TMR"
    #: AckRequested received.
    ACK_WANTED = "ASK"
    #: An acknowledgement is about to leave.
    ACK_SENT = "SAID"
    #: The application has consumed messages.
    CONSUMED = "SAM"
    #: Time has passed.
    TICK = "TICK"


class RmdGuard(HashedEnum):
    """When a row of RMDSequence is chosen; the meaning for people is the value."""

    AGAIN_COMPLETE = "received before, and only now marked as the last; nothing is missing"
    AGAIN_LAST = "received before, and only now marked as the last"
    AGAIN = "received before"
    NOT_TAKEN = "out of range, closed, above the last number, contradicting it, or one gap too many"
    COMPLETE = "nothing is missing after it"
    CONTRADICTION = "it contradicts what is known of the last number"
    NO_NUMBER = "it does not tell the last number"
    EXPIRED = "expired, or nothing was heard for too long"


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
    #: Messages were given to the application.
    SAM = "SAM"
    #: The application is about to get messages, and never again.
    BEGUN = "BEG"
    #: It has done with them.
    COMPLETED = "END"
    #: No worker has the begun messages any more.
    INTERRUPTED = "INT"
    #: The sequence ended incomplete.
    CUT = "CUT"


class InvokerGuard(HashedEnum):
    """When a row of InvokerBuffer is chosen; the meaning for people is the value."""

    OVERTAKEN = "a later message was delivered before it"
    BEHIND_A_GAP = "the sequence has ended with a gap before it"
    RELEASABLE = "something may be released after it"
    OVER = "it was all there will be"
    NOTHING_NEW = "all of it was given before"
    SOME_LEFT = "something may be released after it still"
    IN_PROGRESS = "something was begun and not completed"
    CUT_BEFORE = "it was cut before"


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
    guards=RmsGuard,
    effects=get_args(effects.RmsEffect),
    text="""
    0000                          | AMR       |                | 0100   | Numbered       | ST-S01 RM-SEQ-01
    0000                          | LMR+      |                | 0110   | Numbered       | ST-S01 RM10-SEQ-08
    0100                          | AMR LMR+  | no number left | 0110   | NumberRefused  | RM-SEQ-12
    1000                          | AMR LMR+  | no number left | 1010   | NumberRefused  | RM-SEQ-12
    1100                          | AMR LMR+  | no number left | 1110   | NumberRefused  | RM-SEQ-12
    0100                          | AMR       |                | 0100   | Numbered       | ST-S04 RM-SEQ-01
    0100                          | LMR+      |                | 0110   | Numbered       | ST-S04 RM10-SEQ-08
    1000 1100                     | AMR       |                | 1100   | Numbered       | ST-S04 RM-SEQ-01
    1000 1100                     | LMR+      |                | 1110   | Numbered       | ST-S04 RM10-SEQ-08
    0110 1110 1010 1011 F         | AMR LMR+  |                | refuse | NumberRefused  | ST-S04
    0000 1011 F                   | LMR0 ABN  |                | -      |                | ST-S10
    0100 0110                     | LMR0      |                | 0110   |                | ST-S10
    1100 1110                     | LMR0      |                | 1110   |                | ST-S10
    1000 1010                     | LMR0 ABN  |                | 1010   |                | ST-S10
    0100 0110                     | ABN       |                | F      | Failed         | ST-S10
    1100 1110                     | ABN       | rm10           | F      | Failed         | ST-S10
    1100 1110                     | ABN       |                | 1110   |                | ST-S10 RM11-CLS-01
    0100                          | CSRR      |                | 1100   |                | ST-S02
    0110                          | CSRR      |                | 1110   |                | ST-S02
    0000 1000 1100 1110 1010 1011 F | CSRR TAKEN |             | -      |                | ST-S02
    0100 0110                     | TAKEN     |                | F      | Moved Replaced | RM-CS-04 RM-CS-13
    0000 0100 0110 1011 F         | ACK       |                | -      |                | ST-S06
    1000 1100 1110 1010           | ACK       | invalid        | refuse | RaiseFault     | ST-S19 RM-ACK-03
    1000 1010                     | ACK       |                | =      |                | ST-S06
    1100                          | ACK       | all            | 1000   | Released       | ST-S06 RM-ACK-01
    1110                          | ACK       | all            | 1010   | Released       | ST-S06 ST-S14
    1100 1110                     | ACK       |                | =      | Released Due   | ST-S06 RM-ACK-01
    0000 0100 0110 1011 F         | FIN       |                | -      |                | ST-S07
    1000 1100 1110                | FIN       | no ranges      | =      |                | RM11-ACK-08
    1000 1100 1110 1010           | FIN       | invalid        | refuse | RaiseFault     | ST-S19 RM-ACK-03
    1000 1010                     | FIN       |                | 1010·C |                | ST-S07 ST-S11
    1100 1110                     | FIN       |                | 1010·C | Moved Released | ST-S07 ST-S11 RM11-SEQ-11
    1010                          | TMS       |                | 1011   | Ended          | ST-S15 RM10-TRM-04
    0000 0100 0110 1000 1100 1110 1011 F | TMS |               | -      |                | ST-S15
    0100 0110 1000 1100 1110 1010 | FLT       |                | =      |                | ST-S13 RM-TRM-07
    0000 1011 F                   | FLT       |                | -      |                | ST-S17
    0100 0110                     | REF       | busy           | =      |                | RM-CS-14
    0100 0110                     | REF       | repeated       | F      | Moved Replaced | RM-CS-13
    0100 0110                     | REF       |                | F      | Failed         | ST-S03 FLT-05
    0000 1000 1100 1110 1010 1011 F | REF     |                | -      |                | ST-S03
    1000 1010                     | ROLL      |                | 1010   |                | ST-S09 RM-SEQ-12
    1100 1110                     | ROLL      | none taken     | 1010   | Moved          | ST-S09 RM-SEQ-12
    1100 1110                     | ROLL      |                | 1110   | Moved          | ST-S09 RM-SEQ-12
    0000 0100 0110 1011 F         | ROLL      |                | -      |                | ST-S09
    0100 0110 1100 1110           | FAIL      |                | F      | Failed         | ST-S17 FLT-01 FLT-02
    1000 1010                     | FAIL      |                | 1011   | Ended          | ST-S17 RM11-TRM-03
    0000 1011 F                   | FAIL      |                | -      |                | ST-S17
    0100 0110 1000 1100 1110 1010 | SENT      |                | =      |                | ST-S05
    0000 1011 F                   | SENT ODUE CTRL |           | -      |                | ST-S05
    1100 1110                     | ODUE      | nothing behind | =      |                | LIVE-05
    0100 0110 1000 1100 1110 1010 | ODUE      |                | -      |                | LIVE-05
    0100 0110 1100 1110 1010      | CTRL      |                | =      |                | ST-S01 ST-S10 ST-S14 FC-02
    1000                          | CTRL      |                | -      |                | ST-S14
    0100 0110 1000 1100 1110 1010 1011 F | RESP |              | =      |                | ST-W01
    0000                          | RESP      |                | -      |                | ST-W01
    0100 0110 1100 1110           | TICK      | expired        | F      | Failed         | ST-S18 RM-TRM-07
    1000 1010                     | TICK      | expired        | 1011   | Ended          | ST-S18 RM-TRM-07
    0100 0110 1100 1110           | TICK      | silent         | F      | Failed         | RM-TRM-07
    1000                          | TICK      | idle for long  | 1010   |                | ST-S10 ST-S14
    0100 0110 1000 1100 1110 1010 | TICK      |                | =      |                | RM-TRM-07
    0000 1011 F                   | TICK      |                | -      |                | RM-TRM-07
    """,
    work={
        RmsState.NEW: "nothing; a message is about to take its first number",
        RmsState.CREATING: "(re)send CreateSequence, with the same MessageID and offer; a refused repeat: see F",
        RmsState.CREATING_LAST: "the same",
        RmsState.IDLE: "nothing; when idle for long, end",
        RmsState.SENDING: "(re)transmit due messages",
        RmsState.SENDING_LAST: "(re)transmit due messages; WS-RM 1.0: a bare LastMessage when all before it is "
        "acknowledged; WS-RM 1.1, to abandon the rest, or when all is sent and nothing was ever acknowledged: "
        "CloseSequence",
        RmsState.ENDING: "WS-RM 1.1: CloseSequence while not C, then TerminateSequence; WS-RM 1.0: TerminateSequence",
        RmsState.ENDED: "nothing; answers CloseSequence and TerminateSequence",
        RmsState.FAILED: "nothing; answers CloseSequence and TerminateSequence",
    },
    start=(
        "a message waits: 0000",
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
    guards=RmdGuard,
    effects=get_args(effects.RmdEffect),
    text="""
    1000                | LMR     | again complete | 1110   | Duplicate EndKnown   | RM-SEQ-06 RM10-SEQ-08
    1000                | LMR     | again last     | 1100   | Duplicate EndKnown   | RM-SEQ-06 RM10-SEQ-08
    1000 1100 1110      | AMR LMR | again          | =      | Duplicate            | RM-SEQ-06
    0000 1000           | AMR LMR | not taken      | refuse | RaiseFault           | ST-D03 ST-D04 RM-SEQ-07 RM11-SEQ-10
    1100                | AMR     | not taken      | refuse | RaiseFault           | ST-D03 RM10-SEQ-09 RM11-SEQ-10
    0000 1000           | AMR     |                | 1000   | Accept               | ST-D03
    0000 1000           | LMR     | complete       | 1110   | Accept               | ST-D03 RM10-SEQ-08
    0000 1000           | LMR     |                | 1100   | Accept               | ST-D03 RM10-SEQ-08
    1100                | AMR     | complete       | 1110   | Accept               | ST-D03
    1100                | AMR     |                | 1100   | Accept               | ST-D03
    1100                | LMR     |                | refuse | RaiseFault           | RM10-SEQ-09 RM11-CLS-04
    1110                | AMR LMR |                | refuse | RaiseFault           | RM10-SEQ-09 RM11-SEQ-10
    1001 1101 1111      | AMR LMR | again          | refuse | Duplicate RaiseFault | RM-SEQ-05 RM-TRM-06
    1001 1101 1111      | AMR LMR |                | refuse | RaiseFault           | RM-SEQ-05 RM-TRM-06
    0000 1000 1100 1110 | CLS TMR | contradiction  | refuse | RaiseFault           | RM11-CLS-04
    0000 1000           | CLS     | complete       | 1110·C | EndKnown             | ST-D06 RM11-CLS-01
    1000                | CLS     | no number      | 1000·C |                      | ST-D06 RM11-CLS-01
    0000 1000           | CLS     |                | 1100·C | EndKnown             | ST-D06 RM11-CLS-01
    1100 1110           | CLS     |                | =·C    |                      | ST-D06 RM11-CLS-02
    0000 1000           | TMR     | complete       | 1111   | EndKnown             | ST-D09 RM11-TRM-01
    0000 1000           | TMR     | no number      | 1001   | CutBuffer            | ST-D09 RM10-TRM-04
    0000 1000           | TMR     |                | 1101   | EndKnown CutBuffer   | ST-D09 RM11-SEQ-11
    1100                | TMR     |                | 1101   | CutBuffer            | ST-D09 RM11-SEQ-11
    1110                | TMR     |                | 1111   |                      | ST-D09
    1001 1101 1111      | CLS TMR |                | -      |                      | ST-D06 ST-D09
    0000 1000 1100 1110 1001 1101 1111 | ASK  |    | =      |                      | ST-D05 RM-ACK-06
    0000 1000 1100 1110 1001 1101 1111 | SAID |    | =      |                      | ST-D15 RM-ACK-12
    1000 1100 1110 1001 1101 1111 | SAM  |         | =      |                      | DA-06
    0000                | SAM     |                | -      |                      | DA-06
    0000                | TICK    | expired        | =      | Forget               | ST-D14
    1000                | TICK    | expired        | 1001   | CutBuffer            | ST-D14 RM-TRM-07
    1100                | TICK    | expired        | 1101   | CutBuffer            | ST-D14 RM-TRM-07
    1110                | TICK    | expired        | 1111   |                      | ST-D14 RM-TRM-07
    0000 1000 1100 1110 | TICK    |                | =      |                      | RM-TRM-07
    1001 1101 1111      | TICK    |                | -      |                      | RM-TRM-06
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
    guards=InvokerGuard,
    effects=(effects.Dropped,),
    text="""
    000 100 010 110 011 | AMR LMRm | overtaken    | refuse | Dropped | DA-01 DA-03
    110                 | AMR LMRm | behind a gap | refuse | Dropped | RM11-SEQ-11
    011                 | AMR LMRm |              | refuse | Dropped | DA-05
    000                 | AMR      | releasable   | 100    |         | DA-04
    000                 | AMR      |              | 000    |         | DA-04
    000                 | LMRm     | releasable   | 110    |         | DA-04
    000                 | LMRm     |              | 010    |         | DA-04
    100                 | AMR      |              | 100    |         | DA-04
    100                 | LMRm     |              | 110    |         | DA-04
    010                 | AMR LMRm | releasable   | 110    |         | DA-04
    010                 | AMR LMRm |              | 010    |         | DA-04
    110                 | AMR LMRm |              | 110    |         | DA-04
    000                 | LMR#     | releasable   | 110    |         | RM11-SEQ-11
    000                 | LMR#     | over         | 011    |         | RM11-CLS-01
    000                 | LMR#     |              | 010    |         | RM11-CLS-01
    100                 | LMR#     |              | 110    |         | RM11-CLS-01
    010 110 011         | LMR#     |              | =      |         | RM11-CLS-04
    000 100 010 110 011 | SAM      | nothing new  | -      |         | DA-03
    100                 | SAM      | some left    | 100    | Dropped | DA-04
    100                 | SAM      |              | 000    | Dropped | DA-04
    110                 | SAM      | some left    | 110    | Dropped | DA-04
    110                 | SAM      | over         | 011    | Dropped | DA-04
    110                 | SAM      |              | 010    | Dropped | DA-04
    000 100 010 110 011 | BEG END  |              | =      |         | DA-01
    000 100 010 110 011 | INT      | in progress  | =      | Dropped | DA-01 DA-05
    000 100 010 110 011 | INT      |              | -      |         | DA-01
    110                 | CUT      | cut before   | -      |         | RM11-SEQ-11
    011                 | CUT      |              | -      |         | RM11-SEQ-11
    000 010             | CUT      | some left    | 110    |         | RM11-SEQ-11
    000 010             | CUT      |              | 011    | Dropped | RM11-SEQ-11
    100                 | CUT      |              | 110    | Dropped | RM11-SEQ-11
    110                 | CUT      | some left    | 110    | Dropped | RM11-SEQ-11
    110                 | CUT      |              | 011    | Dropped | RM11-SEQ-11
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
