"""The matrix: every point by form, mode and harm, made from the table of points."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tests.chaos.kinds import SAFE, Form, Harm, Mode, Moment, Side, Way
from tests.chaos.points import POINTS, Point

NO_CLAIM = "no claim is held here: another process takes nothing over"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One combination."""

    point: Point
    moment: Moment
    side: Side
    form: Form
    mode: Mode
    way: Way
    harm: Harm
    #: Why it can not happen; empty = it is tried.
    never: str = ""

    @property
    def name(self) -> str:
        where = f"{self.point.name} {self.moment.value} at the {self.side.value}"
        return f"{self.harm.value}: {where}, {self.form.value}, {self.mode.value}"

    @property
    def victim(self) -> str:
        return "PostgreSQL" if self.harm is Harm.KILL_POSTGRES else self.side.value


def matrix(points: tuple[Point, ...] = POINTS) -> Iterator[Cell]:
    """All combinations, those that can not happen as well."""
    number = 0
    for form in SAFE:
        for point in points:
            for side in Side:
                for mode in Mode:
                    for harm in Harm:
                        for moment in Moment:
                            number += 1
                            yield _cell(point, moment, side, form, mode, harm, number)


def _cell(point: Point, moment: Moment, side: Side, form: Form, mode: Mode, harm: Harm, number: int) -> Cell:
    # Both ways where both lead to the point, by turns. What is posted to a process that stands still is posted again
    # later each time: that is right, and takes long.
    fetched_first = number % 2 == 0 or (harm is Harm.PAUSE and side is Side.CLIENT)
    ways = (Way.FETCHED, Way.POSTED) if fetched_first else (Way.POSTED, Way.FETCHED)
    reasons = {way: point.never(side, form, mode, way) for way in ways}
    way = next((way for way in ways if reasons[way] is None), ways[0])
    never = reasons[way] or (NO_CLAIM if harm is Harm.PAUSE and not point.taken_over else "")
    return Cell(point=point, moment=moment, side=side, form=form, mode=mode, way=way, harm=harm, never=never)
