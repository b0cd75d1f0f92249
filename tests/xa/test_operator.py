"""`mercury xa`: an operator lists transactions in doubt, and finishes them by the same decisions as recovery."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import Result
from sqlalchemy import text
from typer.testing import CliRunner

from mercury import Mercury
from mercury.cli.main import app
from mercury.errors import ConfigurationError, StorageError
from tests.acceptance.processes import mercury

from .places import Places
from .test_recovery import by_hand, leave, recover

Ask = Callable[..., Result]
#: A database that does not answer.
NOBODY = "postgresql://x@127.0.0.1:9/x"


@pytest.fixture
def ask(places: Places) -> Ask:
    """The command, with these databases, in this process."""
    with places.process():
        pass  # a SQLite file is made
    log = ["--decision-log", places.log] if places.log else []
    where = ["--store", places.store, "--resource", f"app={places.app}", *log]

    def run(*words: str) -> Result:
        return CliRunner().invoke(app, ["xa", *words, *([] if "--store" in words else where)])

    return run


def value(result: Result) -> Any:
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def refused(result: Result, text: str, kind: type[Exception]) -> None:
    assert isinstance(result.exception, kind), result.output
    assert text in str(result.exception)


def gtrid_of(places: Places) -> str:
    return places.prepared()[0].rpartition(":")[0]


def end_lease(places: Places) -> None:
    """Let the heartbeats of all processes have ended a minute ago."""
    with places.engine(places.log or places.store).begin() as connection:
        connection.execute(text("update mercury_incarnation set seen_at = seen_at - 60"))


def test_list_shows_what_is_prepared_and_what_is_decided(places: Places, ask: Ask) -> None:
    assert "nothing is prepared" in ask("list").stdout
    leave(places, "commit_decision")
    gtrid = gtrid_of(places)
    found = value(ask("list", "--output", "json"))
    assert {branch["gtrid"] for branch in found["branches"]} == {gtrid}
    assert "app" in {branch["resource"] for branch in found["branches"]}
    assert {branch["decision"] for branch in found["branches"]} == {"commit"}
    assert found["unfinished_decisions"][0]["gtrid"] == gtrid
    assert gtrid in ask("list").stdout
    shown = value(ask("show", gtrid, "--output", "json"))
    assert shown["decision"] == "commit"
    assert "app" in shown["prepared"]


def test_decided_branch_is_finished_as_decided(places: Places, ask: Ask) -> None:
    leave(places, "commit_decision")
    gtrid = gtrid_of(places)
    refused(ask("resolve", gtrid, "rollback"), "is decided: commit", StorageError)
    assert places.prepared() != []
    done = value(ask("resolve", gtrid, "commit", "--output", "json"))
    assert f"{gtrid}:app" in done["finished"]
    assert places.state == ([1], [1], [])
    assert places.decisions() == []


def test_undecided_branch_is_rolled_back_by_an_abort_row(places: Places, ask: Ask) -> None:
    leave(places, "prepare")
    gtrid = gtrid_of(places)
    assert f"rolled back: {gtrid}:app" in ask("resolve", gtrid, "rollback").stdout
    assert places.state == ([], [], [])
    assert places.decisions() == [(gtrid, "abort")]
    refused(ask("resolve", gtrid, "commit"), "is decided: abort", StorageError)


def test_undecided_branch_is_committed_only_by_force(places: Places, ask: Ask) -> None:
    leave(places, "prepare")
    gtrid = gtrid_of(places)
    refused(ask("resolve", gtrid, "commit"), "add --force", StorageError)
    assert places.prepared() != []
    assert places.decisions() == []
    end_lease(places)
    assert ask("resolve", gtrid, "commit", "--force").exit_code == 0
    assert places.prepared() == []
    assert places.placed() == [1]


def test_a_commit_is_not_forced_while_the_coordinator_may_still_decide(places: Places, ask: Ask) -> None:
    """It has prepared one branch, and may be about to prepare the next: a decision now would lose that one."""
    leave(places, "prepare")
    gtrid, prepared = gtrid_of(places), places.prepared()
    refused(
        ask("resolve", gtrid, "commit", "--force"), "it sent a heartbeat in the last 5 s. Try again in", StorageError
    )
    assert places.prepared() == prepared
    assert places.decisions() == []
    assert ask("resolve", gtrid, "rollback").exit_code == 0  # the coordinator obeys it
    assert places.state == ([], [], [])


# --- without the decision log ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("places", ["two-phase"], indirect=True)
@pytest.mark.parametrize("verdict", [("rollback",), ("commit",), ("commit", "--force")])
def test_a_transaction_is_not_resolved_where_its_decision_log_is_not_named(
    places: Places, ask: Ask, verdict: tuple[str, ...]
) -> None:
    """It is decided to commit, in a log that the operator has not named, and the store may have committed already."""
    leave(places, "commit_decision")
    gtrid, prepared = gtrid_of(places), places.prepared()
    no_log = ("--store", places.store, "--resource", f"app={places.app}")
    refused(ask("resolve", gtrid, *verdict, *no_log), "--decision-log", StorageError)
    assert places.prepared() == prepared
    with places.engine(places.store).connect() as connection:
        assert connection.execute(text("select * from mercury_decision")).all() == [], "nor is it decided twice"
    assert ask("resolve", gtrid, "commit").exit_code == 0
    assert places.state == ([1], [1], [])


@pytest.mark.parametrize("places", ["two-phase"], indirect=True)
def test_where_its_decision_log_is_not_named_a_transaction_is_not_shown_as_undecided(places: Places, ask: Ask) -> None:
    leave(places, "commit_decision")
    gtrid = gtrid_of(places)
    no_log = ("--store", places.store, "--resource", f"app={places.app}")
    listed = ask("list", *no_log).stdout
    assert "not yet" not in listed
    assert "no named decision log knows its process" in listed
    assert "no named decision log knows its process" in ask("show", gtrid, *no_log).stdout
    found = value(ask("list", *no_log, "--output", "json"))
    assert {branch["unknown_process"] for branch in found["branches"]} == {True}
    assert value(ask("show", gtrid, *no_log, "--output", "json"))["unknown_process"]
    found = value(ask("list", "--output", "json"))
    assert {branch["unknown_process"] for branch in found["branches"]} == {False}


def test_a_transaction_of_a_process_that_was_deleted_from_the_log_is_resolved_by_an_option_of_its_own(
    places: Places, ask: Ask
) -> None:
    """Its database was away for longer than a dead process is kept."""
    leave(places, "prepare")
    gtrid = gtrid_of(places)
    with places.engine(places.log or places.store).begin() as connection:
        connection.execute(text("delete from mercury_incarnation"))
    refused(ask("resolve", gtrid, "rollback"), "--unknown-process", StorageError)
    refused(ask("resolve", gtrid, "commit", "--force"), "--unknown-process", StorageError)
    refused(ask("resolve", gtrid, "commit", "--unknown-process"), "add --force", StorageError)
    assert places.decisions() == []
    assert ask("resolve", gtrid, "rollback", "--unknown-process").exit_code == 0
    assert places.state == ([], [], [])
    audit = json.loads(CliRunner().invoke(app, ["audit", "--store", places.store, "--output", "json"]).stdout)
    assert audit[1]["after"]["unknown_process"] is True


def test_a_heuristic_outcome_is_shown(places: Places, ask: Ask) -> None:
    leave(places, "commit_decision")
    gid = by_hand(places, "rollback")
    with places.process() as other:
        recover(other)
    (found,) = value(ask("list", "--output", "json"))["finished_by_hand"]
    assert (found["gid"], found["decided"], found["found"]) == (gid, "commit", "aborted")
    assert "do not agree" in ask("list").stdout


def test_mistakes_are_errors_that_name_the_setting(places: Places, ask: Ask) -> None:
    refused(ask("resolve", "nonsense", "commit"), "not the name of a two-phase commit", ConfigurationError)
    refused(ask("resolve", "mercury:a:b.1", "commit"), "nothing is prepared", StorageError)
    assert "neither commit nor rollback" in ask("resolve", "mercury:a:b.1", "perhaps").output
    assert "NAME=URL" in ask("list", "--store", places.store, "--resource", "app").output


def test_list_names_the_queried_databases_and_fails_when_one_was_not(places: Places, ask: Ask) -> None:
    everywhere = value(ask("list", "--output", "json"))
    assert "app" in everywhere["queried"]
    assert everywhere["not_queried"] == {}
    nobody = ("--store", places.store, "--resource", f"app={NOBODY}")
    ended = ask("list", *nobody)
    assert ended.exit_code == 1
    assert "not queried: app" in ended.stdout
    assert "nothing is prepared in app" not in ended.stdout
    found = json.loads(ask("list", *nobody, "--output", "json").stdout)
    assert "app" in found["not_queried"]
    assert "app" not in found["queried"]


def test_show_of_a_known_transaction_fails_when_a_database_did_not_answer(places: Places, ask: Ask) -> None:
    leave(places, "commit_decision")
    gtrid = gtrid_of(places)
    assert ask("show", str(gtrid)).exit_code == 0
    log = ("--decision-log", places.log) if places.log else ()
    nobody = ("--store", places.store, "--resource", f"app={NOBODY}", *log)
    ended = ask("show", str(gtrid), *nobody)
    assert ended.exit_code == 1
    (away,) = [line for line in ended.stdout.splitlines() if line.startswith("not queried")]
    assert "app: " in away
    assert "refused" in away
    found = json.loads(ask("show", str(gtrid), *nobody, "--output", "json").stdout)
    assert (found["decision"], list(found["not_queried"])) == ("commit", ["app"])


def test_a_database_that_was_not_named_is_not_reported_as_empty(places: Places, ask: Ask) -> None:
    only_the_store = ("--store", places.store, *(("--decision-log", places.log) if places.log else ()))
    ended = ask("list", *only_the_store)
    assert ended.exit_code == 0
    assert "only the store was queried" in ended.stdout
    leave(places, "commit_decision")
    ended = ask("list", *only_the_store)  # a decision names it
    assert ended.exit_code == 1
    assert "not queried: app: not configured" in ended.stdout


def test_the_databases_of_the_settings_are_queried(places: Places, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MERCURY_STORE", places.store)
    monkeypatch.setenv("MERCURY_XA_DECISION_LOG", places.log or "")
    monkeypatch.setenv("MERCURY_XA_RESOURCES", f"app={places.app}")
    leave(places, "commit_decision")
    found = value(CliRunner().invoke(app, ["xa", "list", "--output", "json"]))
    assert "app" in found["queried"]
    assert gtrid_of(places) in {branch["gtrid"] for branch in found["branches"] if branch["resource"] == "app"}
    # An option wins over them.
    assert CliRunner().invoke(app, ["xa", "list", "--resource", f"app={NOBODY}"]).exit_code == 1


def test_the_databases_of_the_settings_take_part_when_the_application_names_none(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    with places.process():
        pass
    monkeypatch.setenv("MERCURY_XA_DECISION_LOG", places.log or "")
    monkeypatch.setenv("MERCURY_XA_RESOURCES", f"app={places.app}")
    with Mercury(places.store) as mercury, mercury.transaction() as tx:
        tx.connection("app").execute(text("insert into placed values (1)"))
    assert places.placed() == [1]


def test_an_unknown_transaction_is_an_error(places: Places, ask: Ask) -> None:
    refused(ask("show", "mercury:a:b.1"), "unknown transaction mercury:a:b.1", StorageError)
    nobody = ("--store", places.store, "--resource", f"app={NOBODY}")
    refused(ask("show", "mercury:a:b.1", *nobody), "not queried: app", StorageError)


@pytest.mark.parametrize("places", ["sqlite"], indirect=True)
def test_the_command_needs_no_running_process(places: Places) -> None:
    leave(places, "commit_decision")
    gtrid = gtrid_of(places)
    where = ("--store", places.store, "--resource", f"app={places.app}")
    mercury("xa", "resolve", gtrid, "rollback", *where).refused("is decided: commit", code=1)
    assert mercury("xa", "resolve", gtrid, "commit", *where).code == 0
    assert places.state == ([1], [1], [])


def test_verdict_of_an_operator_is_in_the_audit(places: Places, ask: Ask) -> None:
    leave(places, "prepare")
    gtrid = gtrid_of(places)
    refused(ask("resolve", gtrid, "commit", "--by", "ada"), "add --force", StorageError)
    assert ask("resolve", gtrid, "rollback", "--by", "ada", "--note", "agreed with bob").exit_code == 0
    result = CliRunner().invoke(app, ["audit", "--store", places.store, "--output", "json"])
    entries = json.loads(result.stdout)
    assert [entry["action"] for entry in entries] == ["resolved", "resolve", "resolve refused", "resolve"]
    assert {entry["target"] for entry in entries} == {gtrid}
    assert (entries[0]["note"], entries[0]["after"]["verdict"]) == ("agreed with bob", "abort")
