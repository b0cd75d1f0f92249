"""Services: their backlog, the messages that their handlers refuse, paused or not."""

from __future__ import annotations

from mercury.console.site import Site
from mercury.console.visits import BadRequest, NotFound, View, Visit
from mercury.operations.operator import Operations

#: The failing messages of one page.
PAGE = 50
#: The name of the service of responses in addresses.
NO_SERVICE = "-"


def add_pages(site: Site, operations: Operations) -> None:
    """Add the list and the page of one service."""

    def listed(visit: Visit) -> View:
        page = operations.services.failing(None, visit.given("after"), PAGE)
        return View(
            template="services.html",
            values={"services": operations.services.all(), "failing": page.items, "after": page.after},
        )

    def shown(visit: Visit) -> View:
        name = service_name(visit)
        service = operations.services.one(name)
        if service is None:
            raise NotFound(f"Nothing is known of a service {name!r}: nothing waits for it, and no node hosts it.")
        page = operations.services.failing(name, visit.given("after"), PAGE)
        nodes = [each for each in operations.nodes.all() if name in each.node.services]
        return View(
            template="service.html",
            values={
                "section": "services",
                "service": service,
                "failing": page.items,
                "after": page.after,
                "nodes": nodes,
            },
        )

    site.page("services", listed)
    site.page("service", shown)


def service_name(visit: Visit) -> str:
    """The service that an address or a form names; empty = responses.

    :raises BadRequest: it names none.
    """
    name = visit.text("name")
    if not name:
        raise BadRequest("The address names no service.")
    return "" if name == NO_SERVICE else name
