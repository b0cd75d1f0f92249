"""`mercury xa`."""

from __future__ import annotations

import contextlib
import datetime
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mercury.cli.acting import By, Note, actor
from mercury.cli.config import ConfigFile
from mercury.cli.output import FAILED, UNUSABLE, Format, Output, console, fail, show, show_table
from mercury.cli.stores import StoreUrl, used_store

if TYPE_CHECKING:
    from mercury.storage.xa.coordinator import Coordinator
    from mercury.storage.xa.decisions import Decision
    from mercury.storage.xa.operator import Overview

app = typer.Typer(
    help="Two-phase commits: list those in doubt, finish one by hand. Needs no running process.",
    no_args_is_help=True,
)

Resources = Annotated[
    list[str] | None,
    typer.Option(
        "--resource",
        "-r",
        metavar="NAME=URL",
        help="A participating database, as in Mercury(resources=...). Overrides the setting xa.resources.",
    ),
]
DecisionLog = Annotated[
    str | None,
    typer.Option("--decision-log", metavar="URL", help="The store of the decisions; default: the one of the settings."),
]
#: What is to be done about a transaction that another decision log may have decided.
UNKNOWN = "no named decision log knows its process: name the right one by --decision-log URL, or in xa.decision_log"
Gtrid = Annotated[str, typer.Argument(metavar="GTRID", help="The transaction, mercury:STORE:INCARNATION.NUMBER.")]


@app.command("list")
def list_transactions(
    store: StoreUrl = None,
    resource: Resources = None,
    decision_log: DecisionLog = None,
    config: ConfigFile = None,
    output: Output = Format.TEXT,
) -> None:
    """List transactions in doubt, transactions finished by hand against their decision, and unreachable databases.

    A running process finishes a transaction in doubt within seconds. One that remains here waits for an unreachable
    database, or for an operator's decision.

    Exit code 0: every participating database was queried; 1: one could not be, and the output names it.
    """
    with _coordinator(store, resource, decision_log, config) as coordinator:
        from mercury.storage.xa.operator import Operator

        found = Operator(coordinator).overview()
    show(output, _overview(found), lambda: _show_overview(found))
    if found.away:
        raise typer.Exit(FAILED)


@app.command("show")
def show_transaction(
    gtrid: Gtrid,
    store: StoreUrl = None,
    resource: Resources = None,
    decision_log: DecisionLog = None,
    config: ConfigFile = None,
    output: Output = Format.TEXT,
) -> None:
    """Show the decision on one transaction, and the databases where it is still prepared. An unknown one is an error.

    Exit code 0: every participating database was queried; 1: one could not be, and the output names it.
    """
    with _coordinator(store, resource, decision_log, config) as coordinator:
        from mercury.storage.xa.names import read_gtrid
        from mercury.storage.xa.operator import Operator

        wanted = read_gtrid(gtrid)
        found, decided = Operator(coordinator).find(wanted)
    value = {
        "gtrid": str(wanted),
        "decision": decided.verdict.value if decided is not None else None,
        "decided_at": decided.decided_at if decided is not None else None,
        "unknown_process": wanted in found.unknown,
        "prepared": [each.resource for each in found.branches if each.gtrid == wanted],
        "finished_by_hand": [each.gid for each in found.heuristics if each.gid.startswith(f"{wanted}:")],
        "queried": list(found.queried),
        "not_queried": dict(found.away),
    }
    rows = [(name.replace("_", " "), _plain(each)) for name, each in value.items() if name != "unknown_process"]
    if wanted in found.unknown:
        rows = [(name, UNKNOWN if name == "decision" else each) for name, each in rows]
    show(output, value, lambda: show_table(("property", "value"), rows, nothing=""))
    if found.away:
        raise typer.Exit(FAILED)


@app.command()
def resolve(
    gtrid: Gtrid,
    verdict: Annotated[str, typer.Argument(metavar="commit|rollback", help="Commit or roll back the transaction.")],
    store: StoreUrl = None,
    resource: Resources = None,
    decision_log: DecisionLog = None,
    force: Annotated[
        bool, typer.Option("--force", help="Commit without a decision to commit: parts of the transaction may be lost.")
    ] = False,
    unknown_process: Annotated[
        bool,
        typer.Option(
            "--unknown-process",
            help="Finish it although no named decision log knows its process: another log may have decided otherwise.",
        ),
    ] = False,
    by: By = None,
    note: Note = "",
    config: ConfigFile = None,
    output: Output = Format.TEXT,
) -> None:
    """Finish one transaction in every reachable database, as recovery does, and never against its decision."""
    from mercury.storage.xa.decisions import Verdict
    from mercury.storage.xa.names import read_gtrid

    if verdict not in ("commit", "rollback"):
        fail(UNUSABLE, f"{verdict!r} is neither commit nor rollback")
    wanted = read_gtrid(gtrid)
    with _coordinator(store, resource, decision_log, config) as coordinator:
        from mercury.operations.transactions import resolve as resolve_audited

        decided = Verdict.COMMIT if verdict == "commit" else Verdict.ABORT
        finished = resolve_audited(
            coordinator,
            wanted,
            decided,
            actor(by),
            time.time,
            force=force,
            unknown_process=unknown_process,
            reason=note,
        )
    value = {"gtrid": str(wanted), "decision": decided.value, "finished": finished}
    done = "committed" if decided is Verdict.COMMIT else "rolled back"
    text = "\n".join(f"{done}: {gid}" for gid in finished) or f"no branch was left to be {done}"
    show(output, value, lambda: console().print(text, markup=False))


@contextlib.contextmanager
def _coordinator(
    store: str | None, resources: list[str] | None, decision_log: str | None, config: Path | None
) -> Iterator[Coordinator]:
    """A coordinator for the named databases, open until the end of the block."""
    from mercury.masking import masked
    from mercury.settings import load
    from mercury.storage.opening import name_resources

    settings = load(config)
    named = settings.xa.named()
    for each in resources or []:
        name, found, url = each.partition("=")
        if not found or not url:
            fail(UNUSABLE, f"--resource {masked(each)!r} is not of the form NAME=URL")
        named[name] = url
    with used_store(store, config) as opened:
        yield name_resources(opened, named, decision_log=decision_log or settings.xa.decision_log)


def _overview(found: Overview) -> dict[str, Any]:
    return {
        "branches": [
            {
                "gtrid": str(branch.gtrid),
                "resource": branch.resource,
                "age": branch.age,
                "decision": _decided(found.decision_on(branch.gtrid)),
                "unknown_process": branch.gtrid in found.unknown,
            }
            for branch in found.branches
        ],
        "unfinished_decisions": [
            {"gtrid": str(each.gtrid), "decision": each.verdict.value, "resources": sorted(each.branches)}
            for each in found.decisions
            if each.branches
        ],
        "finished_by_hand": [
            {"gid": each.gid, "resource": each.resource, "decided": each.decided, "found": each.found,
             "found_at": each.found_at}
            for each in found.heuristics
        ],
        "queried": list(found.queried),
        "not_queried": dict(found.away),
    }  # fmt: skip


def _show_overview(found: Overview) -> None:
    from mercury.storage.xa.names import STORE_BRANCH

    rows = [
        (str(each.gtrid), each.resource, f"{each.age:.0f} s", _decided(found.decision_on(each.gtrid)) or undecided)
        for each in found.branches
        for undecided in ["not known" if each.gtrid in found.unknown else "not yet"]
    ]
    queried = ", ".join(found.queried) or "no database"
    show_table(("transaction", "prepared in", "for", "decided"), rows, nothing=f"nothing is prepared in {queried}")
    if rows:
        console().print(f"\nqueried: {queried}", markup=False)
    if found.unknown:
        console().print(f"\nnot known: {UNKNOWN}", markup=False)
    if not found.away and not set(found.queried) - {STORE_BRANCH}:
        console().print(
            "\nonly the store was queried: name the other databases by --resource NAME=URL, or in the setting "
            "xa.resources",
            markup=False,
        )
    if found.heuristics:
        console().print("\nFinished by hand against the decision; the databases do not agree:")
        headings = ("branch", "decided", "found", "at")
        heuristics = [(each.gid, each.decided, each.found, _time(each.found_at)) for each in found.heuristics]
        show_table(headings, heuristics, nothing="")
    for name, why in found.away:
        console().print(f"\nnot queried: {name}: {why}", markup=False)


def _decided(decision: Decision | None) -> str | None:
    return decision.verdict.value if decision is not None else None


def _plain(value: object) -> str:
    if isinstance(value, float):
        return _time(value)
    if isinstance(value, dict):
        return "; ".join(f"{name}: {each}" for name, each in value.items()) or "none"
    if isinstance(value, list):
        return ", ".join(value) or "none"
    return "not yet" if value is None else str(value)


def _time(seconds: float) -> str:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).isoformat(" ", "seconds")
