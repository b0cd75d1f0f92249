"""The tables as Markdown with Mermaid diagrams: ``docs/state-machines.md`` is what `render_all` returns.

Everything about states, events and rows is read from the tables. The prose adds the meaning of the events, the names
of the states in other documents, and the origin of the tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from itertools import groupby
from typing import Any

from mercury.statemachine.table import Kind, Row, Table
from mercury.statemachine.tables import ALL, RmdState, RmsState
from mercury.statemachine.words import EVENTS

#: The names of the states in WS-RM 1.1 (appendix on state tables) and in descriptions of WS-RM 1.0.
OTHER_NAMES: Mapping[Enum, tuple[str, str]] = {
    RmsState.NEW: ("None", "None"),
    RmsState.CREATING: ("Creating", "Creating"),
    RmsState.CREATING_LAST: ("Creating", "Creating"),
    RmsState.IDLE: ("Created", "Created"),
    RmsState.SENDING: ("Created", "Created"),
    RmsState.SENDING_LAST: (
        "Created (the end is known here only); Rollover, if a rollover ended it; Closing, if the rest is abandoned",
        "LastSent",
    ),
    RmsState.ENDING: (
        "as before; Closing once CloseSequence was sent; Closed with C; Terminating once TerminateSequence was sent",
        "all acknowledged",
    ),
    RmsState.ENDED: ("None", "None"),
    RmsState.FAILED: ("None", "None"),
    RmdState.CREATED: ("Created", "Created"),
    RmdState.RECEIVING: ("Created; Closed with C", "Created"),
    RmdState.LAST_KNOWN: ("Closed", "LastReceived"),
    RmdState.COMPLETE: ("Closed", "Complete"),
    RmdState.ENDED_COMPLETE: ("None", "None"),
    RmdState.ENDED_OPEN: ("None", "None"),
    RmdState.ENDED_INCOMPLETE: ("None", "None"),
}

LEGEND: Mapping[Kind, str] = {
    Kind.MOVE: "the next state; often it is the same one: a repeat, or an event that changes a counter only. "
    "`·C` behind it: C is set as well.",
    Kind.REFUSE: "the machine refuses the event: an error for the application, a fault for the peer, or a dead letter. "
    "Nothing changes.",
    Kind.IGNORE: "the event has no meaning in this state. Nothing changes.",
}

PREFACE = """\
# The three state machines

<!-- Printed from the transition tables by `mercury tables`. Do not edit: change the tables and print it again. -->

A reliable sequence is carried by three machines: **RMSSequence** at the source, **RMDSequence** at the destination,
and **InvokerBuffer** between the destination and its application. This page is printed from the tables that the
machines run on (`mercury/statemachine/rms_table.py`, `mercury/statemachine/rmd_table.py` and
`mercury/statemachine/invoker_table.py`); a test fails when the two differ.

A **state** is the tuple of its factors, one digit each: 1 = has happened, 0 = has not (yet). The digits always equal
what follows from the counters of the machine: 1100 at the source means that the identifier is known and that a number
is unacknowledged, no more and no less. The machines are pure: an event and the time go in, the new state and effects
come out. No order of events is assumed, and a repeat leaves the state alone. A message that the network loses is an
event that did not happen: the state stays, and the state is what causes the retransmission.

Two more factors stand **beside the tuple**:

- **C**, closed: the destination has stated finally which numbers it accepted. At the source it is set with the final
  ranges; at the destination with CloseSequence, and from then on no new number is taken and every
  acknowledgement is Final.
- **F**, failed (only at the source), with the reason. While F is set the tuple is frozen; the source still answers
  CloseSequence and TerminateSequence. A refusal that answers a repeated CreateSequence is not final, nor is a
  CreateSequenceResponse with the identifier of another sequence: the sequence fails as replaced, its messages move to
  another one that is requested anew, and if the answer to the first CreateSequence comes late, the sequence it made
  is ended (1010).
"""

CELLS = """\
## How to read a table

Every input of a machine is looked up, whatever the state. A row says what an event does in a state while its **guard**
holds, by the counters before the event; rows of one state and event are tried from above, and one without a guard holds
when the others do not. **Effects** are returned by the machine; the engine carries them out. The
**specification** is given by the ids of protocol.md. A test searches the machines from their starts until every row was
taken with every effect, so there is no row that cannot be reached; and it meets no event without a row.

The grid below the factors is a summary: the possible outcomes of each event in each state.
"""

NAMES = """\
## The states under other names

WS-RM 1.1 has its own state tables, in which the destination's knowledge and the application's wishes are one
factor; "None" is: no such sequence. The names in use for WS-RM 1.0, which has no such tables, stand beside them.
The InvokerBuffer has no counterpart in either.
"""

ORIGIN = """\
## Where the tables come from, and what was changed

The three machines, their factors and the way of reading a tuple are those of A. C. Suriarachchi, *Queued transaction
processing with Web Services ReliableMessaging* (2010), figures 3-5 to 3-13: seven states at the source, five at the
destination, four in the invoker buffer. A model of the tables was then searched exhaustively, with losses, repeats,
reordering and a crash at every step, in both generations of WS-RM, and corrected where it failed. What differs, or
is said more precisely:

- The destination ends incomplete sequences too: 1001 and 1101 stand beside 1111.
- The invoker buffer has a fifth state, 010: the end is known, a gap stands before what is left. For the same reason
  a message that arrives in 000 or 010 need not be releasable, and a sequence that is cut there may still have
  something to release (NoDiscard, or DiscardEntireSequence without a gap).
- C and F stand beside the tuple. WS-RM 1.1 (CloseSequence, Final) and failures need them, not a second machine.
- The end has two events at the source: LMR+ takes a number, LMR0 does not. In WS-RM 1.0 the empty LastMessage is a
  message of its own, takes a number and has to be acknowledged.
- What the figures have as events of their own (ACK and ACKALL, AMR(SNC) and AMR(SC), SAM by what is left) is one event
  with guards here. Inputs that change counters only, and those that come too late or too early, have rows as well.
- 0000 stands before the first number at the source. F is a state of the table: what arrives then is looked up too.
- TMS at the source means that the end is settled: TerminateSequence was taken by the transport (1.0) or answered
  (1.1), or a fault says that the destination does not know the sequence any more.
- CloseSequence leaves only when everything is acknowledged, or when the application abandons the rest: it forbids
  new numbers at the destination.
- What the final ranges do not list, or what IncompleteSequenceBehavior discards, leaves for a successor sequence.
  Everything else that is unacknowledged at a failure is in doubt, except what was never sent.
- A destination deletes a sequence that was never used (EXP in 0000) without a tombstone. All other ends are tombstones,
  which outlast a peer's retries.
"""

PAIRS = """\
## Ends of pairs

A sequence for responses that was offered with CreateSequence, and accepted, starts at its source in 1000. It ends
when the invoker buffer of the request sequence is in 011 and every response is stored: that raises LMR on it. The
request sequence, in turn, stays in 1010 and sends neither CloseSequence nor TerminateSequence until every response
that it expects is stored, unless the application abandons them. Only a destination with DiscardEntireSequence gets
CloseSequence before: it gives nothing to its application, and so answers nothing, until it knows the end.
"""


def render_all() -> str:
    """The whole page."""
    legend = ((kind.name.lower() if kind is Kind.MOVE else kind.value, text) for kind, text in LEGEND.items())
    parts = [PREFACE, CELLS + "\n" + _grid(("next state", "meaning"), legend)]
    for table in ALL:
        parts += [render_table(table), render_rows(table), render_diagram(table)]
    parts += [NAMES + "\n" + _other_names(), ORIGIN, PAIRS]
    return "\n".join(parts)


def render_table(table: Table[Any, Any, Any]) -> str:
    """One machine: its factors, events and states, the outcomes of each event in each state, and its start states."""
    states = [(state.value, state.name, table.work[state]) for state in table.states]
    cells = ((event.value, *(_outcomes(table, state, event) for state in table.states)) for event in table.events)
    return "\n".join(
        (
            f"## {table.name}: ({', '.join(table.factors)})\n",
            _grid(("factor", "meaning"), table.factors.items()),
            _grid(("event", "meaning"), ((event.value, EVENTS[event]) for event in table.events)),
            _grid(("state", "name", "work while in it"), states),
            _grid(("event", *(state.value for state in table.states)), cells),
            f"Starts: {'; '.join(table.start)}.\n",
        )
    )


def render_rows(table: Table[Any, Any, Any]) -> str:
    """Every row of one machine; states in which an event has the same outcome share one line."""
    lines = []
    for (event, guard, outcome, requested, rules), rows in groupby(table.rows, _line):
        effects = ", ".join(effect.__name__ for effect in requested)
        states = " ".join(row.state.value for row in rows)
        lines.append((states, event.value, "" if guard is None else guard.value, outcome, effects, " ".join(rules)))
    return _grid(("state", "event", "guard", "next state", "effects", "specification"), lines)


def _line(row: Row[Any, Any, Any]) -> tuple[Any, ...]:
    stays = row.kind is Kind.MOVE and row.next is row.state and not row.closes
    return row.event, row.guard, "the same" if stays else row.outcome, row.effects, row.specification


def _outcomes(table: Table[Any, Any, Any], state: Enum, event: Enum) -> str:
    return " or ".join(dict.fromkeys(row.outcome for row in table.of(state, event)))


def render_diagram(table: Table[Any, Any, Any]) -> str:
    """One machine as a Mermaid state diagram; events that leave a state unchanged are listed below it."""
    lines = ["```mermaid", "stateDiagram-v2", "    direction LR"]
    lines += [f'    state "{state.value} {state.name}" as {state.name}' for state in table.states]
    for start in table.start:
        label, _, value = start.rpartition(": ")
        lines.append(f"    [*] --> {table.states(value).name}: {label}")
    arrows, loops = _arrows(table)
    lines += [f"    {source} --> {target}: {', '.join(labels)}" for (source, target), labels in arrows.items()]
    lines += [f"    {state.name} --> [*]" for state in table.states if _is_final(table, state)]
    stays = (f"{state.value}: {', '.join(labels)}" for state, labels in loops.items())
    return "\n".join((*lines, "```\n", f"Stay in the same state: {'; '.join(stays)}.\n"))


def _arrows(table: Table[Any, Any, Any]) -> tuple[dict[tuple[str, str], list[str]], dict[Any, list[str]]]:
    """The labels of the arrows between different states, parallel arrows merged, and the labels of the loops."""
    arrows: dict[tuple[str, str], list[str]] = {}
    loops: dict[Any, list[str]] = {}
    for row in table.rows:
        if row.kind is not Kind.MOVE:
            continue
        label = row.event.value + ("·C" if row.closes else "")
        stays = row.next is row.state
        labels = loops.setdefault(row.state, []) if stays else arrows.setdefault((row.state.name, row.next.name), [])
        if label not in labels:
            labels.append(label)
    return arrows, loops


def _is_final(table: Table[Any, Any, Any], state: Enum) -> bool:
    return all(row.next is state for row in table.rows if row.state is state)


def _other_names() -> str:
    rows = (
        (table.name, state.value, state.name, *OTHER_NAMES[state])
        for table in ALL
        for state in table.states
        if state in OTHER_NAMES
    )
    return _grid(("machine", "state", "name", "WS-RM 1.1", "WS-RM 1.0"), rows)


def _grid(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table."""

    def lines() -> Iterator[str]:
        names = list(heads)
        yield _row(names)
        yield _row("---" for _ in names)
        yield from map(_row, rows)

    return "\n".join(lines()) + "\n"


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
