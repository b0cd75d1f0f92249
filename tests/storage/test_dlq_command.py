"""``mercury dlq``, on a store with and without a running process."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mercury.cli.letter_selection import confirm
from mercury.client.dead_letters import MAY_HAVE_ARRIVED
from mercury.errors import StorageError
from mercury.operations.bulk_actions import BulkActions
from mercury.operations.operator import Operations
from mercury.statemachine.effects import Certainty
from mercury.storage.audit import Actor
from mercury.storage.bulk import BulkAction
from mercury.storage.letters import EVERY_LETTER, LetterFilter
from mercury.storage.opening import open_sql_store, open_store
from mercury.testing.contract.builders import KEY
from tests.acceptance.processes import mercury

from .conftest import Command
from .test_dead_letters import add_letters, inbound, outbound, waiting


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A store with three dead letters: a and b were not delivered, of c it is not known."""
    url = f"sqlite:///{tmp_path}/store.db"
    store = open_store(url)
    add_letters(
        store,
        outbound("a", correlation="order:1", headers=(b"<h/>",)),
        replace(inbound("b"), reason="[/bold] broken"),
        outbound("c", certainty=Certainty.UNKNOWN),
    )
    store.close()
    return url


def left(url: str) -> list[str]:
    store = open_store(url)
    with store.transaction() as tx:
        found = [letter.id for letter in tx.dead_letters.all()]
    store.close()
    return found


def test_they_are_listed_with_what_is_known_of_each(url: str) -> None:
    ended = mercury("dlq", "list", "--store", url)
    assert (ended.code, ended.err) == (0, "")
    heading, *lines = ended.out.splitlines()
    assert heading.split()[:4] == ["id", "dead", "since", "direction"]
    assert [line.split()[0] for line in lines] == ["a", "b", "c"]
    assert "[/bold] broken" in lines[1]
    assert "unknown" in lines[2]
    few = mercury("dlq", "list", "--limit", "2", "-o", "json", MERCURY_STORE=url)
    assert [letter["id"] for letter in few.value] == ["a", "b"]
    assert few.err.startswith("1 more: ")


def test_they_are_counted_by_reason_and_certainty(url: str, command: Command) -> None:
    ended = command("dlq", "list", "--count", "--direction", "outbound", "--store", url, "-o", "json")
    assert (ended.code, ended.err) == (0, "")
    assert {(count["count"], count["certainty"]) for count in ended.value} == {(1, "not delivered"), (1, "unknown")}
    assert {count["endpoint"] for count in ended.value} == {KEY.endpoint}


def test_one_is_shown_with_its_body(url: str, command: Command) -> None:
    ended = command("dlq", "show", "a", "--store", url)
    assert (ended.code, ended.err) == (0, "")
    shown = dict(line.split("  ", 1) for line in ended.out.splitlines())
    assert shown["payload"].strip() == "<a/>"
    assert shown["headers"].strip() == "<h/>"
    assert shown["correlation"].strip() == "order:1"
    command("dlq", "show", "nobody", "--store", url).refused("there is no dead letter nobody", code=1)


def test_some_are_redriven_and_the_others_have_a_reason(url: str, command: Command) -> None:
    ended = command("dlq", "redrive", "--all", "--yes", "--store", url)
    assert ended.code == 1
    assert ended.out == "2 redriven: a process that runs on this store sends or delivers them\n"
    assert ended.err == f"c not redriven: {MAY_HAVE_ARRIVED} (--even-if-unknown)\n"
    assert left(url) == ["c"]
    ended = command("dlq", "redrive", "c", "--allow-duplicate", "--store", url, "-o", "json")
    assert (ended.code, ended.value) == (
        0,
        {"redriven": 1, "refused": 0, "refusals": [], "state": "done", "bulk": None},
    )
    store = open_store(url)
    assert waiting(store) == ["message a", "message c"]
    store.close()


def test_discarded_letters_are_gone(url: str, command: Command) -> None:
    ended = command("dlq", "discard", "--reason", "BROKEN", "--store", url, "-o", "json")
    assert ended.code == 0
    assert (ended.value["discarded"], ended.value["state"], ended.value["bulk"]) == (1, "done", 1)
    assert left(url) == ["a", "c"]


def test_nothing_happens_by_mistake(url: str, command: Command) -> None:
    cases = {
        ("discard",): ("nothing chosen", 2),
        ("redrive",): ("--all", 2),
        ("discard", "--all"): ("3 dead letters are selected: give --yes", 2),
        ("redrive", "--direction", "outbound"): ("2 dead letters are selected: give --yes", 2),
        ("discard", "a", "x", "--yes"): ("1 of these are not dead letters, for example x; nothing was done", 1),
        ("discard", "--older-than", "5 moons"): ("'5 moons' is not a time span", 2),
        ("discard", "--key", "[/none]", "--yes"): ("no dead letter matches", 1),
    }
    for arguments, (text, code) in cases.items():
        command("dlq", *arguments, "--store", url).refused(text, code=code)
    assert left(url) == ["a", "b", "c"]


@pytest.mark.parametrize("chosen", [("--all",), ("--direction", "outbound")])
def test_a_letter_that_dies_after_the_question_is_not_in_its_answer(
    url: str, command: Command, monkeypatch: pytest.MonkeyPatch, chosen: tuple[str, ...]
) -> None:
    def one_dies_after(*given: Any) -> Any:
        confirmed = confirm(*given)
        store = open_store(url)
        add_letters(store, outbound("late", dead_at=time.time()))
        store.close()
        return confirmed

    monkeypatch.setattr("mercury.cli.dlq.confirm", one_dies_after)
    ended = command("dlq", "discard", *chosen, "--yes", "--store", url, "-o", "json")
    many = 3 if chosen == ("--all",) else 2
    assert (ended.code, ended.value["discarded"]) == (0, many)
    assert left(url)[-1] == "late"


def test_a_store_that_there_is_not_is_not_made(tmp_path: Path, command: Command) -> None:
    file = tmp_path / "no.db"
    command("dlq", "list", "--store", f"sqlite:///{file}").refused("there is no store", str(file), code=1)
    assert not file.exists()
    file.touch()
    command("dlq", "list", "--store", f"sqlite:///{file}").refused("no tables of Mercury's", code=1)
    command("dlq", "list", "--store", "memory:").refused("memory:")


def test_an_old_age_is_counted_from_now(url: str, command: Command) -> None:
    """They died in 1970."""
    ended = command("dlq", "list", "--older-than", "52w", "--store", url, "-o", "json")
    assert len(ended.value) == 3
    ended = command("dlq", "list", "--older-than", "99999w", "--store", url, "-o", "json")
    assert ended.value == []


def test_an_action_on_many_is_listed_with_how_far_it_is_goes_on_and_is_cancelled(url: str, command: Command) -> None:
    store = open_sql_store(url)
    actions = Operations(store).bulk_actions
    first = actions.begin(BulkAction.DISCARD, LetterFilter(certainty=Certainty.UNKNOWN), Actor("ada"))
    second = actions.begin(BulkAction.REDRIVE, EVERY_LETTER, Actor("ada"))
    store.close()
    there = ("--store", url)
    listed = command("dlq", "bulks", *there, "-o", "json").value
    assert [(each["id"], each["state"], each["total"]) for each in listed] == [
        (second.id, "running", 3),
        (first.id, "running", 1),
    ]
    gone_on = command("dlq", "resume", str(first.id), *there)
    assert (gone_on.code, gone_on.out) == (0, "1 done (discard)\n")
    assert left(url) == ["a", "b"]
    (line,) = command("audit", "--target", "c", *there, "-o", "json").value
    assert (line["action"], line["actor"], line["bulk"]) == ("discard", "ada", first.id)
    assert command("audit", "--bulk", str(first.id), *there, "-o", "json").value == [line]
    command("audit", "--bulk", "x", *there).refused("bulk is not the number of a bulk action", code=2)
    cancelled = command("dlq", "cancel", str(second.id), *there)
    assert cancelled.out == "cancelled: 0 of 3 are done, the others stay dead letters\n"
    command("dlq", "resume", str(second.id), *there).refused("is cancelled: it does nothing any more", code=1)
    assert left(url) == ["a", "b"]


def test_ctrl_c_stops_between_two_pieces_and_says_how_to_go_on(
    url: str, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as pressed:
        pressed.setattr(BulkActions, "advance", _interrupted)
        ended = command("dlq", "discard", "--all", "--yes", "--store", url)
    assert ended.code == 130
    assert ended.err == "stopped: 0 of 3 were looked at; go on with: mercury dlq resume 1\n"
    assert left(url) == ["a", "b", "c"]
    assert command("dlq", "resume", "1", "--store", url).code == 0
    assert left(url) == []


def test_a_store_that_fails_in_the_middle_leaves_the_way_to_go_on(
    url: str, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as broken:
        broken.setattr(BulkActions, "advance", _full)
        ended = command("dlq", "discard", "--all", "--yes", "--store", url)
    assert ended.code == 1
    assert ended.err == "it is not at its end; go on with: mercury dlq resume 1\nerror: the disk is full\n"
    assert command("dlq", "resume", "1", "--note", "the disk is larger", "--store", url).code == 0
    assert left(url) == []
    (line,) = command("audit", "--action", "resume", "--store", url, "-o", "json").value
    assert (line["target"], line["note"]) == ("1", "the disk is larger")


def _full(*_given: object) -> None:
    raise StorageError("the disk is full")


def _interrupted(*_given: object) -> None:
    raise KeyboardInterrupt
