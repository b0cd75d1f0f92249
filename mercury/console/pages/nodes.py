"""Nodes: the processes on the store."""

from __future__ import annotations

from mercury.console.site import Site
from mercury.console.visits import View, Visit
from mercury.operations.operator import Operations


def add_pages(site: Site, operations: Operations) -> None:
    """Add the list."""

    def listed(_visit: Visit) -> View:
        return View(template="nodes.html", values={"nodes": operations.nodes.all()})

    site.page("nodes", listed)
