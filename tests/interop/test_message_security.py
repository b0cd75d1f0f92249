"""WS-Security with other stacks, live: users, signatures with X.509 in both directions, and encryption."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from mercury.wsdl.write_security import RequiredSecurity
from tests.keys import Keys, keys  # noqa: F401  a fixture
from tests.ports import free_port

from . import secured
from .peers import Peer, java_peer, mercury_peer

COUNT = 20
NUMBERS = list(range(1, COUNT + 1))
#: What a message has, and how it is exchanged: a sample of the cells in docs/interop.md, so that it takes a minute.
CELLS = {
    "metro client": [("user", "one-way"), ("signed", "request")],
    "metro server": [("user", "one-way"), ("both", "request")],
    "cxf client": [("user", "request"), ("both", "one-way"), ("encrypted", "request")],
    "cxf server": [("user", "request"), ("encrypted", "one-way")],
}
#: The kinds of cells in which the sender is a user.
USERS = ("user", "both")


@pytest.fixture(scope="module")
def metro(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    yield from java("metro", tmp_path_factory.mktemp("metro"))


@pytest.fixture(scope="module")
def cxf(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    yield from java("cxf", tmp_path_factory.mktemp("cxf"))


def java(stack: str, folder: Path) -> Iterator[Peer]:
    # A copy that the HTTP client of the JDK sends unasked when a connection breaks would be refused: docs/interop.md.
    options = (f"-Dpeer.password={secured.PASSWORD}", "-Dsun.net.http.retryPost=false")
    with java_peer(stack, folder, stack, *options) as peer:
        yield peer


# --- services of Mercury ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "exchange"), CELLS["metro client"])
def test_metro_client_needs_only_the_published_wsdl_and_its_keys(
    kind: str,
    exchange: str,
    metro: Peer,
    keys: Keys,  # noqa: F811
    tmp_path: Path,
) -> None:
    with mercury_peer(tmp_path, "mercury", free_port(), **service_settings(kind, keys, tmp_path)) as service:
        url = service.ask("serve")["url"]
        stores = secured.key_stores(keys, "till", "authority", "shop")
        own = [*secured.metro_stores("client", stores, "shop"), secured.metro_user()]
        wsdl = secured.for_client(published(url), own, tmp_path / "client.wsdl")
        sends_all(metro, service, exchange, url=url, wsdl=wsdl, rm="1.1")


@pytest.mark.parametrize(("kind", "exchange"), CELLS["cxf client"])
def test_cxf_client_needs_only_the_published_wsdl_and_its_keys(
    kind: str,
    exchange: str,
    cxf: Peer,
    keys: Keys,  # noqa: F811
    tmp_path: Path,
) -> None:
    with mercury_peer(tmp_path, "mercury", free_port(), **service_settings(kind, keys, tmp_path)) as service:
        url = service.ask("serve")["url"]
        wsdl = secured.for_client(published(url), [], tmp_path / "client.wsdl")
        stores = secured.key_stores(keys, "till", "authority", "shop")
        own = secured.cxf_settings(stores, tmp_path / "cxf.properties", "till", "shop")
        sends_all(cxf, service, exchange, url=url, wsdl=wsdl, **own, **secured.CXF_USER)


def sends_all(client: Peer, service: Peer, exchange: str, **words: object) -> None:
    named = {"service": "orders", "port": "ordersSoap11", "cell": "c", "count": COUNT, "exchange": exchange}
    assert client.ask("send", **named, **words)["wrong"].strip() == ""
    assert service.received("c") == NUMBERS


def published(url: str) -> bytes:
    with urllib.request.urlopen(f"{url}?wsdl") as reply:
        document: bytes = reply.read()
    return document


def service_settings(kind: str, keys: Keys, folder: Path) -> dict[str, str]:  # noqa: F811
    found = {}
    if kind in USERS:
        users = folder / "users"
        users.write_text(f"{secured.USER}:{secured.PASSWORD}\n")
        found["MERCURY_SECURITY_USERS"] = f"orders={users}"
    if kind != "user":
        found["MERCURY_SECURITY_CERTIFICATE"] = f"orders={keys.file('shop')}"
        found["MERCURY_SECURITY_TRUSTED"] = f"orders={keys.public('authority')}"
    if kind == "encrypted":
        found["MERCURY_SECURITY_REQUIRE_ENCRYPTION"] = "orders"
    return found


# --- clients of Mercury ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "exchange"), CELLS["metro server"])
def test_metro_server_takes_the_messages_of_a_mercury_client(
    kind: str,
    exchange: str,
    metro: Peer,
    keys: Keys,  # noqa: F811
    tmp_path: Path,
) -> None:
    port, url = place()
    stores = secured.key_stores(keys, "shop", "authority", "till")
    own = [*secured.metro_stores("server", stores), secured.metro_users()]
    wsdl = secured.for_server(required(kind), url, own, tmp_path / "server.wsdl")
    metro.ask("serve", port=port, soap="1.1", wsdl=wsdl)
    takes_all(metro, kind, exchange, url, endpoint_settings(kind, url, keys), tmp_path)


@pytest.mark.parametrize(("kind", "exchange"), CELLS["cxf server"])
def test_cxf_server_takes_the_messages_of_a_mercury_client(
    kind: str,
    exchange: str,
    cxf: Peer,
    keys: Keys,  # noqa: F811
    tmp_path: Path,
) -> None:
    port, url = place()
    wsdl = secured.for_server(required(kind), url, [], tmp_path / "server.wsdl")
    stores = secured.key_stores(keys, "shop", "authority", "till")
    own = secured.cxf_settings(stores, tmp_path / "cxf.properties", "shop", "till")
    cxf.ask("serve", port=port, wsdl=wsdl, **own, **secured.CXF_USERS)
    takes_all(cxf, kind, exchange, url, endpoint_settings(kind, url, keys), tmp_path)


def takes_all(server: Peer, kind: str, exchange: str, url: str, settings: dict[str, str], folder: Path) -> None:
    words = {"url": url, "rm": "1.1", "wsa": "1.0", "soap": "1.1", "exchange": exchange, "count": COUNT}
    with mercury_peer(folder, "mercury", free_port(), **settings) as client:
        result = client.ask("send", cell=kind, patience=60, **words)
        assert result["wrong"].strip() == ""
        assert server.received(kind) == NUMBERS
        if exchange == "request":
            assert sorted(map(int, result["answers"].split(","))) == NUMBERS


@pytest.mark.parametrize("stack", ["metro", "cxf"])
def test_server_delivers_nothing_of_a_client_that_does_not_sign(
    stack: str,
    request: pytest.FixtureRequest,
    keys: Keys,  # noqa: F811
    tmp_path: Path,
) -> None:
    """The servers of these tests check what their policy says."""
    server: Peer = request.getfixturevalue(stack)
    port, url = place()
    stores = secured.key_stores(keys, "shop", "authority", "till")
    own = secured.metro_stores("server", stores) if stack == "metro" else []
    words = secured.cxf_settings(stores, tmp_path / "cxf.properties", "shop", "till") if stack == "cxf" else {}
    wsdl = secured.for_server(required("signed"), url, own, tmp_path / "server.wsdl")
    server.ask("serve", port=port, soap="1.1", wsdl=wsdl, **words)
    with mercury_peer(tmp_path, "mercury", free_port()) as client:
        named = {"url": url, "cell": "stranger", "rm": "1.1", "wsa": "1.0", "soap": "1.1", "exchange": "one-way"}
        assert "1 still wait" in client.ask("send", count=1, patience=1, **named)["wrong"]
    assert server.received("stranger") == []


def place() -> tuple[int, str]:
    port = free_port()
    return port, f"http://127.0.0.1:{port}/orders"


def required(kind: str) -> RequiredSecurity:
    return RequiredSecurity(user=kind in USERS, signed=kind != "user", encrypted=kind == "encrypted")


def endpoint_settings(kind: str, url: str, keys: Keys) -> dict[str, str]:  # noqa: F811
    found = {}
    if kind in USERS:
        found["MERCURY_SECURITY_USER"] = f"{url}={secured.USER}:{secured.PASSWORD}"
    if kind != "user":
        found["MERCURY_SECURITY_CERTIFICATE"] = f"{url}={keys.file('till')}"
        found["MERCURY_SECURITY_TRUSTED"] = f"{url}={keys.public('authority')}"
    if kind == "encrypted":
        found["MERCURY_SECURITY_ENCRYPT_FOR"] = f"{url}={keys.public('shop')}"
        found["MERCURY_SECURITY_REQUIRE_ENCRYPTION"] = url
    return found
