"""The result of a run, and whether it is what its store guarantees."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mercury.reconcile import Column, Config, Response, Table, Verdict, reconcile
from samples.queued_transaction.demo.databases import Pair
from samples.queued_transaction.demo.figures import Figures
from samples.queued_transaction.demo.options import Mode, Options, Store

if TYPE_CHECKING:
    from mercury.reconcile.progress import Progress

COMPARED = ("customer", "placed_on", "amount", "express", "deliver_after", "note", "body")


class Guarantee(enum.Enum):
    """The guarantee of a store when processes are killed."""

    EXACTLY_ONCE = "exactly once"
    LOSES = "loses"
    LOSES_OR_REPEATS = "loses or repeats"


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The reconciler's result for one run. Counts are numbers of orders, or of confirmations if the name says so."""

    options: Options
    delivered: int
    lost: int
    duplicated: int
    altered: int
    unexpected: int
    out_of_order: int
    confirmations: int
    confirmations_lost: int
    confirmations_duplicated: int
    #: The number of prepared transactions that are not finished.
    prepared_left: int
    kills: int
    kills_between_commits: int
    retransmissions: int
    seconds: float
    #: Why the run was given up; ``None`` = it was finished.
    stopped: str | None
    report: Path | None
    #: The folder with the logs and the embedded server's data, and the databases; ``None`` = they are not kept.
    folder: Path | None
    databases: Pair | None

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of this run's store for this number of kills."""
        if not self.options.kills or not self.options.store.two_commits:
            return Guarantee.EXACTLY_ONCE
        return Guarantee.LOSES if self.options.store is Store.MEMORY else Guarantee.LOSES_OR_REPEATS

    @property
    def verdict(self) -> str:
        """The result in words."""
        found = [
            *(["loses"] if self.lost or self.confirmations_lost else []),
            *(["repeats"] if self.duplicated or self.confirmations_duplicated else []),
            *(["alters"] if self.altered or self.unexpected else []),
            *(["reorders"] if self.out_of_order else []),
            *(["leaves transactions in doubt"] if self.prepared_left else []),
        ]
        return " and ".join(found) or "exactly once"

    @property
    def as_guaranteed(self) -> bool:
        """Whether the result is what the store guarantees, and all planned kills happened."""
        whole = self.stopped is None and self.kills == self.options.kills and not self.altered and not self.unexpected
        match self.guarantee:
            case Guarantee.EXACTLY_ONCE:
                answered = self.options.mode is Mode.IN_ONLY or self.confirmations == self.options.orders
                return whole and answered and self.verdict == "exactly once"
            case Guarantee.LOSES:
                return whole and self.lost > 0
            case Guarantee.LOSES_OR_REPEATS:
                return whole and (self.lost > 0 or self.duplicated > 0)

    def as_value(self) -> dict[str, Any]:
        """The result as a JSON value."""
        names = (
            *("delivered", "lost", "duplicated", "altered", "unexpected", "out_of_order"),
            *("confirmations", "confirmations_lost", "confirmations_duplicated"),
            *("prepared_left", "kills", "kills_between_commits", "retransmissions"),
        )
        found = {
            "store": self.options.store.value,
            "mode": self.options.mode.value,
            "orders": self.options.orders,
            "seed": self.options.seed,
            **{name: getattr(self, name) for name in names},
            "seconds": round(self.seconds, 1),
            "verdict": self.verdict,
            "guarantee": self.guarantee.value,
            "as_guaranteed": self.as_guaranteed,
            "stopped": self.stopped,
            "report": None if self.report is None else str(self.report),
        }
        if self.databases is not None:
            found["folder"] = str(self.folder)
            found["databases"] = dict(_named(self.databases))
        return found


def _named(pair: Pair) -> Iterator[tuple[str, str]]:
    for name, urls in (("client", pair.client), ("server", pair.server)):
        yield name, urls.application
        yield f"{name}_store", urls.store


def judge(figures: Figures, pair: Pair, work: Path, out: Path, stopped: str | None, progress: Progress) -> Outcome:
    """Run the reconciler on both applications' tables and the stores in between.

    :param work: the folder of the logs and the embedded server's data.
    :param out: the folder for the report.
    :param stopped: why the run was given up; ``None`` = it was finished.
    :raises ConfigurationError: Spark cannot be used.
    """
    options = figures.options
    result = reconcile(config(options, pair, out), progress=progress, moments=figures.killed)
    response = result.response
    return Outcome(
        options=options,
        delivered=figures.delivered,
        lost=sum(result.missing.values()),
        duplicated=result.counts[Verdict.DUPLICATED],
        altered=result.counts[Verdict.ALTERED],
        unexpected=result.counts[Verdict.UNEXPECTED],
        out_of_order=result.counts[Verdict.OUT_OF_ORDER],
        confirmations=figures.confirmations,
        confirmations_lost=sum(response.missing.values()) if response else 0,
        confirmations_duplicated=response.counts[Verdict.DUPLICATED] if response else 0,
        prepared_left=figures.in_doubt,
        kills=figures.kills,
        kills_between_commits=figures.between_commits,
        retransmissions=figures.network.retransmissions,
        seconds=figures.seconds,
        stopped=stopped,
        report=result.report,
        folder=work if options.keep else None,
        databases=pair if options.keep else None,
    )


def config(options: Options, pair: Pair, out: Path) -> Config:
    """The reconciler's configuration for a run."""
    answers = Response(
        table=Table(url=pair.client.application, name="confirmations", time="confirmed_at"),
        key=("order_number",),
        compare=(Column(client="arrival", server="arrival"),),
    )
    return Config(
        client=Table(url=pair.client.application, name="orders", order="number", time="sent_at"),
        server=Table(url=pair.server.application, name="received_orders", order="arrival", time="received_at"),
        key=(Column(client="number", server="order_number"),),
        compare=tuple(Column(client=name, server=name) for name in COMPARED),
        handed_over="sent_at",
        correlation="order:{number}",
        client_store=pair.client.store,
        server_store=pair.server.store,
        response=answers if options.mode is Mode.IN_OUT else None,
        out=out,
        complete=True,
    )
