"""``mercury ... --at URL``: operators see and steer a running process, and nobody else does."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mercury import ConfigurationError, ConsoleSettings, LetterFilter, Mercury, Settings
from mercury.operations.calls.database import CALLS
from mercury.operations.calls.memory import IN_MEMORY
from tests.acceptance.processes import PATIENCE
from tests.ports import free_port

from .conftest import Command
from .shop import Order, Shop, settings
from .test_dead_letters import add_letters, inbound, outbound

OPERATOR, READER = "the-token-of-operators", "the-token-of-readers"
SERVED = ConsoleSettings(api=True, token=OPERATOR, reader_token=READER)
AS_OPERATOR = {"MERCURY_CONSOLE_TOKEN": OPERATOR}


@contextmanager
def process(store: str) -> Iterator[tuple[Shop, Mercury, str]]:
    """A running process; gives its shop, its Mercury and its URL."""
    shop = Shop()
    with shop.open(store, console=SERVED) as (server, endpoint):
        yield shop, server, endpoint.partition("/services/")[0]


def post(at: str, call: str, body: object = None, token: str | None = OPERATOR, **headers: str) -> tuple[int, Any]:
    """What the process answers to a request."""
    connection = http.client.HTTPConnection(at.removeprefix("http://"), timeout=PATIENCE)
    given = {"Content-Type": "application/json"}
    given |= {"Authorization": f"Bearer {token}"} if token is not None else {}
    given |= {name.replace("_", "-"): value for name, value in headers.items()}
    whole = body if isinstance(body, bytes) else json.dumps({"by": "eve", "arguments": body or {}}).encode()
    try:
        connection.request("POST", f"/mercury/operate/{call}", whole, given)
        reply = connection.getresponse()
        return reply.status, json.loads(reply.read())
    finally:
        connection.close()


def test_an_operator_steers_a_running_process_and_the_audit_names_her(tmp_path: Path, command: Command) -> None:
    with process(f"sqlite:///{tmp_path}/shop.db") as (shop, _, at), Mercury("memory:", settings=settings()) as client:
        pause = command("services", "pause", "shop", "--at", at, "--by", "Ada", "--note", "moved", **AS_OPERATOR)
        assert (pause.code, pause.out) == (0, "shop is paused: what it receives waits\n")
        orders = client.to(f"{at}/services/shop")
        orders.send(Order(1), operation="put")
        assert orders.wait(PATIENCE)
        (waits,) = command("messages", "list", "--at", at, "-o", "json", **AS_OPERATOR).value
        shown = command("messages", "show", waits["id"], "--at", at, **AS_OPERATOR)
        assert "received, stored and acknowledged" in shown.out
        part = waits["sequence"][-12:]
        assert command("sequences", "suspend", part, "--at", at, **AS_OPERATOR).out.endswith("is suspended\n")
        command("sequences", "suspend", part, "--at", at, **AS_OPERATOR).refused("is suspended by", code=1)
        assert command("check", "queue", "--at", at, "--max-age", "1h", **AS_OPERATOR).code == 0
        assert command("check", "node", "--at", at, **AS_OPERATOR).code == 0
        assert shop.orders == []
        assert command("sequences", "resume", part, "--at", at, **AS_OPERATOR).code == 0
        listing = ("sequences", "list", "--at", at, "--side", "destination", "-o", "json")
        (listed,) = command(*listing, **AS_OPERATOR).value
        assert "paused by Ada" in (listed["why"] or ""), listed
        assert "timeline" in command("sequences", "show", part, "--at", at, "-o", "json", **AS_OPERATOR).value
        done = command("audit", "--at", at, "-o", "json", **AS_OPERATOR).value
        assert [(each["action"], each["via"]) for each in done] == [
            ("resume", "api"),
            ("suspend", "api"),
            ("pause", "api"),
        ]
        assert (done[-1]["actor"], done[-1]["note"]) == ("Ada", "moved")


def test_dead_letters_of_a_process_are_discarded_a_bounded_number_at_once(tmp_path: Path, command: Command) -> None:
    with process(f"sqlite:///{tmp_path}/shop.db") as (_, server, at):
        add_letters(server.store, *(outbound(str(each)) for each in range(120)))
        there = ("--at", at)
        done = command("dlq", "discard", "--all", "--yes", *there, **AS_OPERATOR)
        assert (done.code, done.out) == (0, "120 discarded\n")
        assert command("dlq", "list", *there, **AS_OPERATOR).out == "there are no dead letters\n"
        status, answer = post(at, "dlq.discard", {"ids": [str(each) for each in range(101)]})
        assert (status, answer["error"]) == (400, "ids is not a list of 1 to 100 identifiers")


def test_a_process_with_its_store_in_memory_takes_what_needs_no_tables(command: Command) -> None:
    with process("memory:") as (shop, server, at):
        add_letters(server.store, inbound("a", element=Order.__name__), inbound("b"), inbound("c"))
        listed = command("dlq", "list", "--at", at, "-o", "json", **AS_OPERATOR).value
        assert [each["id"] for each in listed] == ["a", "b", "c"]
        assert command("dlq", "discard", "b", "--at", at, **AS_OPERATOR).out == "1 discarded\n"
        assert [each.id for each in server.dead_letters(LetterFilter())] == ["a", "c"]
        assert command("dlq", "show", "a", "--at", at, **AS_OPERATOR).code == 0
        assert command("check", "queue", "--at", at, **AS_OPERATOR).out.startswith("OK - nothing waits")
        command("services", "pause", "shop", "--at", at, **AS_OPERATOR).refused(IN_MEMORY, code=1)
        assert command("check", "node", "--at", at, **AS_OPERATOR).code == 3
        assert shop.orders == []


def test_without_the_token_of_operators_nothing_is_changed(tmp_path: Path, command: Command) -> None:
    with process(f"sqlite:///{tmp_path}/shop.db") as (_, _, at):
        pause = {"service": "shop"}
        assert post(at, "services.pause", pause, token=None)[0] == 401
        assert post(at, "services.pause", pause, token=None, Cookie=f"mercury_console={OPERATOR}")[0] == 401
        assert post(at, "services.list", token=None)[0] == 401
        for name, call in CALLS.items():
            if call.changes:
                assert post(at, name, {}, token=READER)[0] == 403, name
        assert post(at, "services.list", token=READER)[0] == 200
        refused = command("services", "pause", "shop", "--at", at, MERCURY_CONSOLE_READER_TOKEN=READER)
        refused.refused("A reader may not do this", code=2)
        assert post(at, "services.pause", pause, Content_Type="text/plain")[0] == 415
        assert post(at, "services.pause", pause, Host="evil.example")[0] == 421
        assert post(at, "services.pause", pause, X_Forwarded_For="1.2.3.4")[0] == 403
        assert post(at, "audit.list") == (200, {"items": [], "after": None})


def test_a_request_that_is_not_as_it_should_be_is_refused_with_the_reason(tmp_path: Path) -> None:
    with process(f"sqlite:///{tmp_path}/shop.db") as (_, _, at):
        for call, given, status, why in (
            ("audit.list", {"limit": 1001}, 400, "limit is not a number between 1 and 1000"),
            ("audit.list", {"limit": True}, 400, "limit is not a number"),
            ("audit.list", {"after": "x"}, 400, "'x' is not from a page"),
            ("audit.list", {"after": "9" * 40}, 400, "is not from a page"),
            ("audit.list", {"by": 7}, 400, "by is not a text"),
            ("audit.list", {"bye": "x"}, 400, "there is no argument 'bye'"),
            ("dlq.list", {"direction": "up"}, 400, "direction: 'up' is not one of"),
            ("dlq.begin", {"action": "burn"}, 400, "action: 'burn' is not one of"),
            ("dlq.begin", {}, 400, "action is missing"),
            ("dlq.begin", {"action": "discard"}, 409, "no dead letter matches"),
            ("dlq.begin", {"action": "redirect"}, 400, "to is missing"),
            ("dlq.begin", {"action": "discard", "ids": ["a"]}, 400, "there is no argument 'ids'"),
            ("dlq.advance", {"id": "7"}, 409, "there is no bulk action 7"),
            ("dlq.cancel", {"id": "-1"}, 400, "is not the number of a bulk action"),
            ("messages.show", {"id": "17"}, 400, "is not a message's id"),
            ("sequences.close", {"id": "nobody"}, 409, "no sequence of this store"),
            ("services.resume", {"service": "shop"}, 409, "is not paused"),
            ("store.drop", {}, 404, "there is no call"),
            ("audit.list", b"[1]", 400, "is not {"),
            ("audit.list", b"{", 400, "is not JSON"),
            ("audit.list", b"[" * 100_000, 400, "is not JSON"),
            ("audit.list", b" " * (4 * 1024 * 1024 + 1), 413, "is larger than"),
        ):
            found, answer = post(at, call, given)
            assert (found, why in answer["error"]) == (status, True), (call, given, answer)


def test_wrong_tokens_are_limited_and_the_right_one_too_for_a_minute(tmp_path: Path) -> None:
    with process(f"sqlite:///{tmp_path}/shop.db") as (_, _, at):
        assert [post(at, "nodes.list", token="x" * 20)[0] for _ in range(6)] == [401] * 5 + [429]
        assert post(at, "nodes.list")[0] == 429


def test_no_process_answers_unless_it_is_asked_to(command: Command) -> None:
    with Shop().open() as (_, endpoint):
        at = endpoint.partition("/services/")[0]
        command("nodes", "--at", at, **AS_OPERATOR).refused("console.api", code=2)
        assert command("sequences", "list", "--at", at, **AS_OPERATOR).out == "there are no sequences\n"
        command("nodes", "--at", at).refused("MERCURY_CONSOLE_TOKEN", code=2)
        command("nodes", "--at", at, "--store", "sqlite:///x.db", **AS_OPERATOR).refused("exclude each other", code=2)
    nobody = f"http://127.0.0.1:{free_port()}"
    command("nodes", "--at", nobody, **AS_OPERATOR).refused("nothing answers", code=1)
    assert command("check", "queue", "--at", nobody, **AS_OPERATOR).code == 2
    with pytest.raises(ConfigurationError, match=r"console\.token: no client could use"):
        Mercury("memory:", settings=Settings(console=ConsoleSettings(api=True))).app()
