"""Where the addresses of a destination are looked up; what is wrong is said at once."""

from __future__ import annotations

import pytest

from mercury.engine.address_book import AddressBook, FailoverSettings
from mercury.engine.discovery_settings import DiscoverySettings
from mercury.engine.discovery_uri import read_destination
from mercury.engine.failover_uri import is_failover, read_failover
from mercury.engine.stage_room import StageSettings
from mercury.errors import ConfigurationError
from mercury.settings import Settings
from mercury.statemachine.failover import AnnouncedMembers

REGISTRY = "discovery:(registry:https://lists.example/desk)"
DNS = "discovery:(dns:_mercury._tcp.example.org)?path=/services/desk"

ZEROCONF = "discovery:(zeroconf:_mercury._tcp.local.)?path=/services/desk"
MULTICAST = "discovery:(multicast://239.255.42.99:6155)?path=/services/desk"


def test_static_list_is_the_same_destination_as_the_list() -> None:
    assert read_destination("discovery:(static:(http://a/x,http://b/x))?initialReconnectDelay=50") == read_failover(
        "failover:(http://a/x,http://b/x)?initialReconnectDelay=50"
    )


def test_registry_and_name_have_no_addresses_before_they_are_looked_up() -> None:
    registry = read_destination(f"{REGISTRY}?maxReconnectDelay=100&filter=https://.*")
    assert (registry.endpoint, registry.urls) == (REGISTRY, ())
    assert (registry.options.update_url, registry.options.max_delay) == ("https://lists.example/desk", 0.1)
    assert registry.options.members_filter == "https://.*"
    dns = read_destination(f"{DNS}&scheme=http&nameserver=127.0.0.1:53")
    assert dns.options.update_srv is not None
    assert (dns.options.update_srv.scheme, dns.options.update_srv.nameserver) == ("http", "127.0.0.1:53")
    assert is_failover(dns.endpoint)
    assert is_failover(registry.endpoint)


@pytest.mark.parametrize("uri", [REGISTRY, DNS, f"{DNS}%3Fa%26b&scheme=http", ZEROCONF, f"{MULTICAST}&group=g"])
def test_process_that_has_only_the_store_knows_where_to_look(uri: str) -> None:
    found = read_destination(uri)
    again = read_destination(found.endpoint)
    assert again == found
    assert AddressBook().options(found.endpoint) == found.options


def test_name_of_the_settings_may_be_looked_up() -> None:
    book = AddressBook(FailoverSettings(destinations=(f"desk={REGISTRY}",)))
    assert book.add("failover:desk").endpoint == "failover:desk"
    assert book.addresses("failover:desk") == ()
    with pytest.raises(ConfigurationError, match="looked up"):
        book.first("failover:desk")


@pytest.mark.parametrize(
    ("uri", "reason"),
    [
        ("discovery:desk", "no agent"),
        ("discovery:()", "no agent"),
        ("discovery:(carrier:pigeon)", "there is no agent 'carrier'"),
        ("discovery:(multicast://default)?path=/x", "multicast://239.255.42.99:6155"),
        ("discovery:(multicast://10.0.0.1:6155)?path=/x", "multicast://239.255.42.99:6155"),
        (f"{MULTICAST}&interface=eth0", "no IPv4 address"),
        (f"{MULTICAST}&nameserver=127.0.0.1:53", "nameserver: failover: has no such option"),
        ("discovery:(multicast://239.255.42.99:6155?group=a)?path=/x&group=b", "group: the option stands twice"),
        ("discovery:(zeroconf:_mercury._tcp.local.)", "path=/... is needed"),
        ("discovery:(zeroconf:_mercury._tcp.example.org)?path=/x", "_service._tcp.local."),
        (f"{ZEROCONF}&group=a,b", "group: 'a,b'"),
        ("discovery:(registry:ftp://x/y)", "not a URL"),
        ("discovery:(registry:http://u:p@x/y)", "has a user"),
        ("discovery:(static:())", "there is no address"),
        ("discovery:(static:(http://a/x,http://a/x))", "stands twice"),
        ("discovery:(dns:example.org)?path=/x", "_service._tcp.domain"),
        ("discovery:(dns:_mercury._tcp.example.org)", "path=/... is needed"),
        (f"{DNS}&scheme=ftp", "neither http nor https"),
        (f"{DNS}&nameserver=dns.example", "address:port"),
        (f"{DNS}&randomize=true", "order of their own"),
        (f"{DNS}&path=/y", "path: the option stands twice"),
        (f"{REGISTRY}?path=/x", "path: failover: has no such option"),
        (f"{REGISTRY}?filter=(", "is no pattern"),
        (f"{REGISTRY}?group=a", "group: "),
        (f"{REGISTRY}?reconnectDelay=10", "it is initialReconnectDelay"),
        (f"{REGISTRY}?priorityBackup=true", "not known before"),
        (f"{REGISTRY}?updateURIsURL=http://x/y", "is what is read"),
        (f"{REGISTRY}?initialReconnectDelay=x", "is not a number"),
        (f"{REGISTRY}?x", "name=value"),
    ],
)
def test_error_is_raised_at_once(uri: str, reason: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        read_destination(uri)
    assert reason in str(raised.value)


def test_extra_that_is_not_installed_is_said_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mercury.engine.discovery_uri.find_spec", lambda _: None)
    for uri in (DNS, ZEROCONF):
        with pytest.raises(ConfigurationError, match="mercury-rm\\[discovery\\]"):
            read_destination(uri)
    monkeypatch.setattr("mercury.engine.discovery_settings.find_spec", lambda _: None)
    with pytest.raises(ConfigurationError, match="mercury-rm\\[discovery\\]"):
        DiscoverySettings(zeroconf="_mercury._tcp.local.")


def test_members_of_the_local_network_are_of_a_group() -> None:
    found = read_destination(f"{ZEROCONF}&filter=https://.*&interface=127.0.0.1")
    assert found.options.update_announced == AnnouncedMembers(
        agent="zeroconf",
        name="_mercury._tcp.local",
        group="default",
        path="/services/desk",
        interface="127.0.0.1",
    )
    assert (found.options.members_filter, found.options.asks, found.urls) == ("https://.*", True, ())
    inside = read_destination("discovery:(multicast://239.255.42.99:6155?group=g)?path=/services/desk")
    assert inside == read_destination(f"{MULTICAST}&group=g")


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"zeroconf": "mercury"}, "zeroconf: "),
        ({"multicast": "239.255.42.99"}, "multicast: "),
        ({"multicast": "239.255.42.99:0"}, "multicast: "),
        ({"group": ""}, "group: "),
        ({"interface": "lo"}, "interface: "),
    ],
)
def test_wrong_setting_of_an_announcement_is_named(settings: dict[str, str], reason: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        DiscoverySettings(**settings)
    assert str(raised.value).startswith(reason)


def test_announcement_needs_an_address_and_no_stage() -> None:
    with pytest.raises(ConfigurationError, match=r"discovery.multicast: it needs failover.public_address"):
        Settings(discovery=DiscoverySettings(multicast="239.255.42.99:6155"))
    with pytest.raises(ConfigurationError, match=r"discovery.multicast: sequences behind a stage"):
        Settings(
            discovery=DiscoverySettings(multicast="239.255.42.99:6155"),
            failover=FailoverSettings(public_address="http://a"),
            stage=StageSettings(store="sqlite:///stage.db"),
        )
