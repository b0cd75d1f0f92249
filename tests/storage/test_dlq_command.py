"""``mercury dlq``, on a store with and without a running process."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from mercury.client.dead_letters import MAY_HAVE_ARRIVED
from mercury.statemachine.effects import Certainty
from mercury.storage.opening import open_store
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
    assert (ended.code, ended.value) == (0, {"redriven": ["c"], "refused": []})
    store = open_store(url)
    assert waiting(store) == ["message a", "message c"]
    store.close()


def test_discarded_letters_are_gone(url: str, command: Command) -> None:
    ended = command("dlq", "discard", "--reason", "BROKEN", "--store", url, "-o", "json")
    assert (ended.code, ended.value) == (0, {"discarded": 1})
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
