"""Actions on a sequence, with a question before those that end it."""

from __future__ import annotations

from dataclasses import dataclass, field

from mercury.console import drawing
from mercury.console.acting import actor_of, reason_of
from mercury.console.fields import member
from mercury.console.pages.advice import behind_the_gap
from mercury.console.site import Site
from mercury.console.visits import Done, NotFound, Question, View, Visit, link
from mercury.engine.source.peer_store import doubtful
from mercury.operations.ending import left_of
from mercury.operations.operator import Operations
from mercury.operations.restarting import InDoubt
from mercury.operations.sequences import WholeSequence
from mercury.statemachine.tables import RmsState
from mercury.storage.records import RmsRecord
from mercury.texts import counted


@dataclass(frozen=True, slots=True, kw_only=True)
class Button:
    """An action that the page of a sequence offers."""

    label: str
    #: The page that asks, or the action itself, which gets the fields.
    href: str
    fields: dict[str, str] = field(default_factory=dict)
    ask: bool = False
    danger: bool = False


def buttons(whole: WholeSequence) -> list[Button]:
    """The actions that are possible now."""
    line, record = whole.line, whole.record
    chosen = {"id": line.id, "seen": line.seen}
    found = []
    over = line.status.state.name.startswith("ENDED") or line.status.failure is not None
    if line.suspended_by is not None:
        found.append(Button(label="Resume", href="sequence-resume", fields=chosen))
    elif not over or line.waiting.value:
        found.append(Button(label="Suspend", href="sequence-suspend", fields=chosen))
    if over:
        return found
    if whole.peer_store is not None and whole.peer_store.refused is not None:
        href = link("sequence-destination", **chosen)
        found.append(Button(label="It is a new destination…", href=href, ask=True, danger=True))
    if not line.status.closed:
        found.append(Button(label="Close…", href=link("sequence-close", **chosen), ask=True))
    found.append(Button(label="Terminate…", href=link("sequence-terminate", **chosen), ask=True, danger=True))
    if isinstance(record, RmsRecord) and record.machine.state is not RmsState.NEW:
        href = link("sequence-restart", **chosen)
        found.append(Button(label="Restart in a successor…", href=href, ask=True, danger=True))
    return found


def one_sequence(operations: Operations, name: str) -> WholeSequence:
    """A sequence.

    :raises NotFound: there is none.
    """
    if not name:
        raise NotFound("The address names no sequence: choose one of the list.")
    whole = operations.sequences.one(name)
    if whole is None:
        raise NotFound(f"There is no sequence with the identifier {name!r} (any more).")
    return whole


def add_actions(site: Site, operations: Operations) -> None:
    """Add the actions."""
    actions = operations.sequence_actions

    def whole_of(visit: Visit) -> WholeSequence:
        return one_sequence(operations, visit.text("id"))

    def done(visit: Visit, note: str) -> Done:
        return Done(to=link("sequence", id=visit.text("id")), note=note)

    def suspend(visit: Visit) -> Done:
        actions.suspend(visit.text("id"), actor_of(visit), expected=visit.given("seen"), reason=reason_of(visit))
        return done(visit, "Suspended: no process works on it until you resume it. Arrivals are still acknowledged.")

    def resume(visit: Visit) -> Done:
        actions.resume(visit.text("id"), actor_of(visit), expected=visit.given("seen"), reason=reason_of(visit))
        return done(visit, "Resumed: its work is due now.")

    def close(visit: Visit) -> Done:
        actions.close(visit.text("id"), actor_of(visit), expected=visit.given("seen"), reason=reason_of(visit))
        return done(visit, "A process that runs on this store will close it.")

    def terminate(visit: Visit) -> Done:
        actions.terminate(visit.text("id"), actor_of(visit), expected=visit.given("seen"), reason=reason_of(visit))
        return done(visit, "A process that runs on this store will terminate it.")

    def restart(visit: Visit) -> Done:
        wanted = InDoubt.RESEND if visit.flag("resend") else member(visit, "in_doubt", InDoubt) or InDoubt.PARK
        name, actor, seen = visit.text("id"), actor_of(visit), visit.given("seen")
        actions.restart(name, actor, in_doubt=wanted, expected=seen, reason=reason_of(visit))
        what = "sent again" if wanted is InDoubt.RESEND else "dead letters now"
        return done(visit, f"Restarted: a successor sends the rest. Messages that may have arrived are {what}.")

    def destination(visit: Visit) -> Done:
        whole = whole_of(visit)
        wanted = InDoubt.RESEND if visit.flag("resend") else InDoubt.PARK
        done = operations.destination_actions.replace(
            whole.line.status.endpoint,
            actor_of(visit),
            store=visit.given("store"),
            in_doubt=wanted,
            expected=visit.text("store"),
            reason=reason_of(visit),
        )
        doubt = sum(high - low + 1 for each in done.sequences for low, high in each.in_doubt)
        what = "sent again" if wanted is InDoubt.RESEND else "dead letters now"
        left = counted(len(done.sequences), "sequence", "sequences")
        text = f"{done.endpoint} has the store {done.store} now. {left} given up. "
        text += f"In doubt: {counted(doubt, 'message', 'messages')}, {what}."
        return Done(to=link("sequence", id=visit.text("id")), note=text)

    def question(
        visit: Visit, title: str, lines: list[str], button: str, box: tuple[str, str] | None = None, **more: str
    ) -> View:
        return Question(
            title=title,
            lines=lines,
            action=visit.page,
            fields={"id": visit.text("id"), "seen": visit.text("seen")} | more,
            button=button,
            back=link("sequence", id=visit.text("id")),
            box=box,
        ).view()

    def ask_close(visit: Visit) -> View:
        whole = whole_of(visit)
        text = (
            "A process on this store ends it when everything is acknowledged. Later messages of its key go to a "
            "successor."
            if isinstance(whole.record, RmsRecord)
            else "It takes no new message, and what it has received is delivered. Its source "
            "gets CloseSequence, and may send the rest in another sequence. A source in .NET reports an error."
        )
        return question(visit, "Close the sequence?", [whole.line.id, text], "Close it")

    def ask_terminate(visit: Visit) -> View:
        whole = whole_of(visit)
        if isinstance(whole.record, RmsRecord):
            lines = [
                dead_letters_of(whole, whole.record),
                "To send them in a successor instead, go back and restart it.",
            ]
        else:
            behind = f"{behind_the_gap(whole)} " if whole.line.waiting.value else ""
            lines = [
                f"It ends. {behind}Its source gets TerminateSequence, and may send what is not acknowledged in another "
                "sequence."
            ]
        return question(visit, "Terminate the sequence?", [whole.line.id, *lines], "Terminate it")

    def ask_restart(visit: Visit) -> View:
        whole = whole_of(visit)
        lines = [whole.line.id, "It is given up, and what was never sent goes out in a successor, in the same order."]
        box = None
        numbers = doubtful(whole.record.machine) if isinstance(whole.record, RmsRecord) else ()
        if numbers:
            lines.append(
                f"Sent and not acknowledged: {drawing.listed(numbers)}. The other side may have them: they become dead "
                "letters whose outcome is unknown, unless you check the box."
            )
            box = ("resend", "Send these again in the successor: they may take effect twice.")
        return question(visit, "Restart the sequence in a successor?", lines, "Restart it", box)

    def ask_destination(visit: Visit) -> View:
        peer = whole_of(visit).peer_store
        if peer is None or peer.refused is None:
            raise NotFound("No other store has answered for its destination.")
        lines = [
            f"{peer.endpoint} has the store {peer.store}. The store {peer.refused} has answered at "
            f"{peer.refused_address}.",
            "If that is the wrong server, correct the address instead. If it is a new destination, all sequences of "
            "the destination are given up, and successors at the new store send what was never sent. Messages that "
            "were sent and are not acknowledged may have taken effect at the store before: they become dead letters "
            "whose outcome is unknown, unless you check the box.",
        ]
        box = ("resend", "Send these to the new store: they may take effect twice.")
        title = "Is it a new destination?"
        return question(visit, title, lines, "It is a new destination", box, store=peer.refused)

    for name, function in (("suspend", suspend), ("resume", resume)):
        site.action(f"sequence-{name}", function)
    for name, ask, act in (
        ("close", ask_close, close),
        ("terminate", ask_terminate, terminate),
        ("restart", ask_restart, restart),
        ("destination", ask_destination, destination),
    ):
        site.question(f"sequence-{name}", ask)
        site.action(f"sequence-{name}", act)


def dead_letters_of(whole: WholeSequence, record: RmsRecord) -> str:
    """Which messages become dead letters if a source sequence is terminated now."""
    left, unsent = left_of(record.machine), whole.unsent
    parts = []
    if left.missing:
        which = drawing.listed(left.unacknowledged)
        parts.append(f"{counted(left.missing, 'is', 'are')} not acknowledged (number {which})")
    if left.kept:
        parts.append(
            f"{counted(left.kept, 'is', 'are')} acknowledged and {'follows' if left.kept == 1 else 'follow'} a missing "
            "one: the other side discards what follows it"
        )
    if unsent.value:
        parts.append(f"{unsent} {'has' if str(unsent) == '1' else 'have'} no number yet")
    if not parts:
        return "It ends. Every message is acknowledged: none becomes a dead letter."
    total = left.missing + left.kept + unsent.value
    many = counted(total, "message becomes a dead letter", "messages become dead letters", more=unsent.more)
    return f"If nothing more is acknowledged before it ends, {many}: {'; '.join(parts)}."
