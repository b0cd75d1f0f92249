"""Reconcile: reports, and comparisons that are begun from here."""

from __future__ import annotations

import importlib.util

from mercury.console.acting import actor_of, reason_of
from mercury.console.reports import Reports
from mercury.console.site import Site
from mercury.console.visits import BadRequest, Document, Done, NotFound, View, Visit, link
from mercury.operations.operator import Operations
from mercury.storage.audit import TargetKind


def add_pages(site: Site, operations: Operations, reports: Reports) -> None:
    """Add the list, the reports and the action that begins a comparison."""

    def listed(_visit: Visit) -> View:
        return View(
            template="reconcile.html",
            values={
                "folder": str(reports.folder) if reports.folder is not None else "",
                "reports": reports.all(),
                "comparisons": reports.comparisons(),
                "possible": importlib.util.find_spec("pyspark") is not None,
            },
        )

    def shown(visit: Visit) -> Document:
        page = reports.page(visit.text("name"))
        if page is None:
            raise NotFound(f"There is no report {visit.text('name')!r}.")
        return Document(page)

    def start(visit: Visit) -> Done:
        name = visit.text("name")
        refused = reports.start(name)
        if refused is not None:
            raise BadRequest(refused)
        operations.note(actor_of(visit), "reconcile", TargetKind.COMPARISON, name, reason=reason_of(visit))
        return Done(to=link("reconcile"), note=f"The comparison {name} is running.")

    site.page("reconcile", listed)
    site.page("report", shown)
    site.action("reconcile-start", start)
