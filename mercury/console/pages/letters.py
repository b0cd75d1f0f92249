"""Dead letters: groups, lists, and one in full."""

from __future__ import annotations

from dataclasses import replace

from mercury.console import fields, payloads
from mercury.console.pages.bulk import DOING
from mercury.console.pages.facts import Fact, known
from mercury.console.site import Site
from mercury.console.visits import BadRequest, NotFound, View, Visit, link
from mercury.operations.operator import Operations
from mercury.statemachine.effects import Certainty
from mercury.storage.bulk import BulkState
from mercury.storage.letters import DeadLetter, Direction, LetterFilter
from mercury.storage.searching import UnknownPlace

#: The dead letters of one page, and the groups of one page.
PAGE, GROUPS = 50, 100
#: The bulk actions that are listed, and the seconds for which those are that have ended.
BULKS, RECENT = 5, 3600.0
#: The fields of an address that choose dead letters.
CHOICE = ("direction", "endpoint", "key", "reason", "certainty", "correlation", "message_id")


def add_pages(site: Site, operations: Operations) -> None:
    """Add the list and the page of one dead letter."""

    def listed(visit: Visit) -> View:
        which = chosen(visit)
        try:
            page = operations.letters.page(which, visit.given("after"), PAGE)
        except UnknownPlace as error:
            raise BadRequest(f"There is no such page: {error}") from error
        groups = operations.letters.groups(which, GROUPS)
        return View(
            template="letters.html",
            values={
                "groups": groups.items,
                "more_groups": groups.after is not None,
                "letters": page.items,
                "after": page.after,
                "choice": choice(visit),
                "bulks": [
                    (each, *DOING[each.action], each.is_silent(visit.now))
                    for each in operations.bulk_actions.newest(BULKS)
                    if each.state in (BulkState.RUNNING, BulkState.STOPPED) or visit.now - each.changed_at < RECENT
                ],
                "directions": [each.value for each in Direction],
                "certainties": [each.value for each in Certainty],
            },
        )

    def shown(visit: Visit) -> View:
        letter = one_letter(operations, visit)
        return View(
            template="letter.html",
            values={
                "section": "letters",
                "letter": replace(letter, payload=b"", headers=(), to_parameters=()),  # a reading is kept for a time
                "facts": facts(letter),
                "payload": payloads.shown(letter.payload),
                "headers": [payloads.shown(each) for each in letter.headers],
                "twice": may_take_effect_twice(letter),
            },
        )

    site.page("letters", listed)
    site.page("letter", shown)


def chosen(visit: Visit) -> LetterFilter:
    """The filter that an address or a form names."""
    ids = [each for each in visit.texts("letter") if each]
    return LetterFilter(
        ids=frozenset(ids) if ids else None,
        direction=fields.member(visit, "direction", Direction),
        certainty=fields.member(visit, "certainty", Certainty),
        endpoint=visit.given("endpoint"),
        key=visit.given("key"),
        message_id=visit.given("message_id"),
        correlation=visit.given("correlation"),
        reason=visit.given("reason"),
        dead_before=fields.seconds(visit, "dead_before"),
    )


def choice(visit: Visit) -> dict[str, str]:
    """The fields that choose dead letters, those that are not empty."""
    return {name: visit.text(name) for name in CHOICE if visit.text(name)}


def one_letter(operations: Operations, visit: Visit) -> DeadLetter:
    """The dead letter that an address names.

    :raises NotFound: it was redriven or discarded, or never existed.
    """
    letter = operations.letters.one(visit.text("id")) if visit.text("id") else None
    if letter is None:
        raise NotFound("There is no dead letter with this identifier (any more).")
    return letter


def may_take_effect_twice(letter: DeadLetter) -> bool:
    """Whether the message of a dead letter may have taken effect already, or may come again."""
    return letter.certainty is Certainty.UNKNOWN or letter.disowned


def facts(letter: DeadLetter) -> list[Fact]:
    """What is known of a dead letter."""
    outbound = letter.direction is Direction.OUTBOUND
    return known(
        [
            Fact("dead letter", letter.id),
            Fact("MessageID", letter.message_id, link("messages", message_id=letter.message_id)),
            Fact("was", "to be sent from here" if outbound else "received here"),
            Fact(
                "endpoint" if outbound else "service",
                letter.endpoint or "(responses)",
                link("letters", endpoint=letter.endpoint),
            ),
            Fact("key", letter.key),
            Fact("sequence", letter.sequence, None if outbound else link("sequence", id=letter.sequence)),
            Fact("number", letter.number),
            Fact("action", letter.action),
            Fact("correlation", letter.correlation, link("messages", correlation=letter.correlation)),
            Fact("RelatesTo", letter.relates_to),
            Fact("trace", letter.trace.id if letter.trace is not None else None),
            Fact("expects a response", "yes" if letter.expects_response else None),
            Fact("fault", "yes" if letter.is_fault else None),
            Fact("its row is damaged", "it can be discarded only" if letter.damaged else None),
        ]
    )
