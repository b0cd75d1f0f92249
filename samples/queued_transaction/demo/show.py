"""The text output: the progress of a run, and its result."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table

from samples.queued_transaction.demo.figures import Figures
from samples.queued_transaction.demo.options import Mode, Store
from samples.queued_transaction.demo.verdict import Outcome

DESCRIPTION = {
    Store.MEMORY: "Mercury's messages in memory",
    Store.SQL: "Mercury's own database, two commits",
    Store.SAME_DB: "one database, one commit",
    Store.XA: "Mercury's own database, two-phase commit",
}
#: The results of the dissertation of 2010, with 20 messages while client and server were restarted.
RESULT_2010 = {
    Store.MEMORY: "loses all",
    Store.SQL: "loses some",
    Store.SAME_DB: "not built",
    Store.XA: "loses nothing",
}


class Progress:
    """The progress of a run; rich calls `__rich__` for every refresh."""

    def __init__(self, figures: Figures) -> None:
        self.figures = figures

    def __rich__(self) -> RenderableType:
        figures, options = self.figures, self.figures.options
        bars = [("sent", figures.sent), ("acknowledged", figures.acknowledged), ("delivered", figures.delivered)]
        if options.mode is Mode.IN_OUT:
            bars.append(("confirmed", figures.confirmations))
        grid = Table.grid(padding=(0, 2))
        grid.add_row("store", "", f"{options.store.value}: {DESCRIPTION[options.store]}")
        for name, count in bars:
            grid.add_row(name, f"{count:>7,}", ProgressBar(options.orders, min(count, options.orders), width=40))
        numbers = [
            ("in flight", f"{figures.in_flight:>7,}", ""),
            ("sent again", f"{figures.network.retransmissions:>7,}", "retransmissions, both ways"),
            ("kills", f"{figures.kills:>7,}", f"of {options.kills}"),
            ("in doubt", f"{figures.in_doubt:>7,}", "prepared transactions"),
            ("seconds", f"{figures.seconds:>7.1f}", figures.doing),
        ]
        for row in numbers:
            grid.add_row(*row)
        return grid


def verdict_table(outcome: Outcome) -> Table:
    """The result of one run."""
    options = outcome.options
    good = "green" if outcome.as_guaranteed else "red"
    title = f"[{good}]{outcome.verdict}[/] ({options.store.value}, {options.mode.value}, seed {options.seed})"
    table = Table(title=title, title_justify="left", title_style="bold", box=None, show_header=False, pad_edge=False)
    table.add_column(justify="right")
    table.add_column()
    rows = [
        (options.orders, "orders"),
        (outcome.delivered, "delivered"),
        (outcome.lost, "lost"),
        (outcome.duplicated, "duplicated"),
        (outcome.altered + outcome.unexpected, "altered"),
        (outcome.out_of_order, "out of order"),
    ]
    if options.mode is Mode.IN_OUT:
        rows.append((outcome.confirmations, "confirmations"))
        rows += [(outcome.confirmations_lost, "confirmations lost")] if outcome.confirmations_lost else []
        rows += [(outcome.confirmations_duplicated, "of them repeated")] if outcome.confirmations_duplicated else []
    rows.append((outcome.prepared_left, "transactions left in doubt"))
    for count, name in rows:
        table.add_row(f"{count:,}", name)
    between = f", {outcome.kills_between_commits} of them between two commits" if options.store.two_commits else ""
    table.add_row(f"{outcome.kills:,}", f"kills (SIGKILL){between}")
    table.add_row(f"{outcome.retransmissions:,}", "retransmissions")
    table.add_row(f"{outcome.seconds:.1f}", "seconds")
    return table


def comparison(outcomes: Sequence[Outcome]) -> Table:
    """The comparison of the four stores, beside the dissertation's results."""
    table = Table(box=None, pad_edge=False)
    table.add_column("store")
    for name in ("delivered", "lost", "duplicated", "out of order"):
        table.add_column(name, justify="right")
    table.add_column("verdict")
    table.add_column("in 2010")
    for each in outcomes:
        numbers = (each.delivered, each.lost, each.duplicated, each.out_of_order)
        good = "green" if each.as_guaranteed else "red"
        cells = (
            each.options.store.value,
            *map(str, numbers),
            f"[{good}]{each.verdict}[/]",
            RESULT_2010[each.options.store],
        )
        table.add_row(*cells)
    return table
