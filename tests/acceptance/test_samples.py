"""The samples, run as their README files say."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.processes import MERCURY, Running, Serving, each, get, python
from tests.ports import free_port

LISTENS = pytest.mark.parametrize("listen", [(), ("--listen",)], ids=["anonymous", "listening"])


def test_hello_delivers_each_greeting_once_and_in_order() -> None:
    with Serving("samples.hello.server:app") as server:
        client = python("-m", "samples.hello.client", f"{server.url}/services/hello")
        assert (client.code, client.out, client.err) == (0, "delivered\n", "")
        server.signal(signal.SIGTERM)
        ended = server.ends()
    assert ended.code == 0
    assert ended.out.splitlines()[1:] == ["Good morning!", "Good day!", "Good evening!"]


def test_hello_can_start_before_its_server() -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}/services/hello"
    with (
        Running(sys.executable, "-m", "samples.hello.client", url) as client,
        Serving("samples.hello.server:app", "--port", str(port)),
    ):
        ended = client.ends()
    assert (ended.code, ended.out) == (0, "delivered\n")


def test_relay_takes_greetings_while_the_server_is_not_there(tmp_path: Path) -> None:
    at_relay, at_server = free_port(), free_port()
    to, store = f"http://127.0.0.1:{at_server}/services/hello", f"sqlite:///{tmp_path}/edge.db"
    with Running(MERCURY, "relay", "--listen", f"127.0.0.1:{at_relay}", "--to", to, "--store", store) as relay:
        relay.says("relaying")
        client = python("-m", "samples.hello.client", f"http://127.0.0.1:{at_relay}/services/hello")
        assert (client.code, client.out) == (0, "delivered\n")
        with Serving("samples.hello.server:app", "--port", str(at_server)) as server:
            server.says("Good evening!")
            assert server.out.splitlines()[1:] == ["Good morning!", "Good day!", "Good evening!"]


@pytest.fixture(scope="module")
def shop() -> Iterator[Serving]:
    """The sample's shop and warehouse."""
    port = free_port()
    warehouse = f"http://127.0.0.1:{port}/services/warehouse"
    with Serving("samples.request_response.server:app", "--port", str(port), WAREHOUSE_URL=warehouse) as server:
        yield server


@LISTENS
def test_a_future_gets_the_response_or_the_refusal(shop: Serving, listen: tuple[str, ...]) -> None:
    client = python("-m", "samples.request_response.future_client", f"{shop.url}/services/shop", *listen)
    assert (client.code, client.err) == (0, "")
    assert client.out.splitlines() == [
        "30 tea ordered, 70 left",
        "refused: there is not enough coffee (OutOfStock)",
    ]


@LISTENS
def test_a_callback_gets_the_response_or_the_refusal(shop: Serving, listen: tuple[str, ...]) -> None:
    client = python("-m", "samples.request_response.callback_client", f"{shop.url}/services/shop", *listen)
    assert (client.code, client.err) == (0, "")
    assert client.out.splitlines() == [
        "order 1 placed: 70 tea left",
        "order 2 refused: there is not enough coffee (OutOfStock)",
    ]


def test_work_of_a_refused_order_is_rolled_back(shop: Serving) -> None:
    for _ in range(2):
        client = python("-m", "samples.request_response.callback_client", f"{shop.url}/services/shop")
        assert client.code == 0
    # Messages to the warehouse are in order, so a shipment of the first coffee would come before the last tea.
    shop.says(r"shipping[^$]*shipping 30 tea")
    assert "coffee" not in shop.out


SQUARES = ["the square of 7 is 49", "no square of -1: not below zero", "everything has arrived"]


def test_script_for_zeep_is_answered_once_and_in_order() -> None:
    with Serving("samples.zeep_client.server:app") as server:
        client = python("-m", "samples.zeep_client.client", f"{server.url}/services/squares?wsdl")
        assert (client.code, client.out.splitlines(), client.err) == (0, SQUARES, "")
        server.signal(signal.SIGTERM)
        assert server.ends().out.splitlines()[1:] == ["noted 1", "noted 2", "noted 3"]


def test_script_for_zeep_that_gets_no_answer_says_why_and_its_notes_arrive_later(tmp_path: Path) -> None:
    port = free_port()
    store, wsdl = f"sqlite:///{tmp_path}/squares.db", tmp_path / "squares.wsdl"
    with Serving("samples.zeep_client.server:app", "--port", str(port)) as server:
        wsdl.write_text(get(server.netloc, "/services/squares?wsdl")[1])
    command = ("-m", "samples.zeep_client.client", str(wsdl), "--store", store)
    ended = python(*command, "--timeout", "1")
    assert (ended.code, ended.out) == (1, "")
    (said,) = (line for line in ended.err.splitlines() if line.startswith("not answered: no response to "))
    assert "Connection refused" in said
    with Serving("samples.zeep_client.server:app", "--port", str(port)) as server:
        assert python(*command).code == 0
        server.signal(signal.SIGTERM)
        assert server.ends().out.splitlines()[1:] == ["noted 1", "noted 2", "noted 3"] * 2


def test_script_for_zeep_without_its_wsdl_says_so() -> None:
    ended = python("-m", "samples.zeep_client.client", "http://127.0.0.1:1/none?wsdl")
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.splitlines()[-1].startswith("not answered: HTTPConnectionPool")


# --- when it does not work -------------------------------------------------------------------------------------------

CLIENTS = {
    "samples.hello.client": "not delivered within 1 s: 3 still wait ({url}: Connection refused)",
    "samples.request_response.future_client": "no answer: no response to ",
    "samples.request_response.callback_client": "not answered within 1 s: 2 still wait ({url}: Connection refused)",
}


def test_a_client_that_gets_nowhere_says_why_and_fails() -> None:
    url = "http://127.0.0.1:1/services/x"
    for client, ended in each(CLIENTS, lambda client: python("-m", client, url, "--timeout", "1")):
        assert (ended.code, ended.out) == (1, "")
        said = [line for line in ended.err.splitlines() if line.startswith(CLIENTS[client].format(url=url))]
        assert len(said) == 1, ended
        assert "Connection refused" in said[0]


def test_a_client_explains_itself_and_refuses_what_is_no_url() -> None:
    for _, ended in each(CLIENTS, lambda client: python("-m", client, "--help")):
        assert (ended.code, ended.err) == (0, "")
        assert "--timeout" in ended.out
        assert "default: http://127.0.0.1:8000/services/" in ended.out
    for _, ended in each(CLIENTS, lambda client: python("-m", client, "nowhere")):
        assert (ended.code, ended.out) == (2, "")
        assert "error: not a URL to send to: 'nowhere'" in ended.err.splitlines()[-1]


def test_undelivered_hello_message_is_delivered_at_the_next_start(tmp_path: Path) -> None:
    port, store = free_port(), f"sqlite:///{tmp_path}/hello.db"
    hello = ("-m", "samples.hello.client", f"http://127.0.0.1:{port}/services/hello", "--store", store)
    assert python(*hello, "--timeout", "1").code == 1
    with Serving("samples.hello.server:app", "--port", str(port)) as server:
        assert python(*hello).code == 0
        server.signal(signal.SIGTERM)
        assert server.ends().out.splitlines()[1:] == ["Good morning!", "Good day!", "Good evening!"] * 2


def test_pair_of_members_handles_every_order_once_although_the_active_one_is_killed() -> None:
    ended = python("-m", "samples.failover", "--orders", "20")
    assert ended.code == 0, ended.err
    killed, result = ended.out.splitlines()
    assert killed == "order 10 is sent, and the active member is killed"
    assert result == "20 handled by 2 members: 0 lost, 0 repeated, in order"
