"""`mercury xa`: the operator sees what is in doubt, and finishes it by the same arbiter as recovery."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.acceptance.processes import Ended, mercury

from .places import Places
from .test_recovery import by_hand, leave, recover

Ask = Callable[..., Ended]


@pytest.fixture
def ask(places: Places) -> Ask:
    """The command, with these databases."""
    log = ["--log", places.log] if places.log else []

    def run(*words: str) -> Ended:
        return mercury("xa", *words, "--store", places.store, "--resource", f"app={places.app}", *log)

    return run


def gtrid_of(places: Places) -> str:
    return places.prepared()[0].rpartition(":")[0]


def test_list_shows_what_is_prepared_and_what_is_decided(places: Places, ask: Ask) -> None:
    assert "nothing is prepared" in ask("list").out
    leave(places, "commit_decision")
    gtrid = gtrid_of(places)
    found = ask("list", "--output", "json").value
    assert {branch["gtrid"] for branch in found["branches"]} == {gtrid}
    assert "app" in {branch["resource"] for branch in found["branches"]}
    assert {branch["decision"] for branch in found["branches"]} == {"commit"}
    assert found["unfinished_decisions"][0]["gtrid"] == gtrid
    assert gtrid in ask("list").out
    shown = ask("show", gtrid, "--output", "json").value
    assert shown["decision"] == "commit"
    assert "app" in shown["prepared"]


@pytest.mark.parametrize(("step", "right", "wrong"), [("commit_decision", "commit", "rollback")])
def test_what_is_decided_is_finished_and_never_otherwise(
    places: Places, ask: Ask, step: str, right: str, wrong: str
) -> None:
    leave(places, step)
    gtrid = gtrid_of(places)
    ask("resolve", gtrid, wrong).refused("is decided: commit", code=1)
    assert places.prepared() != []
    done = ask("resolve", gtrid, right, "--output", "json").value
    assert f"{gtrid}:app" in done["finished"]
    assert places.state == ([1], [1], [])
    assert places.decisions() == []


def test_what_nobody_has_decided_is_rolled_back_by_an_abort_row(places: Places, ask: Ask) -> None:
    leave(places, "prepare")
    gtrid = gtrid_of(places)
    assert f"rolled back: {gtrid}:app" in ask("resolve", gtrid, "rollback").out
    assert places.state == ([], [], [])
    assert places.decisions() == [(gtrid, "abort")]
    ask("resolve", gtrid, "commit").refused("is decided: abort", code=1)


def test_what_nobody_has_decided_is_committed_only_by_force(places: Places, ask: Ask) -> None:
    leave(places, "prepare")
    gtrid = gtrid_of(places)
    ask("resolve", gtrid, "commit").refused("nobody has decided to commit", "--force", code=1)
    assert places.prepared() != []
    assert places.decisions() == []
    assert ask("resolve", gtrid, "commit", "--force").code == 0
    assert places.prepared() == []
    assert places.placed() == [1]


def test_a_heuristic_outcome_is_shown(places: Places, ask: Ask) -> None:
    leave(places, "commit_decision")
    gid = by_hand(places, "rollback")
    with places.process() as other:
        recover(other)
    (found,) = ask("list", "--output", "json").value["finished_by_hand"]
    assert (found["gid"], found["decided"], found["found"]) == (gid, "commit", "aborted")
    assert "do not agree" in ask("list").out


def test_mistakes_are_told(places: Places, ask: Ask) -> None:
    ask("resolve", "nonsense", "commit").refused("not the name of a two-phase commit")
    ask("resolve", "mercury:a:b.1", "perhaps").refused("neither commit nor rollback")
    ask("resolve", "mercury:a:b.1", "commit").refused("nothing is prepared", code=1)
    mercury("xa", "list", "--store", places.store, "--resource", "app").refused("NAME=URL")
    away = mercury("xa", "list", "--store", places.store, "-r", "app=postgresql://x@127.0.0.1:9/x", "-o", "json").value
    assert "app" in away["away"]
