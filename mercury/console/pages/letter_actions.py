"""Actions on dead letters: one, or all that match a filter. What may take effect twice asks again."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

from mercury.client.dead_letters import MAY_COME_AGAIN, MAY_HAVE_ARRIVED
from mercury.console import payloads
from mercury.console.acting import actor_of, reason_of
from mercury.console.bulk_runner import BulkRunner
from mercury.console.pages.letters import choice, chosen, may_take_effect_twice, one_letter
from mercury.console.site import Site
from mercury.console.visits import BadRequest, Done, Question, Tone, View, Visit, link
from mercury.operations.letter_actions import Handled
from mercury.operations.operator import Operations
from mercury.storage.bulk import BulkAction, BulkState
from mercury.storage.letters import Direction
from mercury.storage.searching import LetterGroup, Page
from mercury.texts import counted

#: See `Question.inputs`.
Inputs: TypeAlias = Sequence[tuple[str, str, str, bool]]
#: The groups that a question is about, and those that it lists.
GROUPS, SHOWN = 1000, 5
#: Seconds that the answer of an action waits for its end.
PATIENCE = 2.0
#: The box that must be checked for what may take effect twice.
TWICE = ("twice", "Also those that may have taken effect already: they may take effect twice.")


def add_actions(site: Site, operations: Operations, runner: BulkRunner, patience: float = PATIENCE) -> None:
    """Add the actions.

    :param patience: seconds that an answer waits for the end of a bulk action.
    """
    actions = operations.letter_actions

    def redrive(visit: Visit) -> Done:
        which = chosen(visit)
        if which.ids is None:
            return begun(visit, BulkAction.REDRIVE, "redriven", waits=waiting(visit))
        done = actions.redrive(which.ids, actor_of(visit), allow_duplicate=visit.flag("twice"), reason=reason_of(visit))
        return result_of(done, "redriven", waits=waiting(visit))

    def redirect(visit: Visit) -> Done:
        endpoint = visit.text("new_endpoint")
        if not endpoint:
            raise BadRequest("Name the endpoint to which they are sent.")
        which = chosen(visit)
        if which.ids is None:
            return begun(visit, BulkAction.REDIRECT, f"redirected to {endpoint}", endpoint, to_send(endpoint))
        done = actions.redirect(
            which.ids, endpoint, actor_of(visit), allow_duplicate=visit.flag("twice"), reason=reason_of(visit)
        )
        return result_of(done, f"redirected to {endpoint}", to_send(endpoint))

    def discard(visit: Visit) -> Done:
        which = chosen(visit)
        if which.ids is None:
            return begun(visit, BulkAction.DISCARD, "discarded")
        return result_of(actions.discard(which.ids, actor_of(visit), reason=reason_of(visit)), "discarded")

    def begun(
        visit: Visit,
        action: BulkAction,
        what: str,
        endpoint: str | None = None,
        waits: tuple[str, str] | None = None,
    ) -> Done:
        """Begin a bulk action: a short one is done with the answer, a long one has a page that shows how far it is."""
        runner.check_room()
        bulk = operations.bulk_actions.begin(
            action,
            chosen(visit),
            actor_of(visit),
            endpoint=endpoint,
            allow_duplicate=visit.flag("twice"),
            reason=reason_of(visit),
        )
        runner.start(bulk.id)
        runner.wait(bulk.id, patience)
        now = operations.bulk_actions.one(bulk.id) or bulk
        if now.state is not BulkState.DONE:
            return Done(to=link("bulk", id=bulk.id), note="It has begun. You may leave this page: it goes on.")
        return done_with(now.done, now.refused, now.refusals, what, waits)

    def edit(visit: Visit) -> Done:
        payload = visit.whole("payload").replace("\r\n", "\n").strip().encode()
        if payloads.indented(payload) is None:
            raise BadRequest("The payload is not XML of one element without a document type.")
        twice = visit.flag("twice")
        new = actions.send_edited(
            visit.text("id"), payload, actor_of(visit), allow_duplicate=twice, reason=reason_of(visit)
        )
        return Done(to=link("messages", message_id=new), note=f"The edited copy is sent as message {new}.")

    def asked(visit: Visit, verb: str, line: str, button: str, *, asks_twice: bool = True, inputs: Inputs = ()) -> View:
        which = chosen(visit)
        groups = operations.letters.groups(which, GROUPS)
        count = sum(each.count for each in groups.items)
        title = f"{verb} {counted(count, 'dead letter', 'dead letters', more=groups.after is not None)}?"
        lines = [*described(groups), line]
        if asks_twice:
            lines += without_the_box(groups)
        box = (
            TWICE
            if asks_twice and (groups.after is not None or any(each.may_repeat for each in groups.items))
            else None
        )
        fields = choice(visit) | ({"letter": next(iter(which.ids))} if which.ids else {})
        # What dies after the question was not seen by who answers it, also if the answer is sent once more later.
        asked_at = {"dead_before": repr(math.nextafter(visit.now, math.inf))}
        return Question(
            title=title,
            lines=lines,
            action=visit.page,
            fields=fields | asked_at,
            button=button,
            back=link("letter", id=fields["letter"]) if "letter" in fields else link("letters", **choice(visit)),
            danger=not asks_twice,
            box=box,
            inputs=inputs,
        ).view()

    def ask_redrive(visit: Visit) -> View:
        line = "They are sent or delivered again, the oldest first, and are no dead letters any more."
        return asked(visit, "Redrive", line, "Redrive")

    def ask_redirect(visit: Visit) -> View:
        line = "Those that were to be sent from here go to another endpoint, each under its key, in their order."
        inputs = (("new_endpoint", "The other endpoint, a URL", visit.text("new_endpoint"), False),)
        return asked(visit, "Redirect", line, "Redirect", inputs=inputs)

    def ask_discard(visit: Visit) -> View:
        line = "They are deleted for good. The audit keeps who did it, and their MessageIDs."
        return asked(visit, "Discard", line, "Discard", asks_twice=False)

    def ask_edit(visit: Visit) -> View:
        letter = one_letter(operations, visit)
        return Question(
            title="Edit a copy",
            lines=[
                "The copy is sent or delivered as a new message with a MessageID of its own. This dead letter goes."
            ],
            action="letter-edit",
            fields={"id": letter.id},
            button="Send the copy",
            back=link("letter", id=letter.id),
            danger=False,
            box=TWICE if may_take_effect_twice(letter) else None,
            inputs=(("payload", "Payload", payloads.editable(letter.payload), True),),
        ).view()

    for name, ask, act in (
        ("letters-redrive", ask_redrive, redrive),
        ("letters-redirect", ask_redirect, redirect),
        ("letters-discard", ask_discard, discard),
        ("letter-edit", ask_edit, edit),
    ):
        site.question(name, ask)
        site.action(name, act)


def described(groups: Page[LetterGroup]) -> list[str]:
    """Which dead letters an action means: a line for each group, and how many of them may have taken effect."""
    lines = [
        f"{each.count:,} {'to' if each.direction is Direction.OUTBOUND else 'received for'} "
        f"{each.endpoint or '(responses)'}: {each.reason}."
        for each in groups.items[:SHOWN]
    ]
    rest = groups.items[SHOWN:]
    if rest or groups.after is not None:
        more = "more than " if groups.after is not None else ""
        lines.append(f"And {more}{sum(each.count for each in rest):,} more, for other endpoints or reasons.")
    unknown = sum(each.count for each in groups.items if each.certainty == "unknown")
    if unknown:
        lines.append(f"Of these, the outcome of {unknown:,} is unknown: they may have taken effect.")
    return lines


def without_the_box(groups: Page[LetterGroup]) -> list[str]:
    """What is done if the box for those that may take effect twice is left empty."""
    twice = sum(each.may_repeat for each in groups.items)
    if not twice:
        return []
    others = sum(each.count for each in groups.items) - twice
    stay = counted(
        twice, "that may have taken effect stays a dead letter", "that may have taken effect stay dead letters"
    )
    if groups.after is not None:
        return ["If you leave the box empty, all that may have taken effect stay dead letters."]
    if not others:
        return ["If you leave the box empty, nothing is done."]
    return [f"If you leave the box empty, it is done to the other {others:,} only; {stay}."]


def waiting(visit: Visit) -> tuple[str, str]:
    """A link to the messages that wait after the chosen dead letters are redriven."""
    endpoint = visit.given("endpoint")
    if visit.text("direction") == Direction.INBOUND.value:
        return link("messages", direction="inbound", endpoint=endpoint), "They wait to be delivered again."
    return to_send(endpoint)


def to_send(endpoint: str | None) -> tuple[str, str]:
    """A link to the messages that wait to be sent, to an endpoint or to all."""
    return link("messages", direction="outbound", endpoint=endpoint), "What is sent again waits here."


def result_of(handled: Handled, what: str, waits: tuple[str, str] | None = None) -> Done:
    """The end of an action on letters that were named."""
    return done_with(len(handled.done), len(handled.refused), handled.refused, what, waits)


def done_with(
    done: int, refused: int, refusals: Sequence[tuple[str, str]], what: str, waits: tuple[str, str] | None = None
) -> Done:
    """The end of an action: how many letters it was done to, and why not to the others.

    :param waits: a link to the messages that the letters are now; ``None`` = there are none.
    """
    text, more = f"{done:,} {what}.", waits if done else None
    if not refused:
        return Done(to=link("letters"), note=text, more=more)
    first = refusals[0][1] if refusals else ""
    if first in (MAY_HAVE_ARRIVED, MAY_COME_AGAIN):
        first = f"{first.partition(':')[0]}. To include them, check the box “{TWICE[1].partition(':')[0]}”"
    stay = counted(refused, "stays a dead letter", "stay dead letters")
    tone = Tone.CAUTION if done else Tone.WRONG
    return Done(to=link("letters"), note=f"{text} {stay}: {first}.", tone=tone, more=more)
