"""Planted defects: deployments that are wrong on purpose, and the branch in which the trial must find it.

``python -m tests.trial.planted [NAME ...]`` runs them. Exit code 1 = one was not found.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from mercury.trial.built_in import Deployment, scenario
from mercury.trial.judging import ArrivedRow, Verdict
from mercury.trial.result import BranchResult
from mercury.trial.run import Trial
from mercury.trial.scenario import Compared, Program, Scenario
from mercury.trial.tables import TrialTables
from mercury.trial.tree import branches, selected


@dataclass(frozen=True)
class Planted:
    """A wrong deployment, the branches that show it (a pattern), and what they must be called."""

    scenario: Scenario
    only: str
    verdicts: frozenset[Verdict]


def changed(
    whole: Scenario, side: str, environment: Mapping[str, str], app: str | None = None, only: str | None = None
) -> Scenario:
    """A scenario whose programs of one side have other settings, and perhaps run another application.

    :param only: the name of the one program that is changed.
    """

    def change(program: Program) -> Program:
        if program.side != side or only not in (None, program.name):
            return program
        settings = MappingProxyType({**program.environment, **environment})
        command = program.command if app is None else ("serve", f"tests.trial.planted.{app}:app", "--port", "{port}")
        return dataclasses.replace(program, command=command, environment=settings)

    return dataclasses.replace(whole, programs=tuple(map(change, whole.programs)), patience=5.0)


def planted() -> dict[str, Planted]:
    pair, fleet, plain, relay, stage = (
        scenario(kind)
        for kind in (Deployment.PAIR, Deployment.FLEET, Deployment.PLAIN, Deployment.RELAY, Deployment.STAGE)
    )
    return {
        # Without the lease of the active member nothing makes one of them wait.
        "members of a pair that all serve": Planted(
            changed(pair, "server", {"MERCURY_ROLE": "active-active"}),
            "receive/before/cut:there/",
            frozenset({Verdict.SPLIT}),
        ),
        # The one that is paused in its transaction commits it after another has taken over.
        "members of a pair without a fence": Planted(paused(pair, "unfenced"), PAUSED, frozenset({Verdict.SPLIT})),
        # A client that goes on at another store leaves there numbers without those before them.
        "members with different stores": Planted(
            other_stores(fleet, "accepting"), OTHER_STORES, frozenset({Verdict.LOST, Verdict.REPEATED})
        ),
        # The row and the consumption of the message are two transactions.
        "handler that commits apart": Planted(
            changed(plain, "server", {"TRIAL_APART": "{link.server-db}"}, "apart"),
            "consume/after/kill:server-active/",
            frozenset({Verdict.REPEATED}),
        ),
        # A relay is killed when it has stored the message for the next endpoint, and before it has consumed it.
        "relay that sends in another transaction": Planted(
            changed(relay, "relay", {"TRIAL_ONWARD": "{link.onward}/services/trial"}, "relay"),
            "relay/before/kill:relay-active/",
            frozenset({Verdict.REPEATED}),
        ),
        # The message is acknowledged, and is nowhere after the end of the process.
        "stage that acknowledges before it commits": Planted(
            changed(stage, "server", {"MERCURY_STAGE_STORE": ""}, "staged"),
            "move/before/kill:server-active/",
            frozenset({Verdict.LOST}),
        ),
    }


#: The branch that shows whether there is a fence.
PAUSED = "write/before/pause:server-active/"


def paused(pair: Scenario, app: str | None = None) -> Scenario:
    """A pair whose active server is paused in a transaction, for longer than the lease, and which the database lets
    live: only the fence keeps it from committing."""
    patient = {"TRIAL_IDLE_TIMEOUT": "30"}
    return dataclasses.replace(changed(pair, "server", patient, app), lease=3.0, limit=None)


#: The branch that shows whether a destination with another store is refused, and the databases of the two stores.
OTHER_STORES, BOTH = "receive/before/kill:server-active/", ("server", "other")


def other_stores(fleet: Scenario, module: str) -> Scenario:
    """A fleet of which each server has a store of its own; the second is the backup of the first, as behind a load
    balancer. What both have handled counts as arrived.

    :param module: the applications of both sides.
    """
    made = changed(fleet, "server", {"MERCURY_STORE": "{database.other}"}, only="server-b")
    programs = tuple(
        dataclasses.replace(each, command=("serve", f"tests.trial.planted.{module}:{each.side}", "--port", "{port}"))
        for each in made.programs
    )
    databases = MappingProxyType({"client": "embedded", "server": "embedded", "other": "embedded"})
    # While the first is away, connections lead to the backup; where that one is refused, the messages wait.
    links = tuple(dataclasses.replace(each, backup=each.name == "there") for each in made.links)
    return dataclasses.replace(
        made, programs=programs, links=links, databases=databases, stream=0.0, limit=None, patience=10.0
    )


@contextlib.contextmanager
def arrivals_in(databases: tuple[str, ...]) -> Iterator[None]:
    """Within this block a trial reads the rows that have arrived from several databases."""
    read = TrialTables.arrived

    def in_all(tables: TrialTables, of: Compared, branch: str, since: int = 0) -> list[ArrivedRow]:
        if of.database not in databases:
            return read(tables, of, branch, since)
        rows = [
            row for name in databases for row in read(tables, dataclasses.replace(of, database=name), branch, since)
        ]
        return sorted(rows, key=lambda row: row.at or 0.0)

    setattr(TrialTables, "arrived", in_all)  # noqa: B010
    try:
        yield
    finally:
        setattr(TrialTables, "arrived", read)  # noqa: B010


def results(defect: Planted) -> list[BranchResult]:
    """Run the branches of a defect."""
    chosen = selected(branches(defect.scenario), defect.only, None, 1)
    assert chosen, defect.only
    several = BOTH if "other" in defect.scenario.databases else ()
    with arrivals_in(several):
        return asyncio.run(Trial(defect.scenario, chosen).run()).branches


def without_defect() -> dict[str, Planted]:
    """A right deployment beside a planted defect, with the same settings and in the same branch."""
    pair, fleet = scenario(Deployment.PAIR), scenario(Deployment.FLEET)
    stores = other_stores(fleet, "refusing")
    return {
        "members of a pair without a fence": Planted(paused(pair), PAUSED, frozenset({Verdict.RIGHT})),
        "members with different stores": Planted(stores, OTHER_STORES, frozenset({Verdict.RIGHT})),
    }
