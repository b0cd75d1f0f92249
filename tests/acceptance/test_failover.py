"""One endpoint with several addresses: members that answer 503, are stopped or are killed lead to the next one."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from mercury import Certainty, Mercury, RetransmissionPolicy, Service, SourcePolicy
from mercury.engine.events import Side
from tests.acceptance.app import Note
from tests.acceptance.processes import Serving, eventually

LEASE = "1.0"


def member(store: str, journal: Path) -> Serving:
    return Serving(MERCURY_STORE=store, MERCURY_ENGINE_LEASE=LEASE, JOURNAL=str(journal))


class _Standby(BaseHTTPRequestHandler):
    """A server, or a proxy before one, that does not serve now."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(503)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def standby() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Standby) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/services/desk"
        server.shutdown()
        thread.join()


def noted(journal: Path) -> list[str]:
    return journal.read_text().split() if journal.exists() else []


def test_member_that_does_not_serve_or_is_stopped_or_killed_leads_to_the_next(tmp_path: Path, standby: str) -> None:
    store, journal = f"sqlite:///{tmp_path}/store.db", tmp_path / "journal"
    # What is not acknowledged would be sent again after a minute only: the posts themselves find the next member.
    policy = SourcePolicy(retransmission=RetransmissionPolicy(base=60.0, cap=60.0))
    with member(store, journal) as first, member(store, journal) as second, Mercury("memory:") as client:
        one, two = (f"{each.url}/services/desk" for each in (first, second))
        options = "randomize=false&nested.timeout=500"
        sender = client.to(f"failover:({standby},{one},{two})?{options}", policy=policy)

        sender.send(Note("a"))
        eventually(lambda: noted(journal) == ["a"], "the member behind the standby handles a message")

        first.signal(signal.SIGSTOP)
        sender.send(Note("b"))
        eventually(lambda: noted(journal) == ["a", "b"], "the second member handles a message")

        first.signal(signal.SIGCONT)
        second.signal(signal.SIGKILL)
        sender.send(Note("c"))
        eventually(lambda: noted(journal) == ["a", "b", "c"], "the first member handles a message")
        sources = [each for each in client.sequences() if each.side is Side.SOURCE]
        assert len(sources) == 1, "the sequence goes on, whichever member answers"
        eventually(lambda: sender.pending == 0, "everything is acknowledged")


def test_member_with_another_store_does_nothing_of_a_sequence_that_it_does_not_know() -> None:
    handled: dict[str, list[str]] = {"a": [], "b": []}

    def serves(name: str) -> Service:
        desk = Service("desk")

        @desk.operation
        def note(what: Note) -> None:
            handled[name].append(what.text)

        return desk

    with Mercury("memory:") as first, Mercury("memory:") as second, Mercury("memory:") as client:
        one, two = (each.listen(serves(name)) for each, name in ((first, "a"), (second, "b")))
        sender = client.to(f"failover:({one}/services/desk,{two}/services/desk)?randomize=false")
        sender.send(Note("1"))
        eventually(lambda: handled["a"] == ["1"] and sender.pending == 0, "the first member handles a message")
        first.stop()
        sender.send(Note("2"))
        eventually(lambda: client.dead_letters(), "what the first member may have got is in doubt")
        (letter,) = client.dead_letters()
        assert letter.certainty is Certainty.UNKNOWN
        assert handled == {"a": ["1"], "b": []}, "nothing is repeated to the other store"
        sender.send(Note("3"))
        eventually(lambda: handled["b"] == ["3"], "a new sequence begins there")
