"""The results of the matrix, as text and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from tests.chaos.cells import Cell
from tests.chaos.driver import Result
from tests.chaos.kinds import SAFE, Form, Harm, Mode, Moment, Side, Way
from tests.chaos.points import POINTS
from tests.chaos.verdict import Difference

LETTERS = {Harm.KILL: "K", Harm.KILL_POSTGRES: "P", Harm.PAUSE: "S"}
LEGEND = (
    "K: the process is killed at the point. P: PostgreSQL is killed while the process is stopped there. S: the process "
    "is stopped there until another one has finished the work, and is then continued.\n"
    ".: cannot happen. _: was not selected. !: failed."
)


def line(number: int, count: int, result: Result) -> str:
    """The line for one cell when it is done."""
    verdict = "ok" if result.good else "WRONG"
    beside = ", two processes a side" if result.cell.processes > 1 else ""
    return f"{number:4}/{count} {result.seconds:5.1f} s  {verdict:5}  {result.cell.name} (visit {result.visit}{beside})"


def errors_of(result: Result) -> str:
    """The violations of a cell, as text."""
    found = [str(result.difference)] if result.difference else []
    found += [f"{result.prepared} transactions are left prepared"] if result.prepared else []
    return "; ".join([*found, *result.errors])


def matrix(cells: Iterable[Cell], results: Iterable[Result]) -> str:
    """The points by form and mode, with a letter for each harm; points without a selected cell are left out."""
    known = {result.cell.name: result for result in results}
    asked = {(result.cell.side, result.cell.point.name) for result in known.values()}
    signs: dict[tuple[str, Form, Mode], str] = {}
    for cell in cells:
        row = f"{cell.side.value}: {cell.point.name} {cell.moment.value}"
        place = row, cell.form, cell.mode
        signs[place] = signs.get(place, "") + _sign(cell, known.get(cell.name))
    rows = dict.fromkeys(
        f"{side.value}: {point.name} {moment.value}"
        for side in Side
        for point in POINTS
        for moment in Moment
        if (side, point.name) in asked
    )
    columns = [(form, mode) for form in SAFE for mode in Mode]
    width = max(map(len, rows))
    head = [" " * width + "".join(f" | {form.value:^17}" for form in SAFE)]
    head.append(
        " " * width + "".join(f"{' | ' if mode is Mode.IN_ONLY else '  '}{mode.value:^8}" for _, mode in columns)
    )
    body = []
    for row in rows:
        text = f"{row:<{width}}"
        for form, mode in columns:
            text += f"{' | ' if mode is Mode.IN_ONLY else '  '}{signs.get((row, form, mode), ''):^8}"
        body.append(text)
    return "\n".join([*head, *body, "", LEGEND])


def _sign(cell: Cell, result: Result | None) -> str:
    if cell.never:
        return "."
    if result is None:
        return "_"
    return LETTERS[cell.harm] if result.good else f"{LETTERS[cell.harm]}!"


def totals(cells: Sequence[Cell], results: Sequence[Result]) -> dict[str, int]:
    """The sums over all cells."""
    difference = sum((result.difference for result in results), Difference())
    caught = sum((result.caught for result in results), Counter[str]())
    return {
        "combinations": len(cells),
        "cannot happen": sum(bool(cell.never) for cell in cells),
        "tried": len(results),
        "at a later visit than the first": sum(result.visit > 1 for result in results),
        "with two processes a side": sum(result.cell.processes > 1 for result in results),
        "with a response sequence that the server made": sum(
            result.cell.way is Way.CREATED and result.cell.mode is Mode.IN_OUT for result in results
        ),
        "kills": sum(result.kills for result in results),
        "kills of the client": sum(result.kills for result in results if result.cell.victim == Side.CLIENT.value),
        "kills of the server": sum(result.kills for result in results if result.cell.victim == Side.SERVER.value),
        "kills of PostgreSQL": sum(result.kills for result in results if result.cell.harm is Harm.KILL_POSTGRES),
        "pauses": sum(result.pauses for result in results),
        "lost": difference.lost,
        "repeated": difference.repeated,
        "out of order": difference.out_of_order,
        "altered": difference.altered,
        "left prepared": sum(result.prepared for result in results),
        **{f"caught by the client: {what}": count for what, count in sorted(caught.items())},
        "other errors": sum(len(result.errors) for result in results),
    }


def as_json(seed: int, cells: Sequence[Cell], results: Sequence[Result]) -> dict[str, Any]:
    """All cells as a JSON value."""
    return {
        "seed": seed,
        "totals": totals(cells, results),
        "cannot_happen": dict(Counter(cell.never for cell in cells if cell.never)),
        "cells": [
            {
                "point": result.cell.point.name,
                "moment": result.cell.moment.value,
                "side": result.cell.side.value,
                "form": result.cell.form.value,
                "mode": result.cell.mode.value,
                "responses": result.cell.way.value,
                "processes": result.cell.processes,
                "harm": result.cell.harm.value,
                "visit": result.visit,
                "seconds": round(result.seconds, 2),
                "lost": result.difference.lost,
                "repeated": result.difference.repeated,
                "out_of_order": result.difference.out_of_order,
                "altered": result.difference.altered,
                "left_prepared": result.prepared,
                "caught": dict(result.caught),
                "errors": result.errors,
            }
            for result in results
        ],
    }
