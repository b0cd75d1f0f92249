"""Planted defects: deployments that are wrong on purpose, and the branch in which the trial must find it.

``python -m tests.trial.planted [NAME ...]`` runs them. Exit code 1 = one was not found.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from mercury.trial.built_in import Deployment, scenario
from mercury.trial.judging import Verdict
from mercury.trial.result import BranchResult
from mercury.trial.run import Trial
from mercury.trial.scenario import Program, Scenario
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
    three = {"client": "embedded", "server": "embedded", "other": "embedded"}
    return {
        # Without the lease of the active member nothing makes one of them wait.
        "members of a pair that all serve": Planted(
            changed(pair, "server", {"MERCURY_ROLE": "active-active"}),
            "receive/before/cut:there/",
            frozenset({Verdict.SPLIT}),
        ),
        # The one that is paused in its transaction commits it after another has taken over.
        "members of a pair without a fence": Planted(paused(pair, "unfenced"), PAUSED, frozenset({Verdict.SPLIT})),
        # The message is acknowledged, and the one that takes over does not know of it.
        "members with different stores": Planted(
            dataclasses.replace(
                changed(fleet, "server", {"MERCURY_STORE": "{database.other}"}, only="server-b"),
                stream=0.0,
                databases=MappingProxyType(three),
            ),
            "commit/after/kill:server-active/",
            frozenset({Verdict.LOST}),
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


def results(defect: Planted) -> list[BranchResult]:
    """Run the branches of a defect."""
    chosen = selected(branches(defect.scenario), defect.only, None, 1)
    assert chosen, defect.only
    return asyncio.run(Trial(defect.scenario, chosen).run()).branches
