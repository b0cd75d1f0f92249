"""``mercury wsdl`` shows the requirements of a peer, and prints the WSDL of a service."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from mercury.cli import documents
from mercury.cli.documents import MAX_DOCUMENTS, fetch_all
from mercury.errors import ConfigurationError
from mercury.settings import Settings
from mercury.wsdl.policy import imports, read
from tests.acceptance.processes import ROOT, Serving, each, mercury

NET = ROOT / "tests/data/wsdl/net.wsdl"
ORDERS = ROOT / "tests/data/wsdl/orders.wsdl"
TIMED = ROOT / "tests/data/wire/policy/metro_rm-1_0-policy-custom.xml"
BOUND = ROOT / "tests/data/wire/policy/metro_rm-1_1-policy-custom_1.xml"


# --- show ------------------------------------------------------------------------------------------------------------


def test_show_says_what_each_port_asks_for_and_the_settings() -> None:
    ended = mercury("wsdl", "show", str(NET), MERCURY_SOURCE_IDLE_TIMEOUT="1000")
    assert (ended.code, ended.err) == (0, "")
    rows = {tuple(line.split(maxsplit=1)) for line in ended.out.splitlines() if line}
    said = {(port, " ".join(rest.split())) for port, rest in rows}
    assert said >= {
        ("Plain", "address http://billing.example/plain"),
        ("Plain", "SOAP 1.2"),
        ("Plain", "WS-Addressing 1.0"),
        ("Plain", "WS-RM 1.0"),
        ("Plain", "InactivityTimeout 600 s"),
        ("Plain", "AcknowledgementInterval 0.2 s"),
        ("Plain", "MakeConnection no"),
        ("Plain", "source.protocol.rm 1.0"),
        ("Plain", "source.idle_timeout 300.0"),
        ("Plain", "MTOM no"),
        ("Plain", "source.mtom false"),
        ("Secure", "not supported SymmetricBinding (WS-Security)"),
        ("Secure", "not supported BinaryEncoding (binary XML of .NET)"),
    }


def test_show_as_json_has_every_alternative_and_the_settings() -> None:
    (_, timed), (_, orders) = each((TIMED, ORDERS), lambda file: mercury("wsdl", "show", str(file), "-o", "json"))
    (alternative,) = timed.value[""]["alternatives"]
    assert alternative["reliability"] == {
        "rm": "1.0",
        "optional": False,
        "assurance": None,
        "in_order": None,
        "inactivity_timeout": 1.0,
        "retransmission_interval": 1.0,
        "exponential_backoff": True,
        "acknowledgement_interval": 1.0,
    }
    assert set(orders.value) == {"P11", "P12"}
    assert orders.value["P11"]["settings"] == {
        "source.protocol.soap": "1.1",
        "source.protocol.addressing": "1.0",
        "source.protocol.rm": "1.1",
        "source.retransmission.base": 1.0,
        "source.idle_timeout": 300.0,
        "source.mtom": False,
    }
    assert orders.value["P12"]["usable"] is True


def test_show_fails_where_every_port_asks_for_what_there_is_not() -> None:
    ended = mercury("wsdl", "show", str(BOUND))
    assert ended.code == 1
    assert "SequenceTransportSecurity of the RM assertion" in ended.out


def test_show_refuses_in_one_line(tmp_path: Path) -> None:
    bomb = tmp_path / "bomb.wsdl"
    bomb.write_text('<!DOCTYPE d [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]><d>&b;</d>')
    page = tmp_path / "page.html"
    page.write_text("<html/>")
    empty = tmp_path / "empty.wsdl"
    empty.write_text('<definitions xmlns="http://schemas.xmlsoap.org/wsdl/"/>')
    wrong = {
        str(bomb): "a DOCTYPE is not accepted",
        str(page): "html is neither a WSDL 1.1 nor a policy",
        str(empty): "has no port",
        str(tmp_path / "none.wsdl"): "none.wsdl cannot be read: No such file",
        "http://127.0.0.1:1/x?wsdl": "nothing answers at",
    }
    for source, ended in each(wrong, lambda source: mercury("wsdl", "show", source)):
        ended.refused(wrong[source])


def test_show_reads_what_a_mercury_publishes() -> None:
    with Serving() as server:
        ended = mercury("wsdl", "show", f"{server.url}/services/desk?wsdl", "--output", "json")
        refused = mercury("wsdl", "show", f"{server.url}/services/desk")
    assert ended.code == 0, ended.err
    assert {port: found["address"] for port, found in ended.value.items()} == {
        "deskSoap11": f"{server.url}/services/desk",
        "deskSoap12": f"{server.url}/services/desk",
    }
    assert [found["chosen"] for found in ended.value["deskSoap12"]["alternatives"]] == [True, False, False]
    refused.refused("HTTP status 405; add ?wsdl to it")


# --- what is imported ------------------------------------------------------------------------------------------------

OUTER = """<d:definitions xmlns:d="http://schemas.xmlsoap.org/wsdl/" xmlns:t="urn:t" targetNamespace="urn:o">
<d:import namespace="urn:t" location="{}"/><d:service name="O"><d:port name="Outer" binding="t:B"/></d:service>
</d:definitions>"""
INNER = """<d:definitions xmlns:d="http://schemas.xmlsoap.org/wsdl/" xmlns:s="http://schemas.xmlsoap.org/wsdl/soap/"
xmlns:t="urn:t" targetNamespace="urn:t"><d:portType name="T"/><d:binding name="B" type="t:T"><s:binding/></d:binding>
</d:definitions>"""


@contextmanager
def server_of(pages: Mapping[str, str]) -> Iterator[str]:
    """A server that knows these pages; ``-> URL`` is a redirect."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            text = pages.get(self.path)
            to = text[3:] if text is not None and text.startswith("-> ") else None
            self.send_response(302 if to is not None else 404 if text is None else 200)
            if to is not None:
                self.send_header("Location", to)
            self.end_headers()
            if text is not None and to is None:
                self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def missing(source: str) -> tuple[str, ...]:
    first, *others = fetch_all(source, Settings(), imports)
    return read(first, others)["Outer"].missing


def test_imports_are_fetched_from_the_same_server_and_redirects_are_followed_there() -> None:
    with server_of({"/a/o?wsdl": "-> /b", "/b": OUTER.format("/a/i?wsdl"), "/a/i?wsdl": INNER}) as url:
        assert missing(f"{url}/a/o?wsdl") == ()


def test_imports_and_redirects_to_another_server_are_not_followed() -> None:
    pages: dict[str, str] = {"/f": "-> file:///etc/passwd"}
    with server_of({"/i": INNER}) as other, server_of(pages) as url:
        pages |= {"/o": OUTER.format(f"{other}/i"), "/r": f"-> {other}/i"}
        assert missing(f"{url}/o") == ("the binding {urn:t}B",)
        for path in ("/r", "/f"):
            with pytest.raises(ConfigurationError, match="HTTP status 302 and redirects to"):
                fetch_all(url + path, Settings(), imports)


def test_redirects_and_imports_without_end_are_given_up() -> None:
    endless = {f"/{n}": OUTER.format(f"/{n + 1}") for n in range(MAX_DOCUMENTS + 1)}
    with server_of({"/a": "-> /b", "/b": "-> /a", **endless}) as url:
        with pytest.raises(ConfigurationError, match="redirects more than 3 times"):
            fetch_all(f"{url}/a", Settings(), imports)
        with pytest.raises(ConfigurationError, match="more than 32 documents"):
            fetch_all(f"{url}/0", Settings(), imports)


def test_imports_of_a_file_are_read_below_its_folder_only(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/i.wsdl").write_text(INNER)
    (tmp_path / "i.wsdl").write_text(INNER)
    file = tmp_path / "in/o.wsdl"
    for location, found in (("i.wsdl", True), ("../i.wsdl", False), ("file:///etc/passwd", False)):
        file.write_text(OUTER.format(location))
        assert missing(str(file)) == (() if found else ("the binding {urn:t}B",)), location


def test_import_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    file = tmp_path / "o.wsdl"
    file.write_text(OUTER.format("gone.wsdl"))
    mercury("wsdl", "show", str(file)).refused("gone.wsdl cannot be read: No such file")
    file.write_text(OUTER.format("broken.wsdl"))
    (tmp_path / "broken.wsdl").write_text("<d:definitions")
    mercury("wsdl", "show", str(file)).refused("broken.wsdl: the WSDL cannot be read")


def test_imports_from_elsewhere_are_read_with_permission_and_named_without(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "i.wsdl").write_text(INNER)
    file = tmp_path / "in/o.wsdl"
    file.write_text(OUTER.format("../i.wsdl"))
    with server_of({"/a/i": INNER, "/ab": INNER, "/b": INNER}) as url:
        web = tmp_path / "in/w.wsdl"
        web.write_text(OUTER.format(f"{url}/a/i"))
        outside = tmp_path / "in/x.wsdl"
        outside.write_text(OUTER.format(f"{url}/ab"))
        above = tmp_path / "in/y.wsdl"
        above.write_text(OUTER.format(f"{url}/a/%2e%2e/b"))
        cases = {(file, str(tmp_path)): True, (file, str(tmp_path / "in")): False, (file, url): False}
        cases |= {(web, f"{url}/a"): True, (web, str(tmp_path)): False, (web, "http://localhost:1/a"): False}
        cases |= {(outside, f"{url}/a"): False, (outside, url): True, (above, f"{url}/a"): False}
        for (source, allowed), permitted in cases.items():
            unread: list[str] = []
            found = fetch_all(str(source), Settings(), imports, [allowed], unread.append)
            assert (len(found), len(unread)) == ((2, 0) if permitted else (1, 1)), (source, allowed)
            assert all("--allow permits it" in each for each in unread)
        shown = mercury("wsdl", "show", str(web), "--allow", f"{url}/a")
        refused = mercury("wsdl", "show", str(web))
    assert (shown.code, shown.err) == (0, "")
    assert "not in the document" not in shown.out
    assert f"{url}/a/i is not read" in refused.err
    assert "the binding {urn:t}B" in refused.out


@pytest.mark.parametrize("location", ["http://[oops/", "//[x/", "http://h\u2100/x", "http://127.0.0.1:99999/x"])
def test_import_that_is_no_url_is_named_and_left_out(tmp_path: Path, location: str) -> None:
    file = tmp_path / "o.wsdl"
    file.write_text(OUTER.format(location))
    with server_of({"/o": OUTER.format(location)}) as url:
        for source in (f"{url}/o", str(file)) if "://" in location else (f"{url}/o",):
            unread: list[str] = []
            assert len(fetch_all(source, Settings(), imports, [], unread.append)) == 1
            assert len(unread) == 1
            assert " is not read" in unread[0]
        ended = mercury("wsdl", "show", f"{url}/o")
    assert "is not read" in ended.err
    assert "Traceback" not in ended.err


def test_redirect_to_what_is_no_url_is_refused() -> None:
    with server_of({"/r": "-> http://[oops/"}) as url:
        mercury("wsdl", "show", f"{url}/r").refused("redirects to", "no URL")
    mercury("wsdl", "show", f"http://{'a' * 64}.example/x").refused("nothing answers")


@pytest.mark.parametrize(("location", "requested"), [("/a b.wsdl?x y", "/a%20b.wsdl?x%20y"), ("/\u00e9", "/%C3%A9")])
def test_import_with_letters_that_urls_cannot_have_is_read(location: str, requested: str) -> None:
    with server_of({"/o": OUTER.format(location), requested: INNER}) as url:
        assert missing(f"{url}/o") == ()


def test_service_whose_documents_are_elsewhere_has_no_port_and_the_error_says_why(tmp_path: Path) -> None:
    only = tmp_path / "only.wsdl"
    imported = '<d:import namespace="urn:t" location="http://127.0.0.1:1/x.wsdl"/>'
    only.write_text(f'<d:definitions xmlns:d="http://schemas.xmlsoap.org/wsdl/">{imported}</d:definitions>')
    mercury("wsdl", "show", str(only)).refused("has no port", "http://127.0.0.1:1/x.wsdl is not read")


def test_server_that_sends_a_byte_now_and_then_is_given_up() -> None:
    stopped = threading.Event()

    def trickle(client: socket.socket) -> None:
        with client, contextlib.suppress(OSError):
            client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
            for _ in range(200):
                client.sendall(b" ")
                if stopped.wait(0.05):
                    break

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=lambda: trickle(listener.accept()[0]))
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/o"
        try:
            with pytest.raises(ConfigurationError, match=f"{url} takes too long"):
                fetch_all(url, Settings(), imports, seconds=0.3)
        finally:
            stopped.set()
            thread.join()


def test_error_of_a_server_is_an_error_of_the_document() -> None:
    with pytest.raises(ConfigurationError, match="nothing answers at http://127"):
        fetch_all("http://127.0.0.1:1/o", Settings(), imports)


def test_bytes_of_all_imports_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    with server_of({"/o": OUTER.format("/i"), "/i": INNER}) as url:
        monkeypatch.setattr(documents, "MAX_BYTES", len(OUTER) + len(INNER) - 10)
        with pytest.raises(ConfigurationError, match=f"more than .* bytes: {url}/i"):
            fetch_all(f"{url}/o", Settings(), imports)


# --- print -----------------------------------------------------------------------------------------------------------

SHOP = """
from dataclasses import dataclass
from mercury import Mercury, Service

@dataclass
class Note:
    text: str

one, two = Service("one"), Service("two")
for service in (one, two):
    @service.operation
    def note(what: Note) -> None: ...

def make():
    from fastapi import FastAPI
    app, inner = FastAPI(), FastAPI()
    inner.include_router(Mercury("memory:").router(one, two))
    app.mount("/in", inner)
    return app

app = Mercury("memory:").app(one)
"""


def test_print_writes_the_wsdl_of_what_a_target_serves(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    cases = {
        ("shop:app",): "http://127.0.0.1:8000/services/one",
        ("shop:two",): "http://127.0.0.1:8000/services/two",
        ("shop:make", "--service", "two"): "http://127.0.0.1:8000/services/two",
        ("shop:one", "--address", "https://a.example/x"): "https://a.example/x",
    }
    for arguments, ended in each(cases, lambda arguments: mercury("wsdl", "print", *arguments, cwd=tmp_path)):
        assert (ended.code, ended.err) == (0, "")
        ports = read(ended.out.encode())
        assert {port.address for port in ports.values()} == {cases[arguments]}
    ended = mercury("wsdl", "print", "shop:app", "-o", "json", cwd=tmp_path, MERCURY_ADDRESS="http://b.example")
    assert ended.value["service"] == "one"
    assert {port.address for port in read(ended.value["wsdl"].encode()).values()} == {"http://b.example/services/one"}


def test_print_refuses_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    wrong = {
        ("shop",): "is not of the form MODULE:APP",
        ("shop:make",): "has these services: one, two; choose one with --service",
        ("shop:app", "--service", "two"): "has these services: one",
        ("shop:Note",): "shop:Note() failed",
    }
    for arguments, ended in each(wrong, lambda arguments: mercury("wsdl", "print", *arguments, cwd=tmp_path)):
        ended.refused(wrong[arguments])
