"""The matrix of experiments: every crash point by form, mode and harm, made from the table of points."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tests.chaos.kinds import SAFE, Form, Harm, Mode, Moment, Side, Way
from tests.chaos.points import POINTS, Point

NO_CLAIM = "no claim is held here: another process takes nothing over"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One combination of the matrix."""

    point: Point
    moment: Moment
    side: Side
    form: Form
    mode: Mode
    way: Way
    harm: Harm
    #: The number of processes of each program from the start.
    processes: int = 1
    #: Why the combination cannot happen; empty = it is run.
    never: str = ""

    @property
    def name(self) -> str:
        where = f"{self.point.name} {self.moment.value} at the {self.side.value}"
        return f"{self.harm.value}: {where}, {self.form.value}, {self.mode.value}"

    @property
    def victim(self) -> str:
        return "PostgreSQL" if self.harm is Harm.KILL_POSTGRES else self.side.value


def matrix(points: tuple[Point, ...] = POINTS) -> Iterator[Cell]:
    """All combinations, including those that cannot happen."""
    for form in SAFE:
        for point in points:
            for side in Side:
                for mode in Mode:
                    for harm in Harm:
                        for moment in Moment:
                            yield _cell(point, moment, side, form, mode, harm)


def in_turn(cells: Iterable[Cell], seed: int) -> list[Cell]:
    """The cells in a random order that depends on the seed. So slow cells are spread, and an interrupted run has
    covered a sample of the matrix."""
    mixed = list(cells)
    random.Random(seed).shuffle(mixed)
    return mixed


def _cell(point: Point, moment: Moment, side: Side, form: Form, mode: Mode, harm: Harm) -> Cell:
    # One of the ways that reach the point, and one or two processes a side: random, but the same in every run.
    chance = random.Random(f"{point.name} {moment} {side} {form} {mode} {harm}")
    ways = chance.sample(list(Way), len(Way))
    if harm is Harm.PAUSE and side is Side.CLIENT:
        # Posts to a stopped process are retried with growing pauses, which is right but slow: prefer the other way.
        ways.sort(key=lambda way: way is not Way.FETCHED)
    # With PAUSE a second process is started anyway; at a recovery point the restarted process is the one of interest.
    alone = harm is Harm.PAUSE or point.after is not None or point.alone
    processes = 1 if alone else chance.choice((1, 2))
    reasons = {way: point.never(side, form, mode, way) for way in ways}
    way = next((way for way in ways if reasons[way] is None), ways[0])
    never = reasons[way] or (NO_CLAIM if harm is Harm.PAUSE and not point.taken_over else "")
    return Cell(
        point=point,
        moment=moment,
        side=side,
        form=form,
        mode=mode,
        way=way,
        harm=harm,
        processes=processes,
        never=never,
    )
