"""The audit: what was done by hand."""

from __future__ import annotations

import datetime

from mercury.console import fields
from mercury.console.pages.audit_words import ACTIONS, action_words, properties, target_page
from mercury.console.site import Site
from mercury.console.visits import BadRequest, View, Visit
from mercury.operations.operator import Operations
from mercury.storage.audit import AuditFilter, TargetKind
from mercury.storage.searching import UnknownPlace

#: The actions of one page.
PAGE = 50


def add_pages(site: Site, operations: Operations, zone: datetime.tzinfo) -> None:
    """Add the list.

    :param zone: the time zone of times in the search.
    """

    def listed(visit: Visit) -> View:
        which = AuditFilter(
            actor=visit.given("actor"),
            action=visit.given("action"),
            kind=fields.member(visit, "kind", TargetKind),
            target=visit.given("target"),
            since=fields.moment(visit, "since", zone),
            bulk=fields.number(visit, "bulk") if visit.given("bulk") else None,
        )
        try:
            page = operations.audit(which, visit.given("after"), PAGE)
        except UnknownPlace as error:
            raise BadRequest(f"There is no such page: {error}") from error
        kinds = [each.value for each in TargetKind]
        return View(
            template="audit.html",
            values={
                "lines": [
                    {
                        "entry": each,
                        "action": action_words(each.action),
                        "href": target_page(each),
                        "before": properties(each.before),
                        "after": properties(each.after),
                    }
                    for each in page.items
                ],
                "after": page.after,
                "kinds": kinds,
                "actions": ACTIONS.items(),
                "zone": str(zone),
            },
        )

    site.page("audit", listed)
