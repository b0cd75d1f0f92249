"""``mercury serve``: starts, serves, and ends without losing a message."""

from __future__ import annotations

import json
import signal
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from mercury import Mercury
from tests.acceptance.app import Note, Said, Slow
from tests.acceptance.processes import MERCURY, ROOT, Ended, Running, Serving, each, eventually, get, mercury
from tests.acceptance.test_endpoint import SOAP12, head, read_reply

SIGNALS = pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)


def test_it_takes_connections_when_it_says_so() -> None:
    with Serving() as server:
        assert get(server.netloc, "/healthz") == (200, '{"status":"ok"}')
        assert get(server.netloc, "/readyz") == (200, '{"status":"ok","workers":"ok","store":"ok"}')
        assert server.out == f"serving tests.acceptance.app:app at {server.url} (Ctrl-C ends it)\n"


def test_its_json_is_one_line() -> None:
    with Serving("tests.acceptance.app:app", "--output", "json") as server:
        said = json.loads(server.out)
        assert said["url"] == server.url
        server.signal(signal.SIGTERM)
        assert server.ends().code == 0
    assert server.out.count("\n") == 1


def test_it_serves_what_a_factory_makes(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(
        "from fastapi import FastAPI\n"
        "from mercury import Mercury, Service\n"
        "from tests.acceptance.app import Note\n"
        "service = Service('shop')\n"
        "@service.operation\n"
        "def note(what: Note) -> None: ...\n"
        "def make():\n"
        "    mercury = Mercury()\n"
        "    app = FastAPI(lifespan=mercury.lifespan)\n"
        "    app.include_router(mercury.router(service))\n"
        "    app.include_router(mercury.status_router())\n"
        "    return app\n"
    )
    with Serving("shop:make", cwd=tmp_path, PYTHONPATH=str(ROOT)) as server:
        assert get(server.netloc, "/readyz")[0] == 200
        assert get(server.netloc, "/services/shop")[0] == 405


def test_the_named_settings_reach_the_application(tmp_path: Path) -> None:
    """Not only host, port and logs: the store and the limits too, also when the application changes the folder."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "shop.toml").write_text(
        f"store = 'sqlite:///{tmp_path}/orders.db'\n"
        "[engine]\nmax_outbound_backlog = 77\n[http]\nback_channel_wait = 0.5\n"
    )
    (tmp_path / "shop.py").write_text(
        "import os\n"
        "from mercury import Mercury, Service\n"
        "from tests.acceptance.app import Note\n"
        "os.chdir('elsewhere')\n"
        "service = Service('shop')\n"
        "@service.operation\n"
        "def note(what: Note) -> None: ...\n"
        "mercury = Mercury()\n"
        "app = mercury.app(service)\n"
        "@app.get('/settings')\n"
        "def settings() -> list[float]:\n"
        "    return [mercury.max_outbound_backlog, mercury.back_channel_wait]\n"
    )
    command = (MERCURY, "serve", "shop:app", "--port", "0", "--config", "shop.toml")
    with Running("env", "-u", "MERCURY_STORE", *command, cwd=tmp_path, PYTHONPATH=str(ROOT)) as server:
        netloc = server.says(r"http://([^\s\"]+)")
        assert get(netloc, "/settings") == (200, "[77.0,0.5]")
        assert (tmp_path / "orders.db").exists()


# --- the end -------------------------------------------------------------------------------------------------------


@SIGNALS
def test_a_signal_ends_it_in_order(number: signal.Signals) -> None:
    # It does not wait until its deadline, which is far away.
    with Serving(MERCURY_HTTP_SHUTDOWN_DEADLINE="3600") as server:
        server.signal(number)
        ended = server.ends()
    assert (ended.code, ended.err) == (0, "")


@SIGNALS
def test_a_body_that_is_half_there_ends_without_a_traceback(number: signal.Signals) -> None:
    with Serving(MERCURY_HTTP_SHUTDOWN_DEADLINE="1") as server, server.connection() as peer:
        peer.sendall(head(SOAP12, "Content-Length: 100") + b"<half")
        with server.connection() as other:  # in the order in which they come: it is read by now
            other.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            assert read_reply(other).status == 200
        server.signal(number)
        ended = server.ends()
    assert ended.code == 0
    assert "Traceback" not in ended.err
    assert "Exception in ASGI application" not in ended.err


def test_a_request_in_flight_is_answered_before_the_end() -> None:
    with Serving() as server, Mercury() as client:
        future = client.to(f"{server.url}/services/desk").request(Slow("done", 1.0), response=Said)
        eventually(lambda: get(server.netloc, "/begun")[1] == "[1.0]", "the handler begins")
        server.signal(signal.SIGTERM)
        assert future.result(timeout=30) == Said("done")
        assert server.ends().code == 0


def test_acknowledged_messages_were_delivered_when_a_sequence_ends_amid_messages(tmp_path: Path) -> None:
    """Messages acknowledged only at delivery are safe without a durable store: the client keeps the others."""
    journal = tmp_path / "journal"
    journal.touch()
    settings: dict[str, Any] = {
        "MERCURY_HTTP_SHUTDOWN_DEADLINE": "3600",  # it does not wait for that
        "MERCURY_DESTINATION_ACKNOWLEDGE_AT": "delivery",
        "JOURNAL": str(journal),
        "PAUSE": "0.005",
    }
    with Serving(**settings) as server, Mercury() as client:
        desk = client.to(f"{server.url}/services/desk")
        for number in range(1, 301):
            desk.send(Note(str(number)))
        eventually(journal.read_text, "the first message is delivered")
        server.signal(signal.SIGTERM)
        ended = server.ends()
        (sequence,) = desk.status()
        pending = desk.pending
    assert ended.code == 0
    delivered = [int(line) for line in journal.read_text().splitlines()]
    acknowledged = sum(high - low + 1 for low, high in sequence.ranges)
    assert delivered == list(range(1, len(delivered) + 1))
    assert acknowledged <= len(delivered) < 300
    assert acknowledged + pending == 300


def test_a_handler_that_does_not_end_is_left_behind_after_the_deadline() -> None:
    settings = {"MERCURY_HTTP_SHUTDOWN_DEADLINE": "1", "MERCURY_HTTP_BACK_CHANNEL_WAIT": "0.1"}
    with Serving(**settings) as server, Mercury() as client:
        client.to(f"{server.url}/services/desk").request(Slow("late", 3600.0), response=Said)
        eventually(lambda: get(server.netloc, "/begun")[1] == "[3600.0]", "the handler begins")
        server.signal(signal.SIGTERM)
        ended = server.ends()  # long before the handler would
    assert ended.code == 0
    assert "left behind" in ended.err
    assert "the handler of slow with message " in ended.err, "the log names the handler that was running"
    assert "number 1 of " in ended.err
    assert "lost with the store" in ended.err


def test_a_handler_that_holds_the_stores_lock_does_not_hold_up_the_end(tmp_path: Path) -> None:
    """With SQLite no other thread can write meanwhile, not even to release the claims."""
    (tmp_path / "shop.py").write_text(
        "import time\n"
        "from mercury import Mercury, Service, Transaction\n"
        "from sqlalchemy import text\n"
        "from tests.acceptance.app import Note\n"
        "service = Service('desk')\n"
        "begun = []\n"
        "@service.operation\n"
        "def note(what: Note, tx: Transaction) -> None:\n"
        "    tx.connection().execute(text('create table if not exists mine (id integer)'))\n"
        "    begun.append(1)\n"
        "    time.sleep(60)\n"
        "app = Mercury('sqlite:///server.db').app(service)\n"
        "@app.get('/begun')\n"
        "def begun_so_far() -> list[int]:\n"
        "    return begun\n"
    )
    environment = {"PYTHONPATH": str(ROOT), "MERCURY_HTTP_SHUTDOWN_DEADLINE": "2"}
    with Serving("shop:app", cwd=tmp_path, **environment) as server:
        with Mercury() as client:
            client.to(f"{server.url}/services/desk").send(Note("x"))
            eventually(lambda: get(server.netloc, "/begun")[1] == "[1]", "the handler begins")
            begun = time.monotonic()
            server.signal(signal.SIGTERM)
            ended = server.ends()
        took = time.monotonic() - begun
    assert (ended.code, took < 45) == (0, True), f"{took:.1f} s"
    assert "the handler of note with message " in ended.err
    assert "handled again at the next start" in ended.err


# --- what cannot be served ----------------------------------------------------------------------------------------


NO_APPLICATIONS = {
    "shop": ("'shop'", "MODULE:APP"),
    ":app": ("':app'", "MODULE:APP"),
    "shop:": ("'shop:'", "MODULE:APP"),
    "nowhere:app": ("no module 'nowhere'",),
    "[/nowhere]:app": ("no module '[/nowhere]'",),
    "..shop:app": ("'..shop'", "not the full name"),
    "tests.acceptance.app:nothing": ("'tests.acceptance.app'", "no 'nothing'"),
    "tests.acceptance.app:service": ("Service", "not an application"),
    "tests.acceptance.app:Note": ("tests.acceptance.app:Note() failed: TypeError", "'text'"),
    "os:getcwd": ("os:getcwd() makes a str",),
    "broken:app": ("broken cannot be imported: ZeroDivisionError", "broken.py:2"),
    "syntax:app": ("syntax cannot be imported: SyntaxError", "syntax.py, line 1"),
    "needy:app": ("no module 'not_installed'",),
    "empty:app": ("'empty' has no operation",),
}


def test_target_that_is_no_application_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("x = 1\nx / 0\n")
    (tmp_path / "syntax.py").write_text("x = (\n")
    (tmp_path / "needy.py").write_text("import not_installed\n")
    (tmp_path / "empty.py").write_text("from mercury import *\napp = Mercury().app(Service('empty'))\n")

    def serve(target: str) -> Ended:
        return mercury("serve", target, "--port", "0", cwd=tmp_path, PYTHONPATH=str(ROOT))

    for target, ended in each(NO_APPLICATIONS, serve):
        ended.refused(*NO_APPLICATIONS[target])


def test_a_port_in_use_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = mercury("serve", "tests.acceptance.app:app", "--port", str(port))
    ended.refused(f"127.0.0.1:{port}", "in use")


def test_an_application_that_does_not_start_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(
        "from contextlib import asynccontextmanager\n"
        "from fastapi import FastAPI\n"
        "@asynccontextmanager\n"
        "async def lifespan(app):\n"
        "    raise ValueError('the database is down')\n"
        "    yield\n"
        "app = FastAPI(lifespan=lifespan)\n"
    )
    with Running(MERCURY, "serve", "shop:app", "--port", "0", cwd=tmp_path) as server:
        ended = server.ends()
    assert (ended.code, ended.out) == (1, "")
    assert "the database is down" in ended.err


NONSENSE = {
    ("MERCURY_HTTP_PORT", "x"): ("MERCURY_HTTP_PORT", "'x'", "whole number"),
    ("MERCURY_HTTP_PROT", "1"): ("MERCURY_HTTP_PROT", "MERCURY_HTTP_PORT"),
    ("MERCURY_HTTP_TIMEOUT", "-1"): ("timeout",),
    ("MERCURY_LOG_LEVEL", "loud"): ("log.level", "'loud'"),
    ("MERCURY_STORE", "oracle:x"): ("oracle has to be followed by ://",),
    ("MERCURY_ADDRESS", "here"): ("address", "'here'", "http://host:port"),
    ("MERCURY_RUNTIME_SENDERS", "0"): ("senders",),
    ("MERCURY_CONFIG", "/nowhere.toml"): ("/nowhere.toml", "No such file"),
}


def test_settings_that_make_no_sense_are_named() -> None:
    def serve(setting: tuple[str, str]) -> Ended:
        settings: dict[str, Any] = dict([setting])
        return mercury("serve", "tests.acceptance.app:app", "--port", "0", **settings)

    for setting, ended in each(NONSENSE, serve):
        ended.refused(*NONSENSE[setting])
