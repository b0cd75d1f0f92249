"""Bulk actions: how far each is, cancel, and go on."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from mercury.console import fields
from mercury.console.acting import actor_of, reason_of
from mercury.console.bulk_runner import BulkRunner
from mercury.console.pages.facts import Fact, known
from mercury.console.site import Site
from mercury.console.visits import Done, NotFound, Question, Tone, View, Visit, link
from mercury.operations.operator import Operations
from mercury.operations.reasons import moment
from mercury.storage.bulk import Bulk, BulkAction, BulkState

#: What is being done, and what was done.
DOING: Mapping[BulkAction, tuple[str, str]] = MappingProxyType(
    {
        BulkAction.REDRIVE: ("Redriving", "redriven"),
        BulkAction.REDIRECT: ("Redirecting", "redirected"),
        BulkAction.DISCARD: ("Discarding", "discarded"),
    }
)


def add_pages(site: Site, operations: Operations, runner: BulkRunner) -> None:
    """Add the page of one bulk action, and its actions."""

    def shown(visit: Visit) -> View:
        bulk = one(visit)
        doing, was = DOING[bulk.action]
        return View(
            template="bulk.html",
            values={
                "section": "letters",
                "bulk": bulk,
                "doing": doing,
                "was": was,
                "runs": bulk.state is BulkState.RUNNING and not bulk.is_silent(visit.now),
                "may_go_on": bulk.state is BulkState.STOPPED or bulk.is_silent(visit.now),
                "ended": bulk.state in (BulkState.DONE, BulkState.CANCELLED),
                "facts": facts(bulk),
            },
        )

    def one(visit: Visit) -> Bulk:
        bulk = operations.bulk_actions.one(fields.number(visit, "id"))
        if bulk is None:
            raise NotFound("There is no such bulk action.")
        return bulk

    def resume(visit: Visit) -> Done:
        runner.check_room()
        bulk = operations.bulk_actions.resume(one(visit).id, actor_of(visit))
        runner.start(bulk.id)
        return Done(to=link("bulk", id=bulk.id), note="It goes on.")

    def ask_cancel(visit: Visit) -> View:
        bulk = one(visit)
        return Question(
            title="Cancel it?",
            lines=[
                f"{bulk.handled:,} of {bulk.total:,} dead letters were looked at. What is done stays done; the others "
                "stay dead letters."
            ],
            action="bulk-cancel",
            fields={"id": str(bulk.id)},
            button="Cancel it",
            back=link("bulk", id=bulk.id),
        ).view()

    def cancel(visit: Visit) -> Done:
        bulk = operations.bulk_actions.cancel(one(visit).id, actor_of(visit), reason=reason_of(visit))
        note = f"Cancelled: {bulk.done:,} of {bulk.total:,} are {DOING[bulk.action][1]}."
        return Done(to=link("bulk", id=bulk.id), note=note, tone=Tone.CAUTION)

    site.page("bulk", shown)
    site.question("bulk-cancel", ask_cancel)
    site.action("bulk-cancel", cancel)
    site.action("bulk-resume", resume)


def facts(bulk: Bulk) -> list[Fact]:
    """What is known of a bulk action."""
    which = bulk.which
    return known(
        [
            Fact("by", bulk.actor.name),
            Fact("reason", bulk.note or None),
            Fact("to", bulk.endpoint),
            Fact("also those that may take effect twice", "yes" if bulk.allow_duplicate else None),
            Fact("of direction", which.direction.value if which.direction is not None else None),
            Fact("endpoint or service", which.endpoint),
            Fact("key", which.key),
            Fact("part of the reason", which.reason),
            Fact("certainty", which.certainty.value if which.certainty is not None else None),
            Fact("correlation", which.correlation),
            Fact("MessageID", which.message_id),
            Fact("dead before", moment(which.dead_before) if which.dead_before is not None else None),
            Fact("each letter", "in the audit", link("audit", bulk=bulk.id)),
        ]
    )
