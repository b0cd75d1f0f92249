"""InvokerBuffer as a table: its states, its events, its guards and its rows. `tables` has the theory."""

from __future__ import annotations

from mercury.statemachine import effects
from mercury.statemachine.hashed_enum import HashedEnum
from mercury.statemachine.table import read_table


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
