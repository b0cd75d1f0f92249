"""RMSSequence as a table: its states, its events, its guards and its rows. `tables` has the theory."""

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
    #: A numbered message has expired before anything was sent.
    WITHDRAWN = "WDR"
    #: Acknowledgement received that is not final.
    ACK = "ACK"
    #: Final acknowledgement received.
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
    #: A CreateSequence, AckRequested, CloseSequence or TerminateSequence is about to leave.
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
    OFFERED = "it answers a CreateSequence with an offer"
    EXPIRED = "the sequence has expired"
    SILENT = "nothing was heard for too long"
    IDLE_FOR_LONG = "there was nothing to do for long"


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
    0100 0110                     | WDR       |                | F      | Moved Replaced | RM-SEQ-01
    0000 1000 1100 1110 1010 1011 F | WDR     |                | -      |                | RM-SEQ-01
    0000 0100 0110 1011 F         | ACK       |                | -      |                | ST-S06
    1000 1100 1110 1010           | ACK       | invalid        | refuse | RaiseFault     | ST-S19 RM-ACK-03
    1000 1010                     | ACK       |                | =      |                | ST-S06
    1100                          | ACK       | all            | 1000   | Forgotten Released | ST-S06 RM-ACK-01
    1110                          | ACK       | all            | 1010   | Forgotten Released | ST-S06 ST-S14
    1100 1110                     | ACK       |                | =      | Forgotten Released Due | ST-S06 RM-ACK-01
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
    0100 0110                     | REF       | offered        | =      | WithoutOffer   | RM-CS-14
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
        RmsState.CREATING: "(re)send CreateSequence, with the same MessageID and offer; after a refusal of the "
        "offer: with another MessageID, and without one; a refused repeat: see F",
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
