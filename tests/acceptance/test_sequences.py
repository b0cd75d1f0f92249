"""``mercury sequences``: the sequences of a running process."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mercury import Mercury, SequenceEnded, SequenceError, Service, Transaction
from mercury.engine.events import Side
from mercury.statemachine.tables import RmdState, RmsState
from mercury.statemachine.words import BY_NAME
from mercury.testing import Pair
from tests.acceptance.app import Ask, Note, Said
from tests.acceptance.processes import Serving, get, mercury
from tests.acceptance.test_endpoint import create_sequence, exchange


@pytest.fixture(scope="module")
def used(serving: Serving) -> Serving:
    """A server with a sequence of notes, ended, and one of questions, open."""
    with Mercury() as client:
        url = f"{serving.url}/services/desk"
        notes, questions = client.to(url, key="notes"), client.to(url, key="questions")
        for text in ("one", "two", "three"):
            notes.send(Note(text))
        notes.close()
        assert notes.wait(30)
        assert questions.request(Ask("x"), response=Said).result(30) == Said("you said x")
    return serving


def listed(server: Serving) -> list[dict[str, object]]:
    ended = mercury("sequences", "list", "--at", server.url, "--output", "json")
    assert (ended.code, ended.err) == (0, "")
    value: list[dict[str, object]] = ended.value
    return value


def test_a_new_server_has_none() -> None:
    with Serving() as server:
        ended = mercury("sequences", "list", "--at", server.url)
        assert (ended.code, ended.out, ended.err) == (0, "there are no sequences\n", "")
        assert listed(server) == []


def test_the_list_has_a_line_for_each(used: Serving) -> None:
    sequences = listed(used)
    assert len(sequences) == 4  # two of requests, and for each one of responses
    ended = mercury("sequences", "list", "--wide", "--at", used.url)
    assert (ended.code, ended.err) == (0, "")
    heading, *lines = ended.out.splitlines()
    assert heading.split()[:2] == ["side", "sequence"]
    assert len(lines) == 4
    for sequence, line in zip(sequences, lines, strict=True):
        assert str(sequence["identifier"]) in line
        assert str(sequence["state"]) in line
    (ended_one,) = [line for line in lines if "ENDED_COMPLETE" in line]
    assert " 1-3 " in ended_one


def test_the_short_list_says_in_words_how_it_goes(used: Serving) -> None:
    ended = mercury("sequences", "list", "--at", used.url)
    assert (ended.code, ended.err) == (0, "")
    _, *lines = ended.out.splitlines()
    for sequence, line in zip(listed(used), lines, strict=True):
        identifier = str(sequence["identifier"])
        assert f"  {identifier[-12:]}  " in line
        assert identifier not in line
        assert len(line) < 120
    (ended_one,) = [line for line in lines if "ended, all received" in line]
    assert " 1-3 " in ended_one
    assert any("open, receiving" in line for line in lines)


def test_every_state_has_words() -> None:
    assert [state.name for kind in (RmsState, RmdState) for state in kind] == list(BY_NAME)


def test_one_is_shown_by_a_part_of_its_identifier(used: Serving) -> None:
    (sequence,) = [each for each in listed(used) if str(each["state"]).startswith("ENDED_COMPLETE")]
    part = str(sequence["identifier"])[-12:]
    ended = mercury("sequences", "show", part, "--at", used.url)
    assert (ended.code, ended.err) == (0, "")
    shown = dict(line.split("  ", 1) for line in ended.out.splitlines() if line)
    assert shown["identifier"].strip() == sequence["identifier"]
    assert shown["received"].strip() == "1-3; the highest is 3"
    assert shown["waiting"].strip() == "nothing"
    assert shown["protocol"].strip() == "SOAP 1.2, WS-Addressing 1.0, WS-RM 1.1"
    value = mercury("sequences", "show", part, "--at", used.url, "-o", "json").value
    assert value == {**sequence, "last_heard": value["last_heard"]}


def test_an_unknown_identifier_is_a_failure(used: Serving) -> None:
    mercury("sequences", "show", "[/none]", "--at", used.url).refused("no sequence", "[/none]", code=1)


def test_an_ambiguous_identifier_cannot_be_shown(used: Serving) -> None:
    mercury("sequences", "show", "...", "--at", used.url).refused("4 sequences", "a longer part")


def test_nothing_listening_is_a_failure() -> None:
    url = "http://127.0.0.1:1"
    mercury("sequences", "list", "--at", url).refused(f"nothing answers at {url}: Connection refused", code=1)
    mercury("sequences", "show", "x", "--at", url).refused(f"nothing answers at {url}: Connection refused", code=1)


@pytest.mark.parametrize("at", ["here", "127.0.0.1:8000", "http://127.0.0.1:99999"])
def test_invalid_url_is_refused_by_the_command(at: str) -> None:
    mercury("sequences", "list", "--at", at).refused(repr(at))


STATUS = "/mercury/status/sequences"
PROXIES = (
    "X_Forwarded_For", "X_Forwarded_Proto", "X_Original_Forwarded_For", "Forwarded", "Via", "X_Real_IP", "X_Client_IP",
    "True_Client_IP", "Fastly_Client_IP", "CF_Connecting_IP", "X_ProxyUser_IP", "WL_Proxy_Client_IP", "X_Remote_Addr",
    "CDN_Loop", "X_Azure_ClientIP", "X_Envoy_External_Address",
)  # fmt: skip


@pytest.mark.parametrize(
    "headers",
    [{"Host": "evil.example"}, {"Host": "127.0.0.1.evil.example"}, {"Host": ""}]
    + [{name: "10.0.0.1"} for name in PROXIES],
    ids=str,
)
def test_the_status_is_for_this_machine_only(serving: Serving, headers: dict[str, str]) -> None:
    status, text = get(serving.netloc, STATUS, **headers)
    assert (status, text) == (403, '{"error":"the status is for this machine only"}')


def test_proxy_that_speaks_http_1_0_and_adds_no_header_gets_no_status(serving: Serving) -> None:
    for version, status in (("1.0", b" 403 "), ("1.1", b" 200 ")):
        with serving.connection() as peer:
            peer.sendall(f"GET {STATUS} HTTP/{version}\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
            assert status in peer.makefile("rb").readline()


@pytest.mark.parametrize(("token", "status"), [("", 200), ("a-token-of-some-length", 401)])
def test_status_through_a_proxy_that_adds_nothing_is_refused_with_a_token_only(token: str, status: int) -> None:
    """With their defaults haproxy and nginx add no header: the request is the same as a direct one."""
    with Serving(**({"MERCURY_HTTP_STATUS_TOKEN": token} if token else {})) as server:
        for host in ("localhost", server.netloc):
            assert get(server.netloc, STATUS, Host=host)[0] == status


@pytest.mark.parametrize("host", ["[::1", "[x]", "[::1]x]", "::1", "a:b"])
def test_host_header_that_is_no_host_is_a_bad_request(serving: Serving, host: str) -> None:
    assert get(serving.netloc, STATUS, Host=host)[0] == 400


def test_identifiers_are_masked_without_the_token_and_whole_with_it() -> None:
    token = "a-token-of-some-length"
    with Serving() as open_one, Serving(MERCURY_HTTP_STATUS_TOKEN=token) as closed_one:
        for server in (open_one, closed_one):
            assert exchange(server.netloc, create_sequence()).status == 200
        (shown,) = json.loads(get(open_one.netloc, STATUS)[1])
        assert shown["identifier"].startswith("...")
        assert len(shown["identifier"]) == 15
        for wrong in ({}, {"Authorization": "Bearer x"}, {"Authorization": f"Basic {token}"}):
            assert get(closed_one.netloc, STATUS, **wrong)[0] == 401
        bearer = {"Authorization": f"Bearer {token}", "X_Forwarded_For": "10.0.0.1", "Host": "a.example"}
        status, text = get(closed_one.netloc, STATUS, **bearer)
        assert status == 200
        assert json.loads(text)[0]["identifier"].startswith("urn:uuid:")
        mercury("sequences", "list", "--at", closed_one.url).refused("MERCURY_HTTP_STATUS_TOKEN", code=1)
        ended = mercury("sequences", "list", "--wide", "--at", closed_one.url, MERCURY_HTTP_STATUS_TOKEN=token)
        assert (ended.code, token in ended.out) == (0, False)
        printed = mercury("config", "show", MERCURY_HTTP_STATUS_TOKEN=token)
        assert token not in printed.out


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:80", "[::1]:80"])
def test_this_machine_has_several_names(serving: Serving, host: str) -> None:
    assert get(serving.netloc, STATUS, Host=host)[0] == 200


@contextmanager
def answering(status: int, body: bytes) -> Iterator[str]:
    """A server that is not Mercury and gives every request the same answer."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (403, b"{}", "only to requests from its own machine"),
        (404, b"{}", "HTTP status 404"),
        (200, b"<html>", "not with a status"),
    ],
)
def test_other_servers_are_distinguished(status: int, body: bytes, words: str) -> None:
    with answering(status, body) as url:
        mercury("sequences", "list", "--at", url).refused(url, words, code=1)


# --- ends by the destination -----------------------------------------------------------------------------------------

END_COMMANDS = pytest.mark.parametrize("command", ["close", "terminate"])


def received(pair: Pair, note: Callable[[str], object]) -> str:
    """The identifier of an open sequence that the server receives."""
    note("one")
    pair.run()
    found = [each for each in pair.server.sequences() if each.side is Side.DESTINATION and each.endpoint]
    return found[-1].identifier


@END_COMMANDS
def test_received_sequence_is_ended_by_command_and_the_rest_comes_in_another(command: str, tmp_path: Path) -> None:
    desk, texts = Service("desk"), []

    @desk.operation("Note")
    def note(_tx: Transaction, message: Note) -> None:
        texts.append(message.text)

    url = f"sqlite:///{tmp_path}/server.db"
    with Pair(desk, server_store=url) as pair:
        sender = pair.to(key="notes")
        identifier = received(pair, lambda text: sender.send(Note(text)))
        ended = mercury("sequences", command, identifier[-12:], "--store", url)
        assert (ended.code, ended.err) == (0, "")
        assert ended.out == f"{identifier}: a process that runs on this store will {command} it\n"
        pair.advance(5)
        sender.send(Note("two"))
        pair.advance(60)
        assert texts == ["one", "two"]
        (state,) = [each.state for each in pair.server.sequences() if each.identifier == identifier]
        assert "ENDED" in state.name
        again = mercury("sequences", command, identifier, "--store", url)
        assert (again.code, again.out) == (1, "")
        assert "has ended" in again.err


@END_COMMANDS
def test_sequence_that_is_not_received_in_the_store_is_not_ended(command: str, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/server.db"
    with Pair(server_store=url):
        ended = mercury("sequences", command, "urn:nothing", "--store", url)
    assert (ended.code, ended.out) == (1, "")
    assert "no sequence of this store" in ended.err


def test_program_ends_a_received_sequence() -> None:
    desk = Service("desk")

    @desk.operation("Note")
    def note(_tx: Transaction, _message: Note) -> None:
        pass

    with Pair(desk) as pair:
        sender = pair.to(key="notes")
        identifier = received(pair, lambda text: sender.send(Note(text)))
        pair.server.close_sequence(identifier)
        with pytest.raises(SequenceError, match="urn:nothing"):
            pair.server.terminate_sequence("urn:nothing")
        pair.server.terminate_sequence(identifier)
        pair.advance(5)
        with pytest.raises(SequenceEnded, match="has ended"):
            pair.server.close_sequence(identifier)
