"""HTTP Basic and Bearer on both sides, over real sockets and without a hand-written header."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from mercury import (
    Accounts,
    ConfigurationError,
    CredentialSettings,
    HttpRequest,
    Mercury,
    NotAuthenticated,
    Peer,
    Service,
    Settings,
)
from mercury.engine.runtime.peers import Peers
from mercury.wire.envelope import HttpMessage
from tests.acceptance.app import Note
from tests.acceptance.processes import PATIENCE, eventually, mercury
from tests.acceptance.test_identity import Desk
from tests.scenario.foreign import Foreign

PASSWORDS = {"shop": "correct horse", "Bräu": "süß:und=bitter"}
TOKENS = {"till": "t0ken-of.the~till+/==", "shop": "a-token-of-the-shop"}


@contextmanager
def desk() -> Iterator[tuple[str, list[str]]]:
    """The URL of a service that knows these senders, and what it was told."""
    service, told = Service("desk"), []

    @service.operation
    def note(what: Note) -> None:
        told.append(what.text)

    accounts = Accounts(passwords=PASSWORDS, tokens=TOKENS, realm="the desk")
    with Mercury("memory:", authenticate=accounts) as server:
        yield server.listen(service) + "/services/desk", told


def basic(user: str, password: str, encoding: str = "utf-8") -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode(encoding)).decode()


def test_refusals_of_a_network_are_logged_once_in_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    with desk() as (url, _):
        at, create = Desk(url.removeprefix("http://").partition("/")[0]), Foreign().create()
        for _ in range(3):
            assert at.post(create.body, create.content_type, Authorization="Bearer wrong").status == 401
    (line,) = [each.getMessage() for each in caplog.records if "refused" in each.getMessage()]
    assert "127.0.0.1" in line
    assert "401" in line
    assert "wrong" not in line


@pytest.mark.parametrize(
    "peer",
    [
        Peer(user="shop", password="correct horse"),
        Peer(user="Bräu", password="süß:und=bitter"),
        Peer(token=TOKENS["till"]),
    ],
    ids=["password", "password that is not ASCII", "token"],
)
def test_sender_with_a_password_or_a_token_is_taken(peer: Peer) -> None:
    with desk() as (url, told), Mercury("memory:", peers={url: peer}) as client:
        sender = client.to(url)
        sender.send(Note("x"))
        assert sender.wait(PATIENCE)
    assert told == ["x"]


def test_credentials_of_the_settings_are_sent_to_their_url_only() -> None:
    with desk() as (url, told):
        host = url.removesuffix("/services/desk")
        for credentials in (
            CredentialSettings(basic=(f"{host}=shop:correct horse",)),
            CredentialSettings(bearer=(f"{url} = {TOKENS['till']}",)),
        ):
            with Mercury("memory:", settings=Settings(credentials=credentials)) as client:
                sender = client.to(url)
                sender.send(Note("x"))
                assert sender.wait(PATIENCE)
        other = CredentialSettings(bearer=(f"{url}/other={TOKENS['till']}",))
        with Mercury("memory:", settings=Settings(credentials=other)) as client:
            sender = client.to(url)
            sender.send(Note("y"))
            eventually(lambda: "A known name" in (sender.last_error or ""), "the sender is told")
    assert told == ["x", "x"]


def test_mercury_send_takes_its_credentials_from_the_settings(tmp_path: Path) -> None:
    file = tmp_path / "mercury.toml"
    with desk() as (url, told):
        file.write_text(f'[credentials]\nbasic = ["{url}=shop:correct horse"]\n')
        body = '<Note xmlns="urn:mercury:app"><text>x</text></Note>'
        arguments = ["send", url, "--body", body, "--action", "urn:mercury:app/Note"]
        assert mercury(*arguments, "--config", str(file)).code == 0
        assert mercury("wsdl", "show", f"{url}?wsdl", "--config", str(file)).code == 0
        mercury("wsdl", "show", f"{url}?wsdl").refused("401")
    assert told == ["x"]
    shown = mercury("config", "show", "--config", str(file), "--output", "json")
    assert "correct horse" not in shown.out
    values = {each["setting"]: each["value"] for each in shown.value}
    assert values["credentials.basic"] == "***"
    assert values["credentials.bearer"] == ""


@pytest.mark.parametrize(
    "authorization",
    [
        None,
        "",
        "Basic",
        "Bearer",
        "Bearer ",
        "Basic !!!",
        "Basic " + base64.b64encode(b"shop").decode(),
        basic("shop", "correct horse "),
        basic("shop", ""),
        basic("", ""),
        basic("till", TOKENS["till"]),
        basic("nobody", "correct horse"),
        basic("Bräu", PASSWORDS["shop"]),
        "Bearer correct horse",
        f"Bearer {TOKENS['till']}x",
        f"Digest {TOKENS['till']}",
        f"{basic('shop', 'correct horse')}, Bearer x",
    ],
)
def test_sender_that_shows_nothing_known_is_refused_with_401(authorization: str | None) -> None:
    create = Foreign().create()
    headers = {} if authorization is None else {"Authorization": authorization}
    with desk() as (url, _):
        reply = Desk(url.removeprefix("http://").partition("/")[0]).post(create.body, create.content_type, **headers)
    assert reply.status == 401
    assert reply.headers["www-authenticate"] == 'Basic realm="the desk", charset="UTF-8", Bearer realm="the desk"'


def test_sequence_of_a_password_takes_nothing_from_another_sender_and_all_from_its_own_token() -> None:
    foreign = Foreign()
    with desk() as (url, _):
        at = Desk(url.removeprefix("http://").partition("/")[0])

        def post(message: HttpMessage, authorization: str) -> bytes:
            return at.post(message.body, message.content_type, Authorization=authorization).body

        made = post(foreign.create(), basic("shop", "correct horse"))
        identifier = made.split(b"Identifier>", 1)[1].split(b"</", 1)[0].decode()
        forged = foreign.terminate(identifier, message_id="urn:end")
        assert b"UnknownSequence" in post(forged, f"Bearer {TOKENS['till']}")
        asked = foreign.alone(foreign.ack_requested(identifier))
        assert b"SequenceAcknowledgement" in post(asked, f"bearer  {TOKENS['shop']}")


def request(headers: Mapping[str, str]) -> HttpRequest:
    return HttpRequest(path="/", client="127.0.0.1", headers=headers, certificate=None)


def test_older_clients_write_names_and_passwords_in_iso_8859_1() -> None:
    accounts = Accounts(passwords=PASSWORDS)
    assert accounts(request({"authorization": basic("Bräu", PASSWORDS["Bräu"], "latin-1")})) == "Bräu"
    with pytest.raises(NotAuthenticated) as refused:
        accounts(request({"authorization": f"Bearer {PASSWORDS['shop']}"}))
    assert refused.value.challenge == 'Basic realm="mercury", charset="UTF-8"'
    with pytest.raises(NotAuthenticated) as refused:
        Accounts(tokens=TOKENS)(request({}))
    assert refused.value.challenge == 'Bearer realm="mercury"'


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({}, "neither"),
        ({"passwords": {"a:b": "hush"}}, "colon"),
        ({"passwords": {"": "hush"}}, "empty"),
        ({"tokens": {"a": " "}}, "empty"),
        ({"tokens": {"a": "hush", "b": "hush"}}, "same token"),
        ({"tokens": {"a": "hush"}, "realm": 'x"y'}, "realm"),
    ],
)
def test_accounts_that_admit_nobody_or_anybody_are_refused(arguments: dict[str, dict[str, str]], why: str) -> None:
    with pytest.raises(ConfigurationError, match=why) as refused:
        Accounts(**arguments)  # type: ignore[arg-type]
    assert "hush" not in str(refused.value)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"user": "shop"}, "password"),
        ({"password": "hush"}, "user"),
        ({"user": "", "password": "hush"}, "empty"),
        ({"user": "a:b", "password": "hush"}, "colon"),
        ({"user": "a", "password": "hush\r\nX: y"}, "control"),
        ({"user": "a", "password": "hush", "token": "hush"}, "together"),
        ({"token": "hush hush"}, "characters"),
        ({"token": "hush", "headers": {"authorization": "x"}}, "Authorization"),
    ],
)
def test_credentials_that_cannot_be_sent_are_refused_without_showing_them(
    arguments: dict[str, object], why: str
) -> None:
    with pytest.raises(ConfigurationError, match=why) as refused:
        Peer(**arguments)  # type: ignore[arg-type]
    assert "hush" not in str(refused.value)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"basic": ("https://a.example=shop",)}, "basic: entry 1"),
        ({"basic": ("shop:hush",)}, "basic: entry 1"),
        ({"basic": ("https://u:hush@a.example=shop:hush",)}, "basic: entry 1"),
        ({"bearer": ("https://a.example=hush", "https://b.example=")}, "bearer: entry 2"),
        ({"bearer": ("https://a.example=hush hush",)}, "bearer: entry 1"),
        ({"bearer": ("hush=https://a.example",)}, "bearer: entry 1"),
        ({"basic": ("https://a.example=u:hush",), "bearer": ("https://a.example=hush",)}, "two entries"),
    ],
)
def test_setting_that_is_no_credential_is_refused_without_showing_it(
    arguments: dict[str, tuple[str, ...]], why: str
) -> None:
    with pytest.raises(ConfigurationError, match=why) as refused:
        CredentialSettings(**arguments)
    assert "hush" not in str(refused.value)


def test_credentials_of_the_settings_are_added_to_the_peers_of_the_program() -> None:
    named = Peer(identity="partner", headers={"X-Key": "1"})
    own = Peer(token="of-the-program")
    peers = {"https://a.example": named, "https://b.example/": own}
    credentials = CredentialSettings(
        basic=("https://a.example/in=u:p", "https://b.example=u:p"), bearer=("https://c.example=t",)
    )
    found = Peers(credentials.added_to(peers, Peer()))
    inside = found.find("https://a.example/in/x").peer
    assert (inside.identity, inside.every_header) == ("partner", {"X-Key": "1", "Authorization": basic("u", "p")})
    assert found.find("https://a.example/out").peer is named
    assert found.find("https://b.example").peer.every_header == {"Authorization": "Bearer of-the-program"}
    assert found.find("https://c.example").peer.every_header == {"Authorization": "Bearer t"}
    assert found.find("https://d.example").peer.every_header == {}
    assert "of-the-program" not in repr(own)
