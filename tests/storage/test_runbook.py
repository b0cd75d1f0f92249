"""docs/runbook.md: each of its commands is run on a store in the state that its section is about."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import MappingProxyType

import pytest

from mercury.operations.operator import Operations
from mercury.storage.audit import Actor
from mercury.storage.opening import open_sql_store
from mercury.storage.searching import SequenceFilter
from tests.acceptance.processes import Ended
from tests.docs.pages import ROOT

from .conftest import Command
from .pair import Pair
from .test_dead_letters import add_letters, outbound
from .test_operator_reads import refuse

PAGE = (ROOT / "docs/runbook.md").read_text(encoding="utf-8")
ADA = Actor("ada")
ENDPOINT = "http://shop.example/services/orders"


def sections() -> dict[str, list[str]]:
    """The commands of each section."""
    found: dict[str, list[str]] = {}
    for part in re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]:
        title, _, text = part.partition("\n")
        found[title] = re.findall(r"^    (mercury .*)$", text, re.MULTILINE)
    return found


class Stage:
    """A client and a server on stores in files, and the commands on one of them."""

    def __init__(self, folder: Path, command: Command) -> None:
        self.urls = {name: f"sqlite:///{folder}/{name}.db" for name in ("client", "server")}
        self.now = time.time()
        self._command = command
        client, server = (open_sql_store(url, database_clock=False) for url in self.urls.values())
        self.stores = (client, server)
        self.pair = Pair(client, server)
        self.client, self.server = (Operations(store, lambda: self.now) for store in self.stores)

    def run(self, title: str, on: str, known: str = "") -> list[Ended]:
        """The commands of a section, on the store of the client or the server.

        :param known: what ``ID`` stands for.
        """
        url = self.urls[on]
        lines = [
            line.replace("ID", known).replace("STORE", url).replace("ENDPOINT", ENDPOINT) for line in sections()[title]
        ]
        assert lines, f"{title} has no commands"
        return [self._command(*shlex.split(line)[1:], MERCURY_STORE=url) for line in lines]


@pytest.fixture
def stage(tmp_path: Path, command: Command) -> Iterator[Stage]:
    made = Stage(tmp_path, command)
    with closing(made.stores[0]), closing(made.stores[1]):
        yield made


def unknown(stage: Stage, title: str) -> None:
    add_letters(stage.stores[0], outbound("a"))
    check, status = stage.run(title, "client")
    assert (check.code, check.out) == (1, "WARNING - 1 dead letter waits for a decision\n")
    assert "dead letters" in status.out


def no_process(stage: Stage, title: str) -> None:
    check, nodes = stage.run(title, "client")
    assert (check.code, check.out) == (2, "CRITICAL - 0 processes run, 0 are silent | nodes=0\n")
    assert nodes.out == "no process on this store says that it runs\n"


def handler_fails(stage: Stage, title: str) -> None:
    refuse(stage.pair, "2")
    stage.pair.send(["1", "2", "3"])
    stage.pair.run(stage.now)
    (poison,) = stage.server.services.failing().items
    listed, shown, retried, _ = stage.run(title, "server", poison.id)
    assert "LookupError: no stock of 2" in listed.out
    assert "no stock of 2" in shown.out
    assert retried.out == f"{poison.id} is due now\n"
    stage.pair.run(stage.now + 1)
    assert stage.pair.server.handled == ["<order>1</order>", "<order>3</order>"]


def paused(stage: Stage, title: str) -> None:
    paused, listed, resumed = stage.run(title, "server")
    assert paused.out == "shop is paused: what it receives waits\n"
    assert "by " in listed.out
    assert resumed.out == "shop is resumed\n"


def stuck(stage: Stage, title: str) -> None:
    stage.pair.send(["1"])
    stage.pair.run(stage.now)
    (line,) = stage.client.sequences.page(SequenceFilter(source=True)).items
    stage.client.sequence_actions.suspend(line.id, ADA)
    listed, shown, resumed = stage.run(title, "client", line.id)
    assert line.id[-12:] in listed.out
    assert "suspended by ada" in shown.out
    assert resumed.out == f"{line.id} is resumed\n"


def cannot_go_on(stage: Stage, title: str) -> None:
    stage.pair.send(["1"], window=1)
    stage.pair.run(stage.now)
    stage.pair.send(["2"], window=1)
    stage.pair.client.turn(stage.now + 1)
    (line,) = stage.client.sequences.page(SequenceFilter(source=True)).items
    refused, parked = stage.run(title, "client", line.id)
    refused.refused("1 message was sent and is not acknowledged", code=1)
    assert parked.code == 0
    (letter,) = stage.client.letters.page().items
    assert letter.correlation == "order:2"


def another_store(stage: Stage, title: str) -> None:
    with stage.stores[0].transaction() as tx:
        tx.peer_stores.agree(ENDPOINT, "the-store-before", stage.now)
        tx.peer_stores.refuse(ENDPOINT, "another-store", ENDPOINT, stage.now)
    looked, replaced = stage.run(title, "client")
    assert looked.code == 1
    assert f"{ENDPOINT}: the store another-store answers there" in " ".join(looked.out.split())
    assert f"{ENDPOINT} has the store another-store now, and had the-store-before" in " ".join(replaced.out.split())


def dead(stage: Stage, title: str) -> None:
    add_letters(stage.stores[0], outbound("a"))
    stage.now += 1
    counted, listed, redriven, redirected, discarded = stage.run(title, "client")
    assert "not delivered" in counted.out
    assert listed.out.splitlines()[1].startswith("a ")
    assert redriven.out.startswith("1 redriven")
    redirected.refused("no dead letter matches", code=1)
    discarded.refused("no dead letter matches", code=1)


def one_message(stage: Stage, title: str) -> None:
    stage.pair.send(["2"])
    (waiting,) = stage.run(title, "client")
    assert "waits for a number" in waiting.out
    stage.pair.run(stage.now)
    (settled,) = stage.run(title, "client")
    assert settled.err.startswith("settled: ")


def in_doubt(stage: Stage, title: str) -> None:
    (listed,) = stage.run(title, "client")
    assert (listed.code, listed.out.splitlines()[0]) == (0, "nothing is prepared in no database")


def by_hand(stage: Stage, title: str) -> None:
    stage.server.service_actions.pause("shop", ADA, reason="a test")
    (listed,) = stage.run(title, "server")
    assert "ada" in listed.out
    assert "a test" in listed.out


STATES: MappingProxyType[str, Callable[[Stage, str], None]] = MappingProxyType(
    {
        "It is not known what is wrong": unknown,
        "No process works on the store": no_process,
        "A handler fails, and its sequence waits": handler_fails,
        "A service must not be called now": paused,
        "Messages do not leave, or do not arrive": stuck,
        "A sequence of this side cannot go on": cannot_go_on,
        "Another store answers for a destination": another_store,
        "There are dead letters": dead,
        "One message is searched": one_message,
        "A two-phase commit is in doubt": in_doubt,
        "An operator may have done something": by_hand,
    }
)


def test_every_section_of_the_runbook_is_rehearsed() -> None:
    assert list(sections()) == list(STATES)


@pytest.mark.parametrize("title", STATES)
def test_commands_of_the_runbook_do_what_it_says(title: str, stage: Stage) -> None:
    STATES[title](stage, title)
