"""The URI of a destination with several addresses: what works, what is refused, and the reason."""

from __future__ import annotations

import pytest

from mercury import ConfigurationError, Mercury, Peer, Settings
from mercury.engine.address_book import AddressBook, FailoverSettings
from mercury.engine.failover_uri import read_failover
from mercury.engine.runtime.peers import Peers
from mercury.statemachine.failover import FailoverOptions

A, B = "http://a.example/svc", "http://b.example:81/svc"
BOTH = f"failover:({A},{B})"


def test_options_left_out_have_the_defaults_that_the_name_promises() -> None:
    found = read_failover(BOTH)
    assert found.urls == (A, B)
    assert found.options == FailoverOptions(
        initial_delay=0.01,
        max_delay=30.0,
        multiplier=2.0,
        max_attempts=-1,
        startup_max_attempts=-1,
        randomize=True,
        timeout=None,
        exchange_timeout=None,
        warn_after=10,
        priority=frozenset(),
    )


@pytest.mark.parametrize(
    ("option", "attribute", "value"),
    [
        ("initialReconnectDelay=50", "initial_delay", 0.05),
        ("maxReconnectDelay=2000", "max_delay", 2.0),
        ("useExponentialBackOff=false", "multiplier", 1.0),
        ("backOffMultiplier=1.5", "multiplier", 1.5),
        ("maxReconnectAttempts=0", "max_attempts", 0),
        ("startupMaxReconnectAttempts=3", "startup_max_attempts", 3),
        ("randomize=false", "randomize", False),
        ("timeout=3000", "timeout", 3.0),
        ("nested.timeout=700", "exchange_timeout", 0.7),
        ("warnAfterReconnectAttempts=4", "warn_after", 4),
        ("priorityBackup=true", "priority", frozenset([A])),
        (f"priorityBackup=true&priorityURIs={B}", "priority", frozenset([B])),
        ("trackMessages=true", "timeout", None),  # what is not acknowledged is always sent again
        ("backup=false", "timeout", None),
        ("updateURIsSupported=false", "updates", False),
        ("updateURIsSupported=true", "updates", True),
        ("updateURIsURL=http://a/list?x=1", "update_url", "http://a/list?x=1"),
    ],
)
def test_option_works(option: str, attribute: str, value: object) -> None:
    assert getattr(read_failover(f"{BOTH}?{option}").options, attribute) == value


@pytest.mark.parametrize(
    ("uri", "reason"),
    [
        (f"{BOTH}?backup=true", "backup: no spare connection is kept"),
        (f"{BOTH}?maxCacheSize=1", "maxCacheSize: what is not acknowledged is in the store"),
        (f"{BOTH}?updateURIsURL=file:///etc/members", "updateURIsURL: 'file:///etc/members' is no http"),
        (f"{BOTH}?updateURIsURL=http:///x", "not a URL to send to"),
        (f"{BOTH}?updateURIsSupported=yes", "updateURIsSupported: 'yes' is neither true nor false"),
        (f"{BOTH}?nested.wireFormat=1", "nested.wireFormat: of the options of each address"),
        (f"{BOTH}?randomise=true", "randomise: .*did you mean randomize"),
        (f"{BOTH}?randomize=yes", "randomize: 'yes' is neither true nor false"),
        (f"{BOTH}?trackMessages=1", "trackMessages: '1' is neither"),
        (f"{BOTH}?timeout=soon", "timeout: 'soon' is not a number"),
        (f"{BOTH}?timeout=-2", "timeout: -2 is not at least 0"),
        (f"{BOTH}?backOffMultiplier=nan", "backOffMultiplier: nan is out of range"),
        (f"{BOTH}?backOffMultiplier=0.5", "backOffMultiplier: 0.5 is not at least 1"),
        (f"{BOTH}?initialReconnectDelay=0", "initialReconnectDelay: 0 is not at least 1"),
        (f"{BOTH}?maxReconnectDelay=5", "maxReconnectDelay: it is shorter"),
        (f"{BOTH}?maxReconnectAttempts=-2", "maxReconnectAttempts: -2 is not at least -1"),
        (f"{BOTH}?randomize=true&randomize=false", "randomize: the option stands twice"),
        (f"{BOTH}?priorityURIs={A}", "priorityURIs: it needs priorityBackup=true"),
        (f"{BOTH}?priorityBackup=true&priorityURIs=http://c/", "priorityURIs: 'http://c/' is not in the list"),
        (f"{BOTH}?randomize", "not of the form name=value"),
        (f"failover:{A},{B}", "not a list of addresses"),
        (f"failover:({A},{B}", "not a list of addresses"),
        (f"failover:({A},{B}))", "not a list of addresses"),
        ("failover:()", r"there is no address in 'failover:\(\)'"),
        (f"failover:({A},)", "not a URL to send to: ''"),
        (f"failover:({A},tcp://b:61616)", "not a URL to send to: 'tcp://b:61616'"),
        (f"failover:({A},http://me:secret@b/svc)", "a user's name and password"),
        (f"failover:({A},{B}#part)", "what follows #"),
        (f"failover:({A},{A})", "an address stands twice"),
        (f"failover:({A},failover:{B})", "cannot contain another list"),
        ("failover:orders?x=1", "not a list of addresses"),
        ("failover:orders", "failover:orders is not among the destinations of the settings"),
    ],
)
def test_wrong_uri_is_refused_at_once(uri: str, reason: str) -> None:
    with Mercury("memory:") as mercury, pytest.raises(ConfigurationError, match=reason):
        mercury.to(uri)


def test_destination_is_known_by_its_addresses_in_any_order() -> None:
    assert read_failover(f"failover:({B},{A})?randomize=false").endpoint == read_failover(BOTH).endpoint == BOTH


def test_same_addresses_cannot_have_two_sets_of_options() -> None:
    with Mercury("memory:") as mercury:
        mercury.to(f"{BOTH}?randomize=false")
        mercury.to(f"{BOTH}?randomize=false", key="other")
        with pytest.raises(ConfigurationError, match="in use with other options"):
            mercury.to(f"{BOTH}?timeout=1")
        mercury.to(mercury.to(f"{BOTH}?randomize=false").endpoint)
        assert not mercury.peers.addresses.options(BOTH).randomize, "the endpoint means the destination as it is known"


def test_settings_name_a_destination_whose_addresses_may_change() -> None:
    settings = Settings(failover=FailoverSettings(destinations=(f"orders={BOTH}?timeout=5",)))
    with Mercury("memory:", settings=settings) as mercury:
        mercury.to("failover:orders")
        assert mercury.peers.addresses.options("failover:orders").timeout == 0.005
        assert mercury.peers.addresses.first("failover:orders") == A


@pytest.mark.parametrize(
    ("entries", "reason"),
    [
        ((BOTH,), "destinations: "),
        ((f"a b={BOTH}",), "destinations: a b: "),
        ((f"a={BOTH}?x=1",), "destinations: a: x: failover: has no such option"),
        ((f"a={BOTH}", f"a={BOTH}"), "a name stands there twice"),
    ],
)
def test_wrong_destination_in_the_settings_is_refused(entries: tuple[str, ...], reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        FailoverSettings(destinations=entries)


def test_addresses_of_one_destination_have_one_set_of_peer_settings() -> None:
    with (
        Mercury("memory:", peers={A: Peer(token="a")}) as mercury,
        pytest.raises(ConfigurationError, match="other settings for some addresses"),
    ):
        mercury.to(BOTH)


def test_destination_that_left_the_settings_has_the_settings_of_other_peers() -> None:
    peers = Peers({A: Peer(token="a")})
    assert peers.find("failover:gone").peer.token is None
    assert peers.find(f"failover:({A})").peer.token == "a"


def test_list_that_only_the_store_knows_has_the_defaults_until_the_application_names_it() -> None:
    book = AddressBook()
    assert book.choose(BOTH, 0.0, 0.0) == A
    book.add(f"failover:({B},{A})?randomize=false")
    assert [each.url for each in book.addresses(BOTH)] == [B, A]
    assert not book.options(BOTH).randomize
