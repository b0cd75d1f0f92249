"""Actions on dead letters: one, or all that match a filter. What may take effect twice asks again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from mercury.client.dead_letters import MAY_COME_AGAIN, MAY_HAVE_ARRIVED
from mercury.console import payloads
from mercury.console.acting import actor_of, reason_of
from mercury.console.pages.letters import choice, chosen, may_take_effect_twice, one_letter
from mercury.console.site import Site
from mercury.console.visits import BadRequest, Done, Question, Tone, View, Visit, link
from mercury.operations.letter_actions import Progress
from mercury.operations.operator import Operations
from mercury.storage.letters import Direction
from mercury.storage.searching import LetterGroup, Page
from mercury.texts import counted

#: See `Question.inputs`.
Inputs: TypeAlias = Sequence[tuple[str, str, str, bool]]
#: The groups that a question is about, and those that it lists.
GROUPS, SHOWN = 1000, 5
#: The box that must be checked for what may take effect twice.
TWICE = ("twice", "Also those that may have taken effect already: they may take effect twice.")


def add_actions(site: Site, operations: Operations) -> None:
    """Add the actions."""
    actions = operations.letter_actions

    def redrive(visit: Visit) -> Done:
        done = actions.redrive(
            chosen(visit), actor_of(visit), allow_duplicate=visit.flag("twice"), reason=reason_of(visit)
        )
        return done_with(done, "redriven")

    def redirect(visit: Visit) -> Done:
        endpoint = visit.text("new_endpoint")
        if not endpoint:
            raise BadRequest("Name the endpoint to which they are sent.")
        done = actions.redirect(
            chosen(visit), endpoint, actor_of(visit), allow_duplicate=visit.flag("twice"), reason=reason_of(visit)
        )
        return done_with(done, f"redirected to {endpoint}")

    def discard(visit: Visit) -> Done:
        done = actions.discard(chosen(visit), actor_of(visit), reason=reason_of(visit))
        return done_with(done, "discarded")

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
        box = (
            TWICE
            if asks_twice and (groups.after is not None or any(each.may_repeat for each in groups.items))
            else None
        )
        fields = choice(visit) | ({"letter": next(iter(which.ids))} if which.ids else {})
        return Question(
            title=title,
            lines=lines,
            action=visit.page,
            fields=fields,
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
        text = letter.payload.decode("utf-8", "replace")
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
            inputs=(("payload", "Payload", payloads.indented(letter.payload) or text, True),),
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


def done_with(done: Progress, what: str) -> Done:
    """The end of an action: how many letters it was done to, and why not to the others."""
    text = f"{done.done:,} {what}."
    if not done.refused:
        return Done(to=link("letters"), note=text)
    first = done.refusals[0][1] if done.refusals else ""
    if first in (MAY_HAVE_ARRIVED, MAY_COME_AGAIN):
        first = f"{first.partition(':')[0]}. To include them, check the box “{TWICE[1].partition(':')[0]}”"
    stay = counted(done.refused, "stays a dead letter", "stay dead letters")
    tone = Tone.CAUTION if done.done else Tone.WRONG
    return Done(to=link("letters"), note=f"{text} {stay}: {first}.", tone=tone)
