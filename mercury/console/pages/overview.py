"""The overview: what is wrong now, how much waits, how old the oldest is, how much is sent and delivered."""

from __future__ import annotations

import datetime
from dataclasses import dataclass

from markupsafe import Markup

from mercury.console import charts
from mercury.console.doubt_reader import DoubtReader
from mercury.console.site import Site
from mercury.console.visits import View, Visit, link
from mercury.operations.operator import Operations
from mercury.operations.overview import Place, Problem
from mercury.operations.traffic import RATE_MINUTES, RecentTraffic
from mercury.operations.transactions import SOON


@dataclass(frozen=True, slots=True)
class ProblemLine:
    """A problem with the page that shows it."""

    severity: str
    text: str
    href: str


#: What is counted, with the words for it.
COUNTED = (
    ("transmitted", "Transmitted"),
    ("repeated", "Transmitted again"),
    ("received", "Received"),
    ("delivered", "Delivered"),
    ("failures", "Failed calls of handlers"),
)


@dataclass(frozen=True, slots=True)
class RateLine:
    """How much of something was done in the last minutes."""

    name: str
    a_second: float
    chart: Markup
    #: It should not happen, and does.
    wrong: bool


def add_pages(site: Site, operations: Operations, doubt: DoubtReader, zone: datetime.tzinfo) -> None:
    """Add the overview.

    :param zone: the time zone of times in charts.
    """

    def overview(_visit: Visit) -> View:
        seen = doubt.now()
        view = operations.overview(seen)
        lines = [ProblemLine(each.severity.value, each.text, place_of(each)) for each in view.problems]
        values = {
            "view": view,
            "depth": view.depth,
            "problems": lines,
            "doubt": seen,
            "doubt_is_late": seen is not None and seen.many > 0 and seen.oldest >= SOON,
            "rates": rate_lines(operations.traffic.recent(), zone),
            "minutes": RATE_MINUTES,
        }
        return View(template="overview.html", values=values)

    site.page("", overview)


def rate_lines(recent: RecentTraffic, zone: datetime.tzinfo) -> list[RateLine]:
    """What was done lately, each with its chart."""
    return [
        RateLine(
            label,
            recent.rates.a_second(name),
            charts.bars(recent.values(name), label.lower(), zone),
            name == "failures" and recent.rates.sums.failures > 0,
        )
        for name, label in COUNTED
    ]


def place_of(problem: Problem) -> str:
    """The page of the console that shows a problem."""
    match problem.place:
        case Place.SEQUENCES if problem.endpoint:
            return link("sequences", endpoint=problem.endpoint)
        case Place.SEQUENCES if problem.target:
            return link("sequence", id=problem.target)
        case Place.SEQUENCES:
            return link("sequences", stuck="yes")
        case Place.LETTERS:
            return link("letters")
        case Place.SERVICES | Place.MESSAGES if problem.target:
            return link("service", name=problem.target)
        case Place.SERVICES:
            return link("services")
        case Place.MESSAGES:
            return link("messages", direction="inbound" if "inbound" in problem.command else "outbound")
        case Place.TRANSACTIONS:
            return link("doubt")
        case Place.NODES:
            return link("nodes")
        case Place.STATUS:
            return link("")
