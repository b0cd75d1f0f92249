"""The call ``sequences.list`` selects the same in a store of each kind, and ignores nothing that is asked of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from mercury.console.operator_api import calls_on
from mercury.errors import ConfigurationError
from mercury.storage.api import StorageManager
from mercury.storage.audit import Actor
from mercury.storage.opening import MEMORY, open_sql_store, open_store
from mercury.storage.searching import UnknownPlace
from tests.ports import free_port
from tests.stores import NewUrl

from .conftest import Command
from .pair import URL, Pair
from .shop import Shop
from .test_operator_reads import NOW, refuse

ADA = Actor("ada")


def opened(url: str) -> StorageManager:
    """An open store; leases are measured by the test's time."""
    return open_store(url) if url == MEMORY else open_sql_store(url, database_clock=False)


@pytest.fixture
def pair(any_urls: NewUrl) -> Iterator[Pair]:
    """Sequences of three keys: of ``till-1`` the handler has failed, of ``till-2`` the last attempt to send, and
    ``other`` has ended."""
    with ExitStack() as stack:
        made = Pair(*(stack.enter_context(closing(opened(any_urls()))) for _ in range(2)))
        made.send(["1"], key="till-1")
        made.send(["2"], key="till-2")
        made.send(["3"], key="other", end=True)
        made.run(NOW)
        refuse(made, "4")
        made.send(["4"], key="till-1")
        made.run(NOW)
        made.send(["5"], key="till-2")
        made.client.turn(NOW)
        with made.client.store.transaction() as tx:
            (record,) = (each for each in tx.rms.all() if each.channel.key.name == "till-2")
            tx.rms.lock([record.channel.key])
            record.last_error = "Connection refused"
            tx.rms.save(record)
        yield made


def page(store: StorageManager, **given: object) -> dict[str, Any]:
    found: dict[str, Any] = calls_on(store, lambda: NOW).run("sequences.list", given, ADA)
    return found


def keys(pair: Pair, **given: object) -> list[str]:
    """The keys of the client's sources that are selected."""
    return sorted(each["key"] for each in page(pair.client.store, **given)["items"] if each["side"] == "source")


def test_sources_are_selected_by_each_condition(pair: Pair) -> None:
    assert keys(pair) == ["other", "till-1", "till-2"]
    assert keys(pair, side="source") == keys(pair)
    assert keys(pair, side="destination") == []
    assert keys(pair, key_prefix="till-") == ["till-1", "till-2"]
    assert keys(pair, endpoint=URL) == keys(pair)
    assert keys(pair, endpoint="http://elsewhere") == []
    assert keys(pair, states=["IDLE"]) == ["till-1"]
    assert keys(pair, states=["IDLE", "ENDED"]) == ["other", "till-1"]
    assert keys(pair, states=["FAILED"]) == []
    assert keys(pair, active=True) == ["till-1", "till-2"]
    assert keys(pair, stuck=True) == ["till-2"]
    assert keys(pair, stuck=True, key_prefix="till-1") == []


def test_destinations_are_selected_by_each_condition(pair: Pair) -> None:
    def received(**given: object) -> list[str]:
        found = page(pair.server.store, **given)["items"]
        return sorted(each["state"].split()[0] for each in found if each["side"] == "destination")

    every = ["ENDED_COMPLETE", "RECEIVING", "RECEIVING"]
    assert received() == received(side="destination") == received(endpoint="shop") == every
    assert received(side="source") == received(endpoint="till") == received(key_prefix="till-") == []
    assert received(states=["ENDED_COMPLETE"]) == ["ENDED_COMPLETE"]
    assert received(active=True) == received(states=["RECEIVING"]) == ["RECEIVING", "RECEIVING"]
    (failing,) = page(pair.server.store, stuck=True)["items"]
    assert failing["last_error"] == "LookupError: no stock of 4"


def test_pages_have_every_sequence_once(pair: Pair) -> None:
    found, after, pages = [], None, 0
    while pages == 0 or after is not None:
        one = page(pair.client.store, limit=2, **({} if after is None else {"after": after}))
        found, after, pages = found + one["items"], one["after"], pages + 1
        assert len(one["items"]) <= 2
        assert pages < 20
    names = [(each["side"], each["identifier"]) for each in found]
    assert sorted(names) == sorted((each["side"], each["identifier"]) for each in page(pair.client.store)["items"])
    with pytest.raises(UnknownPlace):
        page(pair.client.store, after="nowhere")


def test_state_that_there_is_not_is_refused_with_those_that_there_are(pair: Pair) -> None:
    with pytest.raises(ConfigurationError, match=r"^states: 'SENT' is not one of .*SENDING.*, ENDED_COMPLETE"):
        page(pair.client.store, states=["SENDING", "SENT"])


# --- the command -----------------------------------------------------------------------------------------------------


def test_command_refuses_a_state_that_there_is_not(tmp_path: Path, command: Command) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    open_sql_store(url).close()
    command("sequences", "list", "--store", url, "--state", "sent").refused("'SENT' is not one of", "SENDING")
    assert command("sequences", "list", "--store", url, "--state", "sending").out == "there are no sequences\n"


@pytest.mark.parametrize(
    "given",
    [
        ("--stuck",),
        ("--side", "source"),
        ("--endpoint", "shop"),
        ("--key-prefix", "till"),
        ("--state", "SENDING"),
        ("--limit", "5"),
        ("--after", "s1"),
    ],
)
def test_command_refuses_a_filter_that_a_process_without_the_operators_api_would_not_apply(
    given: tuple[str, ...], command: Command
) -> None:
    with Shop().open() as (_, endpoint):
        at = endpoint.partition("/services/")[0]
        refused = command("sequences", "list", "--at", at, *given)
        refused.refused(f"{given[0]} needs --store URL or", "MERCURY_CONSOLE_TOKEN")
        command("sequences", "list", "--at", at, *given, MERCURY_CONSOLE_TOKEN="x" * 20).refused(given[0])
        assert command("sequences", "list", "--at", at, "--active").out == "there are no sequences\n"


def test_nothing_listening_is_what_is_wrong_also_with_a_filter(command: Command) -> None:
    at = f"http://127.0.0.1:{free_port()}"
    command("sequences", "list", "--at", at, "--stuck", MERCURY_CONSOLE_TOKEN="x" * 20).refused(
        "nothing answers", code=1
    )
