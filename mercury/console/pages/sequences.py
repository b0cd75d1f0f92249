"""Sequences: the list with filters, and one sequence in full."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from mercury.console import drawing
from mercury.console.pages.advice import advice
from mercury.console.pages.facts import Fact, known
from mercury.console.pages.sequence_actions import buttons, one_sequence
from mercury.console.site import Site
from mercury.console.visits import BadRequest, View, Visit, link
from mercury.operations.ending import left_of
from mercury.operations.operator import Operations
from mercury.operations.sequences import SequenceLine, WholeSequence
from mercury.statemachine.tables import RmdState, RmsState
from mercury.statemachine.words import BY_NAME, STATES
from mercury.storage.records import RmdRecord, RmsRecord, Role
from mercury.storage.searching import Page, SequenceFilter, UnknownPlace

#: The sequences of one page of the list.
PAGE = 50
#: The stuck sequences that stand before the list, unless something is chosen or another page is shown.
TROUBLE, STUCK = 20, SequenceFilter(stuck=True)
CHOICE = ("side", "state", "endpoint", "key", "id", "stuck", "active", "after")
SIDES = ("source", "destination")
#: The states that the list is filtered by, with their words, by side.
STATE_CHOICE = (
    ("sends (source)", tuple((state.name, STATES[state]) for state in RmsState)),
    ("receives (destination)", tuple((state.name, STATES[state]) for state in RmdState)),
)
#: The name of the service of responses in addresses.
NO_SERVICE = "-"
PURPOSES: Mapping[Role, str] = MappingProxyType(
    {
        Role.REQUEST: "messages of this application",
        Role.RESPONSE: "responses to requests of the other side",
        Role.REPLY: "responses outside a sequence",
    }
)


def add_pages(site: Site, operations: Operations) -> None:
    """Add the list and the page of one sequence."""

    def listed(visit: Visit) -> View:
        side, state = visit.text("side"), visit.text("state")
        if (side and side not in SIDES) or (state and state not in BY_NAME):
            raise BadRequest(f"There is no side {side!r} or no state {state!r}.")
        part = visit.given("id")
        which = SequenceFilter(
            source=None if not side else side == "source",
            states=frozenset([state]) if state else frozenset(),
            endpoint=visit.given("endpoint"),
            key_prefix=visit.given("key"),
            active=visit.flag("active"),
            stuck=visit.flag("stuck"),
        )
        found, after = (operations.sequences.named(part, PAGE), None) if part else page_of(operations, which, visit)
        chosen = any(visit.given(name) for name in CHOICE)
        none: Page[SequenceLine] = Page(())
        trouble = none if chosen else operations.sequences.page(STUCK, limit=TROUBLE)
        return View(
            template="sequences.html",
            values={
                "lines": found,
                "trouble": trouble.items,
                "more_trouble": trouble.after is not None,
                "after": after,
                "which": which,
                "sides": SIDES,
                "states": STATE_CHOICE,
                "words": words,
            },
        )

    def shown(visit: Visit) -> View:
        whole = one_sequence(operations, visit.text("id"))
        return View(
            template="sequence.html",
            values={
                "section": "sequences",
                "whole": whole,
                "line": whole.line,
                "status": whole.line.status,
                "words": words,
                "machine": drawing.machine(state_of(whole)),
                "ranges": drawing.ranges(whole.line.status.ranges, highest_of(whole)),
                "numbers": drawing.in_words(whole.line.status.ranges, highest_of(whole)),
                "kept": left_of(whole.record.machine).kept if isinstance(whole.record, RmsRecord) else 0,
                "missing": [f"{low:,}" if low == high else f"{low:,} to {high:,}" for low, high in whole.gaps[:20]],
                "more_missing": max(0, len(whole.gaps) - 20),
                "facts": facts(whole),
                "advice": advice(whole),
                "actions": buttons(whole) if visit.is_operator else (),
            },
        )

    site.page("sequences", listed)
    site.page("sequence", shown)


def page_of(operations: Operations, which: SequenceFilter, visit: Visit) -> tuple[tuple[SequenceLine, ...], str | None]:
    """A page of the list."""
    try:
        page = operations.sequences.page(which, visit.given("after"), PAGE)
    except UnknownPlace as error:
        raise BadRequest(f"There is no such page: {error}") from error
    return page.items, page.after


def state_of(whole: WholeSequence) -> RmsState | RmdState:
    """The state of a sequence in its table."""
    status = whole.line.status
    return RmsState.FAILED if status.failure is not None else status.state


def highest_of(whole: WholeSequence) -> int:
    """The highest number that the picture shows: the last one, if it is known."""
    record = whole.record
    last = record.machine.last_number if not isinstance(record, RmsRecord) else None
    return max(whole.line.status.highest, last or 0)


def words(line: SequenceLine) -> str:
    """The state of a sequence in words."""
    state = RmsState.FAILED if line.status.failure is not None else line.status.state
    closed = ", closed" if line.status.closed and not state.name.startswith("ENDED") else ""
    return f"{STATES[state]}{closed}"


def facts(whole: WholeSequence) -> list[Fact]:
    """What is known of a sequence, besides its state."""
    record, status = whole.record, whole.line.status
    found = _of_source(record) if isinstance(record, RmsRecord) else _of_destination(record)
    return known([Fact("protocol", status.protocol), *found])


def _of_source(record: RmsRecord) -> list[Fact]:
    channel = record.channel
    answers = "on the connections of requests" if channel.reply_to.anonymous else channel.reply_to.address
    return [
        Fact("sends", PURPOSES[channel.role]),
        Fact("acknowledgements and responses", answers),
        Fact("follows", record.follows, link("sequence", id=record.follows)),
        Fact("offered for responses", record.offered if record.offer_accepted else None),
        Fact("identity of the other side", channel.identity),
        Fact("batches it may send", f"{record.batch_messages} messages" if record.batch_messages > 1 else None),
        Fact("store of the destination", record.store),
        Fact("last error", record.last_error),
    ]


def _of_destination(record: RmdRecord) -> list[Fact]:
    return [
        Fact("service", record.service or "(responses)", link("service", name=record.service or NO_SERVICE)),
        Fact("acknowledgements go to", record.acks_to.address),
        Fact("created from", record.peer),
        Fact("identity of the other side", record.identity),
        Fact("other side", "Mercury" if record.source_is_mercury else None),
        Fact("created at", record.to),
        Fact("bytes received", f"{record.received_bytes:,}"),
        Fact("acknowledgements that failed in a row", record.ack_failures or None),
    ]
