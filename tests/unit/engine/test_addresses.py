"""AddressPolicy: a peer's address is used only if it is below a listed one, in whatever form it is written."""

from __future__ import annotations

import pytest

from mercury.engine.addresses import AddressPolicy, split_url
from mercury.errors import ConfigurationError
from mercury.statemachine.messages import ANONYMOUS_ENDPOINT, NONE, EndpointReference


def allows(entry: str, address: str) -> bool:
    return AddressPolicy((entry,)).allows(address)


# --- what is allowed -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entry", "address"),
    [
        ("http://allowed.example", "http://allowed.example"),
        ("http://allowed.example", "http://allowed.example/"),
        ("http://allowed.example", "http://allowed.example/any/path?and=query"),
        ("http://allowed.example/", "http://allowed.example"),
        ("http://allowed.example", "http://allowed.example:80/a"),
        ("http://allowed.example:80", "http://allowed.example/a"),
        ("https://allowed.example", "https://allowed.example:443/a"),
        ("http://Allowed.EXAMPLE", "HTTP://aLLOWED.example/a"),
        ("http://10.0.0.5:9000/", "http://10.0.0.5:9000/acks"),
        ("http://127.0.0.1:*", "http://127.0.0.1:1/a"),
        ("http://127.0.0.1:*", "http://127.0.0.1:65535/a"),
        ("http://127.0.0.1:*", "http://127.0.0.1/a"),
        ("http://127.0.0.1:*/acks", "http://127.0.0.1:5000/acks/7"),
        ("http://allowed.example/a", "http://allowed.example/a"),
        ("http://allowed.example/a", "http://allowed.example/a?b=c"),
        ("http://allowed.example/a", "http://allowed.example/a/b"),
        ("http://allowed.example/a/", "http://allowed.example/a/b"),
        ("http://allowed.example/a/", "http://allowed.example/a/100%25/%2541"),
        ("http://[::1]:9000", "http://[::1]:9000/acks"),
        ("http://[::1]:*", "http://[::1]:77/acks"),
        ("http://[2001:DB8::1]", "http://[2001:db8::1]/"),
        ("*", "http://anything.example:12345/at/all"),
        ("*", "https://[::1]/"),
    ],
)
def test_path_below_an_entry_is_allowed(entry: str, address: str) -> None:
    assert allows(entry, address)


def test_one_entry_of_many_is_enough() -> None:
    policy = AddressPolicy(("http://a.example", "http://b.example:*/x", "https://c.example"))
    assert policy.allows("http://b.example:99/x")
    assert policy.allows("https://c.example/")
    assert not policy.allows("http://c.example/")


def test_nothing_is_allowed_unless_it_is_listed() -> None:
    assert not AddressPolicy().allows("http://127.0.0.1/")


# --- what is not -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entry", "address"),
    [
        pytest.param("http://allowed.example", "http://allowed.example.evil.com/", id="the host goes on"),
        pytest.param("http://allowed.example", "http://evil-allowed.example/", id="the host begins before"),
        pytest.param("http://allowed.example", "http://sub.allowed.example/", id="a host below"),
        pytest.param("http://allowed.example", "http://allowed.example@evil.com/", id="the host is a user"),
        pytest.param("http://allowed.example", "http://allowed.example:80@evil.com/", id="host and port are a user"),
        pytest.param("http://allowed.example", "http://user:password@allowed.example/", id="a user"),
        pytest.param("http://allowed.example", "http://@allowed.example/", id="an empty user"),
        pytest.param("http://allowed.example", "http://evil.com/http://allowed.example/", id="the entry in the path"),
        pytest.param("http://allowed.example", "http://evil.com#http://allowed.example/", id="the entry in a fragment"),
        pytest.param("http://allowed.example", "http://evil.com\\@allowed.example/", id="a backslash before the host"),
        pytest.param("http://allowed.example", "http://allowed.example\\.evil.com/", id="a backslash after the host"),
        pytest.param("http://allowed.example", "http://allowed.example%2eevil.com/", id="an escape in the host"),
        pytest.param("http://allowed.example", "http://allowed.example./", id="a host with a last dot"),
        pytest.param("http://allowed.example", "https://allowed.example/", id="another scheme"),
        pytest.param("http://allowed.example", "https://allowed.example:80/", id="another scheme at the same port"),
        pytest.param("http://allowed.example", "http://allowed.example:8080/", id="another port"),
        pytest.param("http://allowed.example", "http://allowed.example:0/", id="port nought"),
        pytest.param("http://allowed.example:9000", "http://allowed.example/", id="the scheme's port"),
        pytest.param("http://allowed.example:9000", "http://allowed.example:90000/", id="a port that goes on"),
        pytest.param("http://127.0.0.1:*", "http://127.0.0.10:1/", id="a number that goes on"),
        pytest.param("http://127.0.0.1:*", "http://2130706433:1/", id="the same host in other words"),
        pytest.param("http://127.0.0.1:*", "http://localhost:1/", id="its name"),
        pytest.param("http://[::1]:*", "http://[::2]:1/", id="another IPv6 host"),
        pytest.param("http://[::1]:*", "http://[::1", id="no IPv6 host"),
        pytest.param("http://[::1]:7/", "http://[::1]evil:7/", id="a host behind the brackets"),
        pytest.param("http://[::1]:7/", "http://evil[::1]:7/", id="a host before the brackets"),
        pytest.param("http://[::1]:*", "http://[::1]evil/", id="a host behind the brackets, any port"),
        pytest.param("*", "http://[::1]evil:7/", id="a host behind the brackets, with everything allowed"),
        pytest.param("http://allowed.example/a", "http://allowed.example/ab", id="a path that goes on"),
        pytest.param("http://allowed.example/a", "http://allowed.example/", id="a path above"),
        pytest.param("http://allowed.example/a", "http://allowed.example/A", id="a path in capitals"),
        pytest.param("http://allowed.example/a", "http://allowed.example//a", id="another path"),
        pytest.param("http://allowed.example/a/", "http://allowed.example/a", id="a path without its slash"),
        pytest.param("http://allowed.example/a", "http://allowed.example/a/../b", id="a path that climbs"),
        pytest.param("http://allowed.example/a", "http://allowed.example/a/b/../../c", id="a path that climbs later"),
        pytest.param("http://allowed.example/a", "http://allowed.example/a/%2E%2e/b", id="escaped dots"),
        pytest.param("http://allowed.example/a", "http://allowed.example/a/%252e%252e/b", id="dots escaped twice"),
        pytest.param("http://allowed.example/a", "http://allowed.example/a/%25252e./b", id="a dot escaped three times"),
        pytest.param("http://allowed.example/a", "http://allowed.example/a/..%2fb", id="an escaped slash"),
        pytest.param("http://allowed.example/a", "http://allowed.example/a/..%252fb", id="a slash escaped twice"),
        pytest.param("http://allowed.example/a", "http://allowed.example/a/..\\b", id="a backslash that climbs"),
        pytest.param("http://allowed.example/a", "http://allowed.example/a/..;x/b", id="dots with a parameter"),
        pytest.param("http://allowed.example/a", "http://allowed.example/a/./b", id="a path with a dot"),
        pytest.param("http://allowed.example", "file:///etc/passwd", id="a file"),
        pytest.param("*", "file:///etc/passwd", id="a file, with everything allowed"),
        pytest.param("*", "http://user@anything.example/", id="a user, with everything allowed"),
        pytest.param("*", "http://anything.example:99999/", id="no port, with everything allowed"),
        pytest.param("*", "http:///path", id="no host, with everything allowed"),
        pytest.param(
            "*", "http://docs.oasis-open.org/ws-rx/wsmc/200702/anonymous?id=7", id="who asks by MakeConnection"
        ),
        pytest.param("*", "http://www.w3.org/2005/08/addressing/anonymous", id="anonymous, of the other version"),
        pytest.param("*", "http://schemas.xmlsoap.org/ws/2004/08/addressing/role/anonymous", id="anonymous, of 2004"),
        pytest.param("*", "anything.example", id="no URL"),
        pytest.param("*", "", id="nothing"),
    ],
)
def test_address_that_only_resembles_an_entry_is_not_allowed(entry: str, address: str) -> None:
    assert not allows(entry, address)


# --- entries ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "entry",
    ["", "allowed.example", "ftp://allowed.example", "http://", "http://:80", "http://allowed.example:port", "http://[::1",
     "http://allowed.example:99999", "http://*.example", "http://allowed.example/*", "http://allowed.example:8*",
     "http://allowed.example/a:*", "http://user:password@allowed.example", "http://allowed.example/?a=b",
     "http://allowed.example/#a", "**", "http://*:*"],
)  # fmt: skip
def test_an_entry_that_would_never_match_is_an_error_at_once(entry: str) -> None:
    with pytest.raises(ConfigurationError):
        AddressPolicy((entry,))


# --- endpoint references ---------------------------------------------------------------------------------------------


def test_only_an_address_can_be_refused() -> None:
    policy = AddressPolicy()
    assert policy.refusal("AcksTo", None) is None
    assert policy.refusal("AcksTo", ANONYMOUS_ENDPOINT) is None
    assert policy.refusal("AcksTo", EndpointReference(NONE)) is None
    refused = policy.refusal("AcksTo", EndpointReference("http://evil.example/a"))
    assert refused == "AcksTo http://evil.example/a is not in this endpoint's list of allowed addresses"
    assert AddressPolicy(("*",)).refusal("AcksTo", EndpointReference("http://peer.example/a")) is None


@pytest.mark.parametrize("url", ["http://a.example:8000/b?c=d", "https://[::1]/", "http://a"])
def test_a_url_is_split(url: str) -> None:
    assert split_url(url).geturl() == url


@pytest.mark.parametrize(
    "url",
    ["", "a", "/a", "http:/a", "mailto:a@b", "http://a:b", "http://a:-1", "http://[", "ws://a", "http://a/ b", "http://a/b\n",
     "http://a/b\r\nX: y", " http://a/b", "http://a b/", "http://a/\x7f", "http://a/ä", "http://a/?ä", "http://a:99999/"],
)  # fmt: skip
def test_invalid_endpoint_is_refused_with_the_expected_form(url: str) -> None:
    with pytest.raises(ConfigurationError, match=r"not a URL to send to: .* \(http://host:port/path is needed\)"):
        split_url(url)


def test_list_of_addresses_without_its_scheme_is_refused_with_the_form_that_it_needs() -> None:
    for url in ("http://a/x,http://b/x", "masterslave:(http://a/x,http://b/x)", "discovery:(static:(http://a/x))"):
        with pytest.raises(ConfigurationError, match=r"several addresses are failover:\(URL,URL\)"):
            split_url(url)
