"""Mistakes of a first user: errors and log lines name the mistake, and no call blocks forever."""

from __future__ import annotations

import logging
import re
import signal
import sys
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest

from mercury import ConfigurationError, Mercury, SequenceFailed
from tests.acceptance.app import Ask, Note, Said
from tests.acceptance.processes import ROOT, Serving, eventually, python, run_by_default
from tests.ports import free_port

NOWHERE = "http://127.0.0.1:1/services/desk"

STUMBLING = """
from mercury import Mercury, Service
from tests.acceptance.app import Ask, Said

service = Service("desk")


@service.operation
def ask(question: Ask) -> Said:
    raise LookupError(f"no table for {question.text}")


app = Mercury("memory:").app(service)
"""


@pytest.fixture
def client() -> Iterator[Mercury]:
    with Mercury("memory:") as mercury:
        yield mercury


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


# --- no process listens ----------------------------------------------------------------------------------------------


def test_a_program_without_logging_gets_one_line_when_no_server_answers() -> None:
    program = (
        "from mercury import Mercury\n"
        "from tests.acceptance.app import Note\n"
        "with Mercury('memory:') as mercury:\n"
        f"    desk = mercury.to('{NOWHERE}')\n"
        "    desk.send(Note('x'))\n"
        "    print(desk.wait(timeout=3.5), desk.last_error)\n"
    )
    ended = python("-c", program)
    assert ended.out == f"1 still wait ({NOWHERE}: Connection refused) {NOWHERE}: Connection refused\n"
    refused, lost = ended.err.splitlines()
    assert refused == f"{NOWHERE}: Connection refused; what is to be sent there is tried again"
    assert "1 sent and not done" in lost


def test_recovery_of_an_endpoint_is_logged(client: Mercury, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "mercury")
    port = free_port()
    desk = client.to(f"http://127.0.0.1:{port}/services/desk")
    desk.send(Note("x"))
    eventually(lambda: desk.last_error, "the trouble is known")
    assert desk.last_error == f"{desk.endpoint}: Connection refused"
    with Serving("tests.acceptance.app:app", "--port", str(port)):
        assert desk.wait(60)
    assert desk.last_error is None
    about = [record.getMessage() for record in caplog.records if desk.endpoint in record.getMessage()]
    assert [text.partition(";")[0] for text in about] == [
        f"{desk.endpoint}: Connection refused",
        f"{desk.endpoint}: it works again",
    ]


def test_a_future_whose_time_is_over_says_why(client: Mercury) -> None:
    future = client.to(NOWHERE).request(Ask("x"), response=Said)
    for wait in (future.result, future.exception):
        with pytest.raises(TimeoutError, match=r"^no response to urn:uuid:\S+ within 1 s; .*: Connection refused$"):
            wait(timeout=1)


# --- a process listens, and makes no progress ------------------------------------------------------------------------


def test_a_future_tells_that_its_request_is_acknowledged_and_not_answered(tmp_path: Path, client: Mercury) -> None:
    (tmp_path / "shop.py").write_text(STUMBLING)
    with Serving("shop:app", cwd=tmp_path, PYTHONPATH=str(ROOT)) as server:
        future = client.to(f"{server.url}/services/desk").request(Ask("x"), response=Said)
        with pytest.raises(TimeoutError, match=r"it is acknowledged and not answered$"):
            future.result(timeout=3)


def test_a_handler_that_fails_alike_again_and_again_shows_its_trace_once(tmp_path: Path, client: Mercury) -> None:
    (tmp_path / "shop.py").write_text(STUMBLING)
    with Serving("shop:app", cwd=tmp_path, PYTHONPATH=str(ROOT)) as server:
        client.to(f"{server.url}/services/desk").request(Ask("x"), response=Said)
        eventually(lambda: "attempt=3" in server.err, "it is tried three times")
        said = server.err
    assert said.count("Traceback") == 1
    assert "ERROR mercury.engine.invocation: the handler of ask failed (" in said
    assert said.count("the handler of ask failed again: LookupError: no table for x (") >= 2


def test_refusal_by_the_peer_is_logged_once_and_is_the_senders_last_error(
    serving: Serving, client: Mercury, caplog: pytest.LogCaptureFixture
) -> None:
    desk = client.to(f"{serving.url}/services/desk")
    desk.send("<a/>", action="urn:nothing")
    eventually(lambda: desk.last_error, "the fault is known")
    assert desk.last_error is not None
    assert re.match(r"ActionNotSupported: .*'urn:nothing'", desk.last_error)
    assert not desk.wait(3.5), "the message is sent again meanwhile"
    assert len(warnings(caplog)) == 1
    assert "'urn:nothing'" in warnings(caplog)[0]
    assert client.last_error(desk.endpoint) is None, "the endpoint itself is reached"


def test_a_server_that_forgot_everything_ends_the_wait(client: Mercury, tmp_path: Path) -> None:
    """The request is acknowledged, its handler fails, and the server is killed: its store was in memory."""
    (tmp_path / "shop.py").write_text(STUMBLING)
    port = free_port()
    desk = client.to(f"http://127.0.0.1:{port}/services/desk")
    with Serving("shop:app", "--port", str(port), cwd=tmp_path, PYTHONPATH=str(ROOT)) as server:
        future: Future[Said] = desk.request(Ask("x"), response=Said)
        eventually(lambda: any(status.ranges for status in desk.status()), "it is acknowledged")
        server.signal(signal.SIGKILL)
        server.ends()
    with Serving("tests.acceptance.app:app", "--port", str(port)):
        with pytest.raises(SequenceFailed, match="no response will come"):
            future.result(timeout=60)
        assert desk.wait(60).dead == 1
        assert desk.pending == 0
        (letter,) = client.dead_letters()
        assert (letter.certainty.value, letter.action) == ("unknown", "urn:mercury:app/Ask")
        assert desk.request(Ask("again"), response=Said).result(60) == Said("you said again")


def test_an_empty_key_is_refused(client: Mercury) -> None:
    with pytest.raises(ConfigurationError, match="key"):
        client.to(NOWHERE, key="")


@pytest.mark.parametrize("port", [-1, 99999])
def test_a_port_that_is_none_is_refused(port: int) -> None:
    with pytest.raises(ConfigurationError, match=str(port)):
        Mercury("memory:").listen(port=port)


# --- which store it is -----------------------------------------------------------------------------------------------


def test_without_a_setting_messages_outlive_the_process_in_a_file_that_the_log_names(tmp_path: Path) -> None:
    program = (
        "import logging\n"
        "from mercury import Mercury\n"
        "from tests.acceptance.app import Note\n"
        "logging.basicConfig(level=logging.INFO)\n"
        "with Mercury() as mercury:\n"
        f"    desk = mercury.to('{NOWHERE}')\n"
        "    desk.send(Note('x'))\n"
        "    print(desk.pending)\n"
    )
    for pending in ("1", "2"):
        ended = run_by_default([sys.executable, "-c", program], tmp_path)
        assert (ended.code, ended.out) == (0, f"{pending}\n"), ended
        assert f"started with the store sqlite:///{tmp_path}/mercury.db" in ended.err
    assert [file.name for file in tmp_path.iterdir() if file.suffix == ".db"] == ["mercury.db"]


def test_a_program_that_asks_for_another_store_than_the_setting_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("MERCURY_STORE", "postgresql+psycopg://me:secret@db/rm")
    caplog.set_level(logging.INFO, "mercury")
    with Mercury("memory:"):
        pass
    (line,) = [record.getMessage() for record in caplog.records if "store" in record.getMessage()]
    assert line == (
        "started with the store memory:, as the program says; "
        "the setting store = postgresql+psycopg://me:***@db/rm is not used"
    )


def test_an_impossible_store_is_an_error_that_names_the_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MERCURY_STORE", "oracle:x")
    with pytest.raises(ConfigurationError, match=r"^store: .*oracle has to be followed by ://"):
        Mercury()
