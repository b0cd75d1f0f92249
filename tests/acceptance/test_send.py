"""``mercury send``: one message from the command line, and the errors of the command."""

from __future__ import annotations

import http.server
import json
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.processes import (
    MERCURY,
    Ended,
    Running,
    Serving,
    each,
    eventually,
    get,
    mercury,
    run_by_default,
)

NOTE = '<Note xmlns="urn:mercury:app"><text>{}</text></Note>'
ASK = '<Ask xmlns="urn:mercury:app"><text>{}</text></Ask>'
ACTION = "urn:mercury:app/"


@pytest.fixture
def desk(serving: Serving) -> str:
    return f"{serving.url}/services/desk"


def ask(desk: str, text: str, *options: str) -> Ended:
    return mercury("send", desk, "--body", ASK.format(text), "--action", ACTION + "Ask", "--request", *options)


def test_a_message_is_acknowledged(desk: str, serving: Serving) -> None:
    ended = mercury("send", desk, "--body", NOTE.format("by hand"), "--action", ACTION + "Note")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith("acknowledged: urn:uuid:")
    eventually(lambda: "by hand" in noted(serving), "the message is delivered")


def test_its_json_says_what_was_sent(desk: str) -> None:
    ended = mercury("send", desk, "--body", NOTE.format("x"), "--action", ACTION + "Note", "--key", "k", "-o", "json")
    assert (ended.code, ended.err) == (0, "")
    value = ended.value
    assert value.pop("message_id").startswith("urn:uuid:")
    assert value == {"endpoint": desk, "key": "k", "acknowledged": True}


def test_the_response_is_printed(desk: str) -> None:
    ended = ask(desk, "[bold]a:100:b\ttill:bank:5[/bold]")  # none of it is for the terminal
    assert (ended.code, ended.err) == (0, "")
    assert ended.out == '<Said xmlns="urn:mercury:app"><text>you said [bold]a:100:b\ttill:bank:5[/bold]</text></Said>\n'


def test_the_response_is_a_value(desk: str) -> None:
    ended = ask(desk, "hello", "--output", "json")
    assert ended.code == 0
    assert ended.value == {"response": '<Said xmlns="urn:mercury:app"><text>you said hello</text></Said>'}


def test_the_versions_can_be_chosen(desk: str) -> None:
    versions = (
        ("--rm", "1.0", "--addressing", "2004/08", "--soap", "1.1"),
        ("--rm", "1.0"),
        ("--rm", "1.1", "--soap", "1.1"),
        ("--rm", "1.2"),
    )
    for _, ended in each(versions, lambda chosen: ask(desk, "hello", *chosen)):
        assert (ended.code, ended.err) == (0, "")
        assert "you said hello" in ended.out


def test_a_body_comes_from_a_file_or_from_standard_input(desk: str, serving: Serving, tmp_path: Path) -> None:
    (tmp_path / "note.xml").write_text(NOTE.format("from a file"))
    for body, given in ((f"@{tmp_path / 'note.xml'}", ""), ("-", NOTE.format("from stdin"))):
        assert mercury("send", desk, "--body", body, "--action", ACTION + "Note", given=given).code == 0
    eventually(lambda: {"from a file", "from stdin"} <= set(noted(serving)), "both are delivered")


def test_a_request_whose_response_nobody_wants_is_still_acknowledged(desk: str) -> None:
    ended = mercury("send", desk, "--body", ASK.format("x"), "--action", ACTION + "Ask")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith("acknowledged: ")


# --- the command runs, and its result is a failure -----------------------------------------------------------------


def test_an_application_fault_is_a_failure(desk: str) -> None:
    ask(desk, "[/nonsense]").refused("the answer is a fault: that is [/nonsense] (Nonsense)", code=1)


def test_an_application_fault_is_a_value_too(desk: str) -> None:
    ended = ask(desk, "[/nonsense]", "--output", "json")
    assert ended.code == 1
    fault = {"code": "Nonsense", "reason": "that is [/nonsense]", "detail": "<why>because</why>"}
    assert ended.value == {"fault": fault}


def test_a_refused_connection_is_printed_at_once_and_fails_in_time() -> None:
    url = "http://127.0.0.1:1/services/desk"
    arguments = ("send", url, "--body", "<a/>", "--action", "a", "--timeout", "1")
    for request, ended in each(((), ("--request",)), lambda request: mercury(*arguments, *request)):
        assert (ended.code, ended.out) == (1, "")
        first, last = ended.err.splitlines()
        assert first == f"not done yet: {url}: Connection refused; trying again"
        assert last == f"error: not {'answered' if request else 'acknowledged'} in time: {url}: Connection refused"


def test_a_host_that_does_not_exist_is_named() -> None:
    url = "http://no-such-host.invalid/"
    ended = mercury("send", url, "--body", "<a/>", "--action", "a", "--timeout", "1")
    assert ended.code == 1
    assert ended.err.splitlines()[-1].startswith(f"error: not acknowledged in time: {url}: ")
    assert "Errno" not in ended.err


def test_the_peers_fault_about_an_unknown_action_is_shown(desk: str) -> None:
    arguments = ("send", desk, "--body", "<a/>", "--action", "urn:nothing", "--timeout", "2")
    cases = ((), ("--request",), ("--rm", "1.0", "--soap", "1.1"))
    for _, ended in each(cases, lambda options: mercury(*arguments, *options)):
        assert (ended.code, ended.out) == (1, "")
        first, last = ended.err.splitlines()
        assert first.startswith("not done yet: ActionNotSupported: ")
        assert "'urn:nothing'" in first
        assert "in time: ActionNotSupported: " in last


def test_a_body_that_does_not_fit_is_the_handlers_answer(desk: str) -> None:
    ended = mercury("send", desk, "--body", "<Ask/>", "--action", ACTION + "Ask", "--request")
    ended.refused("the answer is a fault", "text", "(BadRequest)", code=1)


def test_a_request_that_is_never_answered_fails_with_possible_reasons(desk: str) -> None:
    ended = mercury(
        "send", desk, "--body", NOTE.format("x"), "--action", ACTION + "Note", "--request", "--timeout", "2"
    )
    ended.refused("not answered in time: it is acknowledged", "one-way", "without --request", code=1)


def test_a_command_leaves_no_store_behind(desk: str, tmp_path: Path) -> None:
    arguments = [MERCURY, "send", desk, "--body", NOTE.format("x"), "--action", ACTION + "Note"]
    assert run_by_default(arguments, tmp_path).code == 0
    assert list(tmp_path.iterdir()) == []


def test_a_service_that_does_not_exist_is_an_error(serving: Serving) -> None:
    url = f"{serving.url}/services/nothing"
    ended = mercury("send", url, "--body", "<a/>", "--action", "a", "--timeout", "1")
    assert (ended.code, ended.out) == (1, "")
    why = "HTTP status 404: nothing is served at this path"
    assert ended.err.splitlines()[-1] == f"error: not acknowledged in time: {url}: {why}"


@pytest.fixture
def web_page() -> Iterator[str]:
    """A server that answers everything with a web page."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<html>welcome")

        def log_message(self, *_: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


def test_a_web_page_is_no_answer(web_page: str) -> None:
    ended = mercury("send", web_page, "--body", "<a/>", "--action", "a", "--timeout", "1")
    assert ended.code == 1
    assert "HTTP status 200" in ended.err
    assert "text/html" in ended.err


def test_ctrl_c_ends_it() -> None:
    with Running(MERCURY, "send", "http://127.0.0.1:1/", "--body", "<a/>", "--action", "a") as running:
        eventually(lambda: "not done yet" in running.err, "it has begun")
        running.signal(signal.SIGINT)
        ended = running.ends()
    assert ended.code == 130
    assert "Traceback" not in ended.err


# --- the command cannot run ----------------------------------------------------------------------------------------

DESK = "http://127.0.0.1:1/services/desk"


IMPOSSIBLE = {
    ("ftp://host/x", "--body", "<a/>", "--action", "a"): ("'ftp://host/x'", "http://host:port/path"),
    ("desk", "--body", "<a/>", "--action", "a"): ("'desk'",),
    ("http://host/a b", "--body", "<a/>", "--action", "a"): ("'http://host/a b'",),
    ("http://host:99999/", "--body", "<a/>", "--action", "a"): ("99999",),
    ("http://me:secret@host/", "--body", "<a/>", "--action", "a"): ("name and password",),
    (DESK, "--body", "<a>", "--action", "a"): ("not well-formed",),
    (DESK, "--body", "", "--action", "a"): ("not well-formed",),
    (DESK, "--body", "<a/><b/>", "--action", "a"): ("not well-formed",),
    (DESK, "--body", "<!DOCTYPE a><a/>", "--action", "a"): ("DOCTYPE",),
    (DESK, "--body", "<a/>", "--action", ""): ("action is empty",),
    (DESK, "--body", "@/no/such/file", "--action", "a"): ("'/no/such/file'", "No such file"),
    (DESK, "--body", "<a/>", "--action", "a", "--no-wait"): ("durable store",),
    (DESK, "--body", "<a/>", "--action", "a", "--addressing", "2004/08"): ("cannot be combined",),
    (DESK, "--body", "<a/>", "--action", "a", "--key", ""): ("key",),
}


def test_message_that_cannot_be_sent_is_refused_in_one_line() -> None:
    for arguments, ended in each(IMPOSSIBLE, lambda arguments: mercury("send", *arguments)):
        ended.refused(*IMPOSSIBLE[arguments])
        assert "secret" not in ended.err


def noted(serving: Serving) -> list[str]:
    texts: list[str] = json.loads(get(serving.netloc, "/noted")[1])
    return texts
