"""RMDSequence as a table: its states, its events, its guards and its rows. `tables` has the theory."""

from __future__ import annotations

from typing import get_args

from mercury.statemachine import effects
from mercury.statemachine.hashed_enum import HashedEnum
from mercury.statemachine.table import read_table


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
    #: CloseSequence of this side is about to leave.
    OWN_CLOSE = "CLS!"
    #: TerminateSequence of this side is about to leave.
    OWN_TERMINATE = "TMR!"
    #: The source has answered it.
    ANSWERED = "ANS"
    #: AckRequested received.
    ACK_WANTED = "ASK"
    #: An acknowledgement is about to leave.
    ACK_SENT = "SAID"
    #: The application has consumed messages.
    CONSUMED = "SAM"
    #: How many more messages fit was counted.
    ROOM = "ROOM"
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
    ROOM_AGAIN = "the newest acknowledgement stated that nothing fits, and there is room"
    EXPIRED = "expired, or nothing was heard for too long"


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
    0000 1000 1100 1110 | CLS!    |                | =·C    |                      | ST-D07 RM11-CLS-03
    1001 1101 1111      | CLS!    |                | -      |                      | ST-D07
    0000 1000           | TMR!    |                | 1001   | CutBuffer            | ST-D10 RM11-TRM-02
    1100                | TMR!    |                | 1101   | CutBuffer            | ST-D10 RM11-TRM-02
    1110                | TMR!    |                | 1111   |                      | ST-D10 RM11-TRM-02
    1001 1101 1111      | TMR!    |                | =      |                      | ST-D10
    0000 1000 1100 1110 1001 1101 1111 | ANS  |    | =      |                      | ST-D08 ST-D11
    0000 1000 1100 1110 1001 1101 1111 | ASK  |    | =      |                      | ST-D05 RM-ACK-06
    0000 1000 1100 1110 1001 1101 1111 | SAID |    | =      |                      | ST-D15 RM-ACK-12
    1000 1100 1110 1001 1101 1111 | SAM  |         | =      |                      | DA-06
    0000                | SAM     |                | -      |                      | DA-06
    1000 1100 1110      | ROOM    | room again     | =      |                      | FC-02
    0000 1000 1100 1110 | ROOM    |                | =      |                      | FC-01
    1001 1101 1111      | ROOM    |                | -      |                      | FC-01
    0000                | TICK    | expired        | =      | Forget               | ST-D14
    1000                | TICK    | expired        | 1001   | CutBuffer            | ST-D14 RM-TRM-07
    1100                | TICK    | expired        | 1101   | CutBuffer            | ST-D14 RM-TRM-07
    1110                | TICK    | expired        | 1111   |                      | ST-D14 RM-TRM-07
    0000 1000 1100 1110 | TICK    |                | =      |                      | RM-TRM-07
    1001 1101 1111      | TICK    |                | -      |                      | RM-TRM-06
    """,
    work={
        RmdState.CREATED: "repeat the response to a repeated CreateSequence; acknowledge only on request",
        RmdState.RECEIVING: "acknowledge: on request, after a new message or a duplicate, when the interval is over",
        RmdState.LAST_KNOWN: "the same; when closed, every acknowledgement is Final",
        RmdState.COMPLETE: "the same",
        RmdState.ENDED_COMPLETE: "a tombstone: fault with ranges; acknowledge on request, answer Close and Terminate",
        RmdState.ENDED_OPEN: "a tombstone: the same",
        RmdState.ENDED_INCOMPLETE: "a tombstone: the same",
    },
    start=("CreateSequence, or an offer that was accepted: 0000",),
)
