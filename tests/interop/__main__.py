"""Runs all cells, or those whose names contain all given words: ``python -m tests.interop [--messages N] [WORD ...]``.

Each cell is printed as a row of the table in docs/interop.md. A cell that fails is also run without Mercury, between
two processes of the peer's product.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from .cells import MERCURY, Cell, among_peers, matrix
from .peers import why_not
from .stage import Stage

HEAD = (
    "| client | server | RM | WSA | SOAP | exchange | replies | offer | network | killed | seen | settings |\n"
    "|---|---|---|---|---|---|---|---|---|---|---|---|"
)


def row(cell: Cell, seen: str) -> str:
    words = (cell.client, cell.server, cell.rm, cell.wsa, cell.soap, cell.exchange, cell.replies, cell.offer)
    words += (cell.network, cell.kill or "-", seen.replace("|", "/"), cell.setting)
    return f"| {' | '.join(words)} |"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.interop", description=__doc__)
    parser.add_argument("words", nargs="*", help="only cells whose names contain all of these")
    parser.add_argument("--messages", type=int, default=100, help="messages of one cell; default: %(default)s")
    parser.add_argument("--folder", type=Path, help="where stores, journals and logs go, and stay")
    options = parser.parse_args()
    if (reason := why_not()) is not None:
        print(f"no cell was run: {reason}", file=sys.stderr)
        return 1
    cells = [cell for cell in matrix() if all(word in cell.name for word in options.words)]
    with tempfile.TemporaryDirectory(prefix="interop") as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        with Stage(folder) as stage:
            return play(stage, cells, options.messages)


def play(stage: Stage, cells: list[Cell], count: int) -> int:
    """Run the cells; returns how many failed that succeed among peers."""
    good, limits, failed = 0, 0, 0
    print(HEAD, flush=True)
    for cell in cells:
        verdict = stage.run(cell, count)
        seen = str(verdict)
        if verdict.good:
            good += 1
        else:
            other = None if cell.kill else stage.run(among_peers(cell), count)
            seen += "" if other is None else f" ({other.cell.client} with itself: {other})"
            limits += other is not None and not other.good
            failed += other is None or other.good
        print(row(cell, seen), flush=True)
        print(f"{cell.name}: {verdict.seconds:.1f} s {verdict.harm}", file=sys.stderr, flush=True)
    late = [verdict for verdict in stage.later() if MERCURY in (verdict.cell.client, verdict.cell.server)]
    for verdict in late:
        print(f"more arrived later: {verdict.cell.name}", flush=True)
    print(f"\n{good} cells as they should be; {limits} fail among the peers too; {failed} fail")
    return 1 if failed or late else 0


if __name__ == "__main__":
    sys.exit(main())
