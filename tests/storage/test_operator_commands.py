"""`mercury messages`, `status` and `sequences --store`: the views of a store for an operator, and the actions on it."""

from __future__ import annotations

import re
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from mercury import DestinationPolicy, LetterFilter, Mercury, Settings
from mercury.client.waiting import NotPossible, WaitingMessages
from mercury.engine.ids import RandomIds
from mercury.engine.lateness import WatchSettings
from mercury.statemachine.retransmission import RetransmissionPolicy
from mercury.storage.letters import Direction
from mercury.storage.nodes import Node
from mercury.storage.opening import open_sql_store, open_store
from mercury.storage.records import OutboundMessage
from mercury.storage.sql.overview import StoreOverview
from mercury.storage.waiting import WaitingFilter, WaitingMessage
from mercury.testing.contract.builders import buffer, inbound
from mercury.testing.contract.invoker import ONE, add, deliver, insert, read
from tests.acceptance.processes import PATIENCE, eventually, get
from tests.ports import free_port

from .conftest import Command
from .pair import ACTION, Pair, channel
from .shop import Order, Placed, Shop, settings

#: A handler that fails is tried again after a long pause.
PATIENT = DestinationPolicy(redelivery=RetransmissionPolicy(base=3600.0, cap=3600.0, jitter=0.0))


def fail_on(number: int) -> Shop:
    def before(order: Order) -> None:
        if order.id == number:
            raise LookupError(f"no stock of {number}")

    return Shop(before=before, policy=PATIENT)


@contextmanager
def stuck(url: str) -> Iterator[tuple[Shop, Mercury, Mercury]]:
    """A shop on a store in which order 2 of 3 fails; gives the shop, its Mercury and the client's."""
    shop = fail_on(2)
    with shop.open(url) as (server, endpoint), Mercury("memory:", settings=settings()) as client:
        orders = client.to(endpoint)
        for number in (1, 2, 3):
            orders.send(Order(number), operation="put")
        assert orders.wait(PATIENCE)
        eventually(lambda: [each for each in waiting(url) if each.attempts], "order 2 has failed")
        yield shop, server, client


def waiting(url: str, direction: Direction = Direction.INBOUND) -> list:
    store = open_sql_store(url)
    try:
        return WaitingMessages(store, time.time).find(direction, WaitingFilter(), 100)
    finally:
        store.close()


# --- one poison message --------------------------------------------------------------------------------------------


def test_a_poison_message_is_seen_with_its_error_and_parked_and_the_rest_goes_on(
    sql_url: str, command: Command
) -> None:
    with stuck(sql_url) as (shop, server, _):
        ended = command("messages", "list", "--store", sql_url, "-o", "json")
        poison, behind = sorted(ended.value, key=lambda each: each["number"])  # they may have come in any order
        assert (poison["number"], poison["attempts"], poison["first"]) == (2, 1, True)
        assert poison["last_error"] == "LookupError: no stock of 2"
        assert poison["next_try"] > time.time() + 1000
        assert (behind["number"], behind["state"], behind["attempts"]) == (3, "waits for number 2", 0)
        shown = command("messages", "show", poison["id"], "--store", sql_url, "-o", "json").value
        assert "<id>2</id>" in shown["body"].replace("ns0:", "")

        refused = command("messages", "park", behind["id"], "--store", sql_url)
        refused.refused("it is not its turn", code=1)
        parked = command("messages", "park", poison["id"], "--store", sql_url)
        assert (parked.code, parked.out) == (0, f"{poison['id']} parked: it is a dead letter\n")
        eventually(lambda: shop.orders == [1, 3], "the rest goes on")
        (letter,) = server.dead_letters()
        assert letter.reason == "parked by an operator after 1 failed try: LookupError: no stock of 2"
        assert command("messages", "list", "--store", sql_url).out == "nothing waits\n"
        command("messages", "show", poison["id"], "--store", sql_url).refused("is not waiting", code=1)


def test_a_message_that_fails_is_tried_again_at_once(sql_url: str, command: Command) -> None:
    with stuck(sql_url) as (shop, _, _):
        shop.before = lambda _order: None
        (poison,) = (each for each in waiting(sql_url) if each.first)
        assert command("messages", "retry", poison.id, "--store", sql_url).out == f"{poison.id} is due now\n"
        eventually(lambda: shop.orders == [1, 2, 3], "it is handled now, not in an hour")


def test_client_of_a_parked_request_gets_a_fault(sql_url: str, command: Command) -> None:
    with fail_on(1).open(sql_url) as (_, endpoint), Mercury("memory:", settings=settings()) as client:
        future = client.to(endpoint).request(Order(1), operation="ask", response=Placed)
        eventually(lambda: [each for each in waiting(sql_url) if each.attempts], "it has failed")
        assert command("messages", "park", waiting(sql_url)[0].id, "--store", sql_url).code == 0
        assert "could not be processed" in str(future.exception(PATIENCE))


def test_a_message_that_is_with_its_handler_is_parked_and_what_the_handler_did_is_rolled_back(
    postgres_url: str,
) -> None:
    """The handler delays no other message, and what it was about to commit is not committed.

    In a SQLite file, which has one writer, the change waits for the handler.
    """
    begun, goes_on = threading.Event(), threading.Event()

    def before(order: Order) -> None:
        if order.id == 1:
            begun.set()
            assert goes_on.wait(PATIENCE)

    shop = Shop(before=before, policy=PATIENT)
    with shop.open(postgres_url) as (server, endpoint), Mercury("memory:", settings=settings()) as client:
        orders = client.to(endpoint)
        orders.send(Order(1), operation="put")
        orders.send(Order(2), operation="put")
        assert begun.wait(PATIENCE)
        assert orders.wait(PATIENCE)
        store = open_sql_store(postgres_url)
        try:
            messages = WaitingMessages(store, time.time)
            (first,) = (each for each in messages.find(Direction.INBOUND, WaitingFilter(), 10) if each.first)
            messages.park(Direction.INBOUND, first.position)
        finally:
            store.close()
        goes_on.set()
        eventually(lambda: shop.orders == [2], "the rest goes on")
        eventually(lambda: len(server.dead_letters()) == 1, "it is a dead letter")


def test_a_message_that_is_handled_while_an_operator_parks_it_stays_handled(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise its number would be being parked for ever, and no other one of its sequence could be parked."""
    stores = [open_sql_store(postgres_url), open_sql_store(postgres_url)]
    insert(stores[0], buffer(ONE))
    add(stores[0], inbound(1), inbound(2))
    real, delivered = StoreOverview.inbound, list[int]()

    def then_it_is_delivered(looking: StoreOverview, which: WaitingFilter, limit: int) -> list[WaitingMessage]:
        found = real(looking, which, limit)
        if not delivered:
            delivered.append(1)
            deliver(stores[1], 1)
        return found

    (first, _) = waiting(postgres_url)
    monkeypatch.setattr(StoreOverview, "inbound", then_it_is_delivered)
    try:
        with pytest.raises(NotPossible, match="does not wait any more"):
            WaitingMessages(stores[0], time.time).park(Direction.INBOUND, first.position)
        assert delivered == [1]
        assert read(stores[0]).parked is None
    finally:
        for store in stores:
            store.close()


def test_a_message_is_parked_at_the_next_start_when_nothing_runs(sql_url: str, command: Command) -> None:
    with stuck(sql_url):
        pass
    (poison,) = (each for each in waiting(sql_url) if each.first)
    store = open_sql_store(sql_url)
    WaitingMessages(store, time.time).park(Direction.INBOUND, poison.position)
    store.close()
    assert [each.state for each in waiting(sql_url) if each.first] == ["is being parked"]
    shop = fail_on(2)
    with shop.open(sql_url):
        eventually(lambda: shop.orders == [3], "it goes on behind it")


# --- what is sent --------------------------------------------------------------------------------------------------


def test_waiting_messages_are_listed_by_page_and_retried_at_once(sql_url: str, command: Command) -> None:
    store = open_sql_store(sql_url)
    pair = Pair(store, open_store("memory:"))
    pair.send(["a", "b", "c"])
    now = time.time() + 1000.0  # no pause ends while the commands run
    created = pair.client.turn(now)[1]
    answers = pair.client.engine.receive(pair.carry(created, now), now)
    assert sum(len(answer.posts) for answer in answers) == 3
    first = command("messages", "list", "--store", sql_url, "--limit", "2", "-o", "json")
    assert [(each["number"], each["attempts"], each["state"]) for each in first.value] == [
        (1, 1, "sent, not acknowledged"),
        (2, 1, "sent, not acknowledged"),
    ]
    last = first.value[-1]["id"]
    assert first.err == f"there are more: --after {last}\n"
    rest = command("messages", "list", "--store", sql_url, "--after", last, "-o", "json")
    assert [each["number"] for each in rest.value] == [3]
    assert pair.client.turn(now)[1] == []
    assert command("messages", "retry", last, "--store", sql_url).code == 0
    posts = pair.client.turn(now)[1]
    assert [post.number for post in posts] == [2]
    command("messages", "park", last, "--store", sql_url).refused("number 2", "terminate", code=1)
    store.close()


def test_the_list_says_why_nothing_moves_until_it_moves(sql_url: str, command: Command) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}/services/shop"
    listed = ("messages", "list", "--store", sql_url, "--output", "json")
    with Mercury(sql_url, settings=settings()) as client:
        sender = client.to(url)
        sender.send(Order(1), operation="put")

        def errors() -> list[str]:
            return [each["last_error"] for each in command(*listed).value]

        eventually(lambda: errors() == [f"{url}: Connection refused"], "the list says it")
        assert errors() == [sender.last_error]
    assert errors() == [f"{url}: Connection refused"]  # without a process too
    shop = Shop()
    with shop.open(port=port), Mercury(sql_url, settings=settings()) as client:
        eventually(lambda: shop.orders == [1], "it is handled")
        sender = client.to(url)
        assert sender.wait(30)
        sender.send(Order(2), operation="put")
        eventually(lambda: not any(each.last_error for each in sender.status()), "nothing is in the way any more")


def test_a_message_without_a_number_is_parked_here_and_now(sql_url: str, command: Command) -> None:
    store = open_sql_store(sql_url)
    with store.transaction() as tx:
        for text in ("a", "b"):
            row = OutboundMessage(message_id=RandomIds().new(), channel=channel(), action=ACTION)
            row.payload = f"<order>{text}</order>".encode()
            tx.rms.append(row)
    first, second = WaitingMessages(store, time.time).find(Direction.OUTBOUND, WaitingFilter(), 10)
    assert first.state == "waits for a number"
    assert command("messages", "park", first.id, "--store", sql_url).code == 0
    with store.transaction() as tx:
        (letter,) = tx.dead_letters.find(LetterFilter())
    assert (letter.payload, letter.reason) == (b"<order>a</order>", "parked by an operator")
    assert [each.id for each in WaitingMessages(store, time.time).find(Direction.OUTBOUND, WaitingFilter(), 10)] == [
        second.id
    ]
    with pytest.raises(NotPossible):
        WaitingMessages(store, time.time).park(Direction.OUTBOUND, first.position)
    store.close()


def test_times_of_a_message_are_shown_and_a_parked_one_holds_back_no_other(sql_url: str, command: Command) -> None:
    later, shop = time.time() + 3600, Shop()
    with shop.open("memory:") as (_, endpoint), Mercury(sql_url, settings=settings()) as client:
        orders = client.to(endpoint)
        orders.send(Order(1), operation="put", not_before=later, expires_at=later + 60)
        orders.send(Order(2), operation="put", expires_in=7200)
        eventually(lambda: orders.status(), "the first message holds the second back")
        first, second = waiting(sql_url, Direction.OUTBOUND)
        assert (first.state, first.next_try, first.expires_at) == ("waits for its time", later, later + 60)
        assert (second.state, second.not_before) == ("waits for a number", None)
        shown = command("messages", "show", first.id, "--store", sql_url, "-o", "json").value
        assert (shown["not_before"], shown["expires_at"]) == (later, later + 60)
        said = command("messages", "show", first.id, "--store", sql_url)
        assert "not before" in said.out
        assert "expires at" in said.out
        assert command("messages", "park", first.id, "--store", sql_url).code == 0
        eventually(lambda: shop.orders == [2], "the second one is sent")


def test_a_message_that_waits_for_its_time_makes_no_store_degraded(sql_url: str, command: Command) -> None:
    with Mercury(sql_url, settings=settings()) as client:
        client.to("http://127.0.0.1:9/none").send(Order(1), operation="put", not_before=time.time() + 3600)
    status = command("status", "--store", sql_url, "-o", "json", MERCURY_WATCH_UNACKNOWLEDGED="0.001")
    assert (status.code, status.value["status"], status.value["unacknowledged"]) == (0, "ok", 1)
    check = command("check", "store", "--store", sql_url, MERCURY_WATCH_UNACKNOWLEDGED="0.001")
    assert (check.code, check.out.strip()) == (0, "OK - nothing is wrong")


def test_the_status_says_what_the_check_of_the_store_finds(sql_url: str, command: Command) -> None:
    with stuck(sql_url):
        pass
    found = command("status", "--store", sql_url)
    assert found.code == 0
    assert "warning: service shop: 1 sequence is held back by a message that its handler refuses" in found.out


def test_check_with_an_age_that_is_none_is_unknown_and_no_alarm(tmp_path: Path, command: Command) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    command("check", "queue", "--store", url, "--max-age", "5x").refused("--max-age", "'5x'", code=3)


# --- services --------------------------------------------------------------------------------------------------------


def test_pause_of_a_name_that_nobody_hosts_and_nothing_waits_for_is_done_with_a_note(
    tmp_path: Path, command: Command
) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    with Shop().open(url):
        misspelt = command("services", "pause", "shpo", "--store", url)
        assert (misspelt.code, misspelt.out) == (0, "shpo is paused: what it receives waits\n")
        assert misspelt.err.startswith("note: nothing waits for shpo, and no running process hosts it: ")
        eventually(lambda: "shop" in command("services", "list", "--store", url).out, "the process says what it hosts")
        hosted = command("services", "pause", "shop", "--store", url, "-o", "json")
        assert (hosted.value, hosted.err) == ({"service": "shop", "known": True, "paused": True}, "")
        command("services", "pause", "shpo", "--store", url).refused("is paused already", code=1)


def test_pause_of_a_service_that_does_not_run_and_has_messages_has_no_note(tmp_path: Path, command: Command) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    with stuck(url):
        pass
    assert command("services", "pause", "shop", "--store", url).err == ""


# --- the whole store -----------------------------------------------------------------------------------------------


def test_the_status_needs_no_process_and_turns_degraded(sql_url: str, command: Command) -> None:
    with stuck(sql_url):
        pass
    fresh = command("status", "--store", sql_url, "-o", "json")
    assert (fresh.code, fresh.value["status"], fresh.value["unhandled"]) == (0, "ok", 2)
    (service,) = fresh.value["inbound"]
    assert (service["service"], service["unhandled"], service["failing"]) == ("shop", 2, 1)
    late = command("status", "--store", sql_url, MERCURY_WATCH_UNHANDLED="0.001")
    assert late.code == 1
    assert "degraded: a received message is not handled after" in late.out
    assert "of these failing" in late.out


def test_the_status_counts_what_waits_for_each_endpoint(sql_url: str, command: Command) -> None:
    with Mercury(sql_url, settings=settings()) as client:
        for key in ("a", "a", "b"):
            client.to("http://127.0.0.1:1/services/shop", key=key).send(Order(1), operation="put")
    found = command("status", "--store", sql_url, "-o", "json").value
    assert found["unacknowledged"] == 3
    assert sorted((each["key"], each["unacknowledged"]) for each in found["outbound"]) == [("a", 2), ("b", 1)]
    assert {each["endpoint"] for each in found["outbound"]} == {"http://127.0.0.1:1/services/shop"}


def test_a_process_says_that_it_is_degraded_and_takes_messages_all_the_same(any_url: str) -> None:
    shop = fail_on(1)
    watch = WatchSettings(unhandled=0.05)
    with shop.open(any_url, watch=watch) as (_, endpoint), Mercury("memory:", settings=settings()) as client:
        netloc = endpoint.split("/")[2]
        assert '"status":"ok"' in get(netloc, "/readyz")[1]
        client.to(endpoint).send(Order(1), operation="put")
        status, body = _degraded(netloc)
        assert status == 200
        assert "a received message is not handled after" in body


def _degraded(netloc: str) -> tuple[int, str]:
    eventually(lambda: "degraded" in get(netloc, "/readyz")[1], "it is degraded")
    return get(netloc, "/readyz")


def test_the_sequences_of_a_store_are_listed_without_a_process_in_true_words(sql_url: str, command: Command) -> None:
    with stuck(sql_url) as (_, _, client):
        client.to(f"{client.sequences()[0].endpoint}").close()
        eventually(lambda: "ended" in command("sequences", "list", "--store", sql_url).out, "the client has ended it")
    listed = command("sequences", "list", "--store", sql_url, "--active")
    line = next(line for line in listed.out.splitlines() if "destination" in line)
    assert "ended, all received, 2 not handled yet" in line
    assert "no stock of 2" in line


def test_only_active_sequences_are_listed_with_the_option(sql_url: str, command: Command) -> None:
    shop = Shop()
    with shop.open(sql_url) as (_, endpoint), Mercury("memory:", settings=settings()) as client:
        orders = client.to(endpoint)
        orders.send(Order(1), operation="put")
        orders.close()
        assert orders.wait(PATIENCE)
        eventually(lambda: shop.orders == [1], "it is handled")
        assert len(command("sequences", "list", "--store", sql_url, "-o", "json").value) >= 1
        eventually(
            lambda: command("sequences", "list", "--store", sql_url, "--active", "-o", "json").value == [], "it is over"
        )


def test_a_store_that_was_never_used_is_an_error(tmp_path: Path, command: Command) -> None:
    for words in (("messages", "list"), ("status",), ("sequences", "list")):
        command(*words, "--store", f"sqlite:///{tmp_path}/none.db").refused("there is no store", code=1)


def test_sequences_are_those_of_the_configured_store(sql_url: str, command: Command) -> None:
    with stuck(sql_url):
        pass
    configured = {"MERCURY_STORE": sql_url}
    (destination,) = command("sequences", "list", "--side", "destination", "-o", "json", **configured).value
    shown = command("sequences", "show", destination["identifier"], **configured).out
    facts = dict(line.split("  ", 1) for line in shown.splitlines() if "  " in line)
    assert facts["direction"].strip() == "this side receives messages for the service shop"
    assert "no stock of 2" in facts["why"]
    assert facts["waiting"].strip() == "2 messages are not handled yet"
    assert "timeline" not in facts
    both = command("sequences", "list", "--store", sql_url, "--at", "http://127.0.0.1:1")
    both.refused("exclude each other", code=2)


def test_the_sequence_that_a_killed_process_works_on_says_when_its_claim_ends(sql_url: str, command: Command) -> None:
    with stuck(sql_url):
        pass
    (destination,) = command("sequences", "list", "--side", "destination", "-o", "json", "--store", sql_url).value
    store = open_sql_store(sql_url)
    now = time.time()
    assert store.claim(f"invoker {destination['identifier']}", "gone", now, 20.0) is not None
    store.note_node(Node(id="gone", host="h", pid=1, version="1", started_at=now, seen_at=now - 10))
    store.close()
    shown = command("sequences", "show", destination["identifier"], "--store", sql_url).out
    assert re.search(r"h:1, heard 1\d s ago; its claim \(epoch \d+\) ends in \d+ s unless it is renewed", shown), shown


def test_content_of_a_stage_is_not_called_unhandled(tmp_path: Path, command: Command) -> None:
    url = f"sqlite:///{tmp_path}/stage.db"
    open_sql_store(url).close()
    staged = command("status", "--store", url, MERCURY_STAGE_STORE=url).out
    assert "in the stage, not yet moved" in staged
    assert "handled" not in staged
    assert "received, not handled" in command("status", "--store", url).out


def test_long_lists_of_addresses_are_shortened_for_people_only(tmp_path: Path, command: Command) -> None:
    sql_url = f"sqlite:///{tmp_path}/store.db"
    with Mercury(sql_url, settings=settings()) as client:
        members = ",".join(f"http://127.0.0.1:{port}/services/shop" for port in range(1, 6))
        client.to(f"failover:({members})").send(Order(1), operation="put")
        eventually(client.sequences, "there is a sequence")
    for words in (("messages", "list"), ("sequences", "list"), ("status",)):
        text = command(*words, "--store", sql_url).out
        assert "…" in text
        assert members not in text
        assert members in command(*words, "--store", sql_url, "-o", "json").out
    assert members in command("sequences", "list", "--wide", "--store", sql_url).out


def test_a_process_says_soon_that_its_store_is_locked(tmp_path: Path) -> None:
    shop = Shop()
    file = tmp_path / "store.db"
    store = open_sql_store(f"sqlite:///{file}", lock_timeout=0.3)
    with shop.open(store) as (_, endpoint), Mercury("memory:", settings=settings()) as client:
        netloc = endpoint.split("/")[2]
        with closing(sqlite3.connect(file, isolation_level=None)) as locking:
            locking.execute("begin immediate").close()
            client.to(endpoint).send(Order(1), operation="put")
            status, body = _degraded(netloc)
            assert status == 200
            assert "the store fails, locked or away" in body
            locking.execute("rollback").close()


def test_the_future_of_a_request_that_another_process_has_ended_says_so(sql_url: str) -> None:
    with Mercury(sql_url, settings=settings()) as client:
        future = client.to("http://127.0.0.1:9/none").request(Order(1), operation="ask", response=Placed)
        store = open_sql_store(sql_url)
        try:
            with store.transaction() as tx:
                (row,) = (each.message_id for each in StoreOverview(tx).outbound(WaitingFilter(), 10))
                tx.rms.discard([found for found in (tx.rms.row(row),) if found is not None])
        finally:
            store.close()
        with pytest.raises(TimeoutError, match=r"another process on the store.*use request_with_callback"):
            future.result(0.01)


def test_ages_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match="unhandled"):
        Settings(watch=WatchSettings(unhandled=0.0))
