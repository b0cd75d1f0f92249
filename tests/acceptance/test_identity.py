"""The identity of a request's sender, over real sockets: the hook's result, and the ownership of sequences."""

from __future__ import annotations

import hmac
import http.client
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from mercury import Authenticate, ConfigurationError, HttpRequest, Mercury, NotAuthenticated, Peer, Service
from mercury.client.sender import Sender
from mercury.engine.events import Side
from mercury.service.paths import RESPONSES
from tests.acceptance.app import Note
from tests.acceptance.processes import PATIENCE, eventually
from tests.acceptance.test_endpoint import Reply
from tests.ports import free_port
from tests.scenario.foreign import Foreign

TOKENS = {"alpha": "a-secret", "beta": "b-secret"}


def by_token(request: HttpRequest) -> str | None:
    """A hook that reads a Bearer token itself."""
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
    path: str = "/services/desk"

    def post(self, body: bytes, content_type: str, **headers: str) -> Reply:
        connection = http.client.HTTPConnection(self.netloc, timeout=PATIENCE)
        try:
            connection.request("POST", self.path, body, {"Content-Type": content_type} | headers)
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
        """A hook that reads a Bearer token itself."""
        seen.append(request.client)
        if request.client != "10.0.0.1":
            raise NotAuthenticated("Requests must come through the proxy.")
        return request.headers.get("x-client-dn")

    create = Foreign().create()
    for desk in serving(by_proxy):
        forged = {"X-Client-DN": "CN=bank", "X-Forwarded-For": "10.0.0.1", "X-Forwarded-Proto": "https"}
        assert desk.post(create.body, create.content_type, **forged).status == 401
    assert seen == ["127.0.0.1"]


@dataclass
class Posting:
    """A client that listens and identifies its peers, and a server that posts to it as ``alpha``."""

    client: Mercury
    server: Mercury
    sender: Sender
    responses: Desk


@contextmanager
def posting(identity: str | None) -> Iterator[Posting]:
    """
    :param identity: the server's identity at the client.
    """
    service = Service("desk")

    @service.operation
    def note(what: Note) -> None: ...

    told = free_port()
    address = f"http://127.0.0.1:{told}"
    shown = Peer(headers={"Authorization": "Bearer a-secret"})
    with Mercury("memory:", allow=[address], peers={address: shown}) as server:
        url = server.listen(service)
        with Mercury("memory:", authenticate=by_token, peers={url: Peer(identity=identity)}) as client:
            client.listen(port=told)
            yield Posting(
                client, server, client.to(f"{url}/services/desk"), Desk(address.removeprefix("http://"), RESPONSES)
            )


@pytest.mark.parametrize("identity", ["alpha", None])
def test_only_the_identity_of_the_server_acknowledges_to_a_client_that_listens(identity: str | None) -> None:
    with posting(identity) as story:
        story.sender.send(Note("one"))
        assert story.sender.wait(PATIENCE)
        story.server.stop()
        story.sender.send(Note("two"))
        (mine,) = (each for each in story.client.sequences() if each.side is Side.SOURCE)
        foreign = Foreign()
        forged = foreign.alone(foreign.acknowledgement(mine.identifier or "", ((1, 2),)))
        reply = story.responses.post(forged.body, forged.content_type, Authorization="Bearer b-secret")
        assert b"UnknownSequence" in reply.body
        assert story.sender.pending == 1


def test_server_with_another_identity_than_the_settings_say_is_not_believed(caplog: pytest.LogCaptureFixture) -> None:
    with posting("beta") as story:
        story.sender.send(Note("one"))
        eventually(lambda: "a peer names a sequence that goes to another peer" in caplog.text, "the log says so")
        assert story.sender.pending == 1


def test_empty_identity_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="identity: it is empty"):
        Peer(identity=" ")
