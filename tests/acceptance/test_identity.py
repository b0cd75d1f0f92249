"""Who sends a request, over real sockets: what the hook says, and whose sequences they are then."""

from __future__ import annotations

import hmac
import http.client
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from mercury import Authenticate, HttpRequest, Mercury, NotAuthenticated, Service
from tests.acceptance.app import Note
from tests.acceptance.processes import PATIENCE
from tests.acceptance.test_endpoint import Reply
from tests.scenario.foreign import Foreign

TOKENS = {"alpha": "a-secret", "beta": "b-secret"}


def by_token(request: HttpRequest) -> str | None:
    """The recipe of docs/how-to.md."""
    given = request.headers.get("authorization", "").removeprefix("Bearer ")
    for name, token in TOKENS.items():
        if hmac.compare_digest(given.encode(), token.encode()):
            return name
    raise NotAuthenticated("A known token is needed.")


def broken(_request: HttpRequest) -> str | None:
    raise LookupError("the table of tokens is away")


@dataclass
class Desk:
    """A server in this process."""

    netloc: str

    def post(self, body: bytes, content_type: str, **headers: str) -> Reply:
        connection = http.client.HTTPConnection(self.netloc, timeout=PATIENCE)
        try:
            connection.request("POST", "/services/desk", body, {"Content-Type": content_type} | headers)
            return Reply.read(connection)
        finally:
            connection.close()


def serving(authenticate: Authenticate) -> Iterator[Desk]:
    service = Service("desk")

    @service.operation
    def note(what: Note) -> None: ...

    with Mercury("memory:", authenticate=authenticate) as mercury:
        yield Desk(mercury.listen(service).removeprefix("http://"))


@pytest.fixture
def desk() -> Iterator[Desk]:
    yield from serving(by_token)


def test_request_without_a_known_token_is_refused_with_401(desk: Desk) -> None:
    create = Foreign().create()
    for headers in ({}, {"Authorization": "Bearer guessed"}):
        reply = desk.post(create.body, create.content_type, **headers)
        assert reply.status == 401
        assert reply.headers["www-authenticate"] == "Bearer"
        assert b"A known token is needed." in reply.body


def test_sequence_takes_nothing_from_another_token(desk: Desk) -> None:
    foreign = Foreign()
    create = foreign.create()
    made = desk.post(create.body, create.content_type, Authorization="Bearer a-secret").body
    identifier = made.split(b"Identifier>", 1)[1].split(b"</", 1)[0].decode()
    forged = foreign.terminate(identifier, message_id="urn:end")
    assert b"UnknownSequence" in desk.post(forged.body, forged.content_type, Authorization="Bearer b-secret").body
    own = foreign.alone(foreign.ack_requested(identifier))
    reply = desk.post(own.body, own.content_type, Authorization="Bearer a-secret").body
    assert b"SequenceAcknowledgement" in reply
    assert b"Final" not in reply


def test_failing_hook_makes_the_peer_try_again(caplog: pytest.LogCaptureFixture) -> None:
    create = Foreign().create()
    for desk in serving(broken):
        reply = desk.post(create.body, create.content_type)
        assert (reply.status, reply.headers["retry-after"]) == (503, "1")
        assert b"away" not in reply.body, "what went wrong is for the log"
    assert "authenticate failed" in caplog.text


def test_hook_sees_the_headers_and_the_address() -> None:
    seen: list[HttpRequest] = []

    def behind_a_proxy(request: HttpRequest) -> str | None:
        seen.append(request)
        return request.headers.get("x-client-dn") if request.client == "127.0.0.1" else None

    create = Foreign().create()
    for desk in serving(behind_a_proxy):
        assert desk.post(create.body, create.content_type, **{"X-Client-DN": "CN=shop"}).status == 200
    assert [(each.path, each.client, each.headers["x-client-dn"], each.certificate) for each in seen] == [
        ("/services/desk", "127.0.0.1", "CN=shop", None)
    ]


def test_forwarded_address_is_not_believed_even_from_this_machine() -> None:
    seen: list[str] = []

    def by_proxy(request: HttpRequest) -> str | None:
        """The recipe of docs/how-to.md."""
        seen.append(request.client)
        if request.client != "10.0.0.1":
            raise NotAuthenticated("Only the proxy is asked.")
        return request.headers.get("x-client-dn")

    create = Foreign().create()
    for desk in serving(by_proxy):
        forged = {"X-Client-DN": "CN=bank", "X-Forwarded-For": "10.0.0.1", "X-Forwarded-Proto": "https"}
        assert desk.post(create.body, create.content_type, **forged).status == 401
    assert seen == ["127.0.0.1"]
