"""Services: their backlog, the messages that their handlers refuse, paused or not."""

from __future__ import annotations

import datetime

from mercury.console import charts
from mercury.console.site import Site
from mercury.console.visits import BadRequest, NotFound, View, Visit
from mercury.operations.operator import Operations
from mercury.operations.traffic import RATE_MINUTES

#: The failing messages of one page.
PAGE = 50
#: The name of the service of responses in addresses.
NO_SERVICE = "-"
#: What the charts of a service show.
CHARTS = (("received", "received"), ("delivered", "delivered"), ("failures", "failed calls"))


def add_pages(site: Site, operations: Operations, zone: datetime.tzinfo) -> None:
    """Add the list and the page of one service.

    :param zone: the time zone of times in charts.
    """

    def listed(visit: Visit) -> View:
        page = operations.services.failing(None, visit.given("after"), PAGE)
        return View(
            template="services.html",
            values={
                "services": operations.services.all(),
                "rates": operations.traffic.by_service(),
                "minutes": RATE_MINUTES,
                "failing": page.items,
                "after": page.after,
            },
        )

    def shown(visit: Visit) -> View:
        name = service_name(visit)
        service = operations.services.one(name)
        if service is None:
            raise NotFound(f"Nothing is known of a service {name!r}: nothing waits for it, and no node hosts it.")
        page = operations.services.failing(name, visit.given("after"), PAGE)
        recent = operations.traffic.recent(name)
        nodes = [each for each in operations.nodes.all() if name in each.node.services]
        return View(
            template="service.html",
            values={
                "section": "services",
                "service": service,
                "failing": page.items,
                "after": page.after,
                "nodes": nodes,
                "rates": recent.rates,
                "charts": [(label, charts.bars(recent.values(each), label, zone)) for each, label in CHARTS],
                "minutes": RATE_MINUTES,
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
