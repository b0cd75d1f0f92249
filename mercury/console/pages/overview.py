"""The overview: what is wrong now, how much waits, how old the oldest is."""

from __future__ import annotations

from dataclasses import dataclass

from mercury.console.doubt_reader import DoubtReader
from mercury.console.site import Site
from mercury.console.visits import View, Visit, link
from mercury.operations.operator import Operations
from mercury.operations.overview import Place, Problem
from mercury.operations.transactions import SOON


@dataclass(frozen=True, slots=True)
class ProblemLine:
    """A problem with the page that shows it."""

    severity: str
    text: str
    href: str


def add_pages(site: Site, operations: Operations, doubt: DoubtReader) -> None:
    """Add the overview."""

    def overview(_visit: Visit) -> View:
        seen = doubt.now()
        view = operations.overview(seen)
        lines = [ProblemLine(each.severity.value, each.text, place_of(each)) for each in view.problems]
        return View(
            template="overview.html",
            values={
                "view": view,
                "depth": view.depth,
                "problems": lines,
                "doubt": seen,
                "doubt_is_late": seen is not None and seen.many > 0 and seen.oldest >= SOON,
            },
        )

    site.page("", overview)


def place_of(problem: Problem) -> str:
    """The page of the console that shows a problem."""
    match problem.place:
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
