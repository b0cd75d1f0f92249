"""Planted defects: deployments that are wrong on purpose, and the branch in which the trial must find it.

``python -m tests.trial.planted [NAME ...]`` runs them. Exit code 1 = one was not found.
"""

from __future__ import annotations

import asyncio
import dataclasses
import sys
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


def changed(whole: Scenario, environment: Mapping[str, Mapping[str, str]], server: str | None = None) -> Scenario:
    """A scenario whose programs have other settings, by their names, and perhaps another server."""

    def change(program: Program) -> Program:
        settings = {**program.environment, **environment.get(program.name, {})}
        command = program.command
        if server is not None and program.side == "server":
            command = (command[0], server, *command[2:])
        return dataclasses.replace(program, command=command, environment=MappingProxyType(settings))

    return dataclasses.replace(whole, programs=tuple(map(change, whole.programs)), patience=5.0)


def planted() -> dict[str, Planted]:
    pair, plain = scenario(Deployment.PAIR), scenario(Deployment.PLAIN)
    active = {"MERCURY_ROLE": "active-active"}
    other = {"MERCURY_STORE": "{database.other}"}
    stores = {"client": "embedded", "server": "embedded", "other": "embedded"}
    return {
        # Without the lease of the active member nothing makes one of them wait.
        "members of a pair that all serve": Planted(
            changed(pair, {"server-a": active, "server-b": active}),
            "receive/before/cut:there/",
            frozenset({Verdict.SPLIT}),
        ),
        # The message is acknowledged, and the one that takes over does not know of it.
        "members with different stores": Planted(
            dataclasses.replace(
                changed(scenario(Deployment.FLEET), {"server-b": other}), stream=0.0, databases=MappingProxyType(stores)
            ),
            "commit/after/kill:server-active/",
            frozenset({Verdict.LOST}),
        ),
        # The row and the consumption of the message are two transactions.
        "handler that commits apart": Planted(
            changed(plain, {"server-a": {"TRIAL_APART": "{link.server-db}"}}, server="tests.trial.apart:app"),
            "consume/after/kill:server-active/",
            frozenset({Verdict.REPEATED}),
        ),
    }


def results(defect: Planted) -> list[BranchResult]:
    """Run the branches of a defect."""
    chosen = selected(branches(defect.scenario), defect.only, None, 1)
    assert chosen, defect.only
    return asyncio.run(Trial(defect.scenario, chosen).run()).branches


def main(names: list[str]) -> int:
    missed = 0
    for name, defect in planted().items():
        if names and name not in names:
            continue
        found = results(defect)
        right = any(each.verdict in defect.verdicts for each in found)
        missed += not right
        shown = ", ".join(f"{each.branch.name}: {each.verdict.value} {each.detail}" for each in found)
        print(f"{'found ' if right else 'MISSED'}  {name}  ({shown})", flush=True)  # noqa: T201
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
