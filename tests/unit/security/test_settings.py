"""WS-Security in the settings: which place gets what, and which entries are refused without showing a secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from mercury import ConfigurationError, Mercury, MessageSecurity, Peer, Service, Settings
from mercury.engine.runtime.credentials import CredentialSettings
from mercury.engine.runtime.peers import Peers
from mercury.engine.runtime.security_settings import SecuritySettings, read_users
from mercury.settings import explain, load

URL = "https://shop.example/"


def test_places_with_a_url_are_endpoints_and_others_are_services(tmp_path: Path) -> None:
    (tmp_path / "users").write_text("till:secret:with a colon\n")
    file = tmp_path / "mercury.toml"
    file.write_text(
        "[security]\n"
        f'user = ["{URL}=till:secret:with a colon"]\nusers = ["orders={tmp_path}/users"]\n'
        f'plain_password = ["{URL}", "orders"]\nmax_age = 60\nclock_skew = 5\n'
    )
    settings = load(file, {}).security
    peers = settings.added_to({}, Peer())
    expected = MessageSecurity(
        user="till", password="secret:with a colon", plain_password=True, max_age=60.0, clock_skew=5.0
    )
    assert {url: peer.security for url, peer in peers.items()} == {URL: expected}
    (service,) = settings.services().values()
    assert service.users == {"till": "secret:with a colon"}
    assert service.plain_password


def test_peer_of_a_program_keeps_its_own_security() -> None:
    own = Peer(security=MessageSecurity(user="own", password="x"))
    found = SecuritySettings(user=(f"{URL}=till:secret",)).added_to({URL: own}, Peer())
    assert found[URL] == own


def test_certificates_of_tls_stay_with_an_endpoint_that_gets_security() -> None:
    found = SecuritySettings(user=(f"{URL}orders=till:secret",)).added_to({URL: Peer(headers={"X-Shop": "1"})}, Peer())
    assert found[f"{URL}orders"].headers == {"X-Shop": "1"}
    assert found[URL].security is None


def security_of(url: str, security: SecuritySettings, peers: dict[str, Peer]) -> MessageSecurity | None:
    return Peers(security.added_to(peers, Peer())).find(url).peer.security


def test_credentials_below_a_place_with_security_keep_the_security() -> None:
    credentials = CredentialSettings(basic=(f"{URL}services/orders=till:pw",))
    security = SecuritySettings(user=(f"{URL}=till:secret",))
    peers = credentials.added_to({}, Peer())
    for path in ("", "services/other", "services/orders", "services/orders/late"):
        assert security_of(URL + path, security, peers) == MessageSecurity(user="till", password="secret"), path
    inside = Peers(security.added_to(peers, Peer())).find(f"{URL}services/orders").peer
    assert inside.authorization is not None


def test_entry_of_a_program_below_a_place_with_security_gets_the_security_unless_it_has_its_own() -> None:
    own = MessageSecurity(user="own", password="x")
    peers = {f"{URL}services/": Peer(headers={"X-Shop": "1"}), f"{URL}own": Peer(security=own)}
    security = SecuritySettings(user=(f"{URL}=till:secret",))
    assert security_of(f"{URL}services/orders", security, peers) == MessageSecurity(user="till", password="secret")
    assert security_of(f"{URL}own/orders", security, peers) == own
    assert security_of("https://other.example/services/", security, peers) is None
    assert security_of("http://shop.example/services/", security, peers) is None


@pytest.mark.parametrize("below", ["services", "services/orders"])
def test_credentials_do_not_put_the_security_of_a_program_in_the_place_of_a_nearer_one(below: str) -> None:
    settings = Settings(
        credentials=CredentialSettings(basic=(f"{URL}{below}=till:pw", f"{URL}stock=till:pw")),
        security=SecuritySettings(user=(f"{URL}services=near:x",)),
    )
    own = MessageSecurity(user="own", password="x")
    with Mercury("memory:", peers={URL: Peer(security=own)}, settings=settings) as mercury:
        for path, user in (("services", "near"), ("services/orders/1", "near"), ("stock", "own"), ("", "own")):
            found = mercury.peers.find(URL + path).peer.security
            assert found is not None
            assert found.user == user, path


def test_entry_gets_the_security_of_the_nearest_place_above_it_and_of_none_beside_it() -> None:
    peers = {f"{URL}{path}": Peer(headers={"X-Shop": "1"}) for path in ("services/orders", "services-of-others")}
    for users in ((f"{URL}=far:x", f"{URL}services=near:x"), (f"{URL}services=near:x", f"{URL}=far:x")):
        security = SecuritySettings(user=users)
        for path, user in (("services/orders", "near"), ("services-of-others", "far")):
            assert security_of(URL + path, security, peers) == MessageSecurity(user=user, password="x"), (users, path)


SPELLINGS = ["https://shop.example", "https://SHOP.example/", "https://shop.example:443/", "HTTPS://shop.example"]


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_spellings_of_a_url_are_one_place(spelling: str) -> None:
    security = SecuritySettings(user=(f"{spelling}=till:secret",), plain_password=(URL,))
    expected = MessageSecurity(user="till", password="secret", plain_password=True)
    assert security_of(f"{URL}orders", security, {}) == expected
    for known in (URL, spelling):
        peers = {known: Peer(headers={"X-Shop": "1"})}
        assert security_of(f"{URL}orders", security, peers) == expected
        assert len(security.added_to(peers, Peer())) == 1
    with pytest.raises(ConfigurationError, match="user: there are two entries"):
        SecuritySettings(user=(f"{URL}=a:secret", f"{spelling}=b:secret"))


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_two_entries_for_one_place_are_refused(spelling: str) -> None:
    with pytest.raises(ConfigurationError, match=r"peers: there are two entries for https://shop\.example:443/"):
        Peers({URL: Peer(), spelling: Peer(token="secret")})
    with pytest.raises(ConfigurationError, match="bearer: there are two entries"):
        CredentialSettings(basic=(f"{URL}=till:secret",), bearer=(f"{spelling}=secret",))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"user": ("till:secret",)}, "user: entry 1 is not of the form WHERE=VALUE"),
        ({"user": (f"{URL}=",)}, "user: entry 1 is not of the form WHERE=VALUE"),
        ({"user": ("https://till:secret@shop/=x:y",)}, "user: entry 1 does not begin with a URL"),
        ({"trusted": (f"{URL}=a", f"{URL}=b")}, "trusted: there are two entries"),
        ({"trusted": ("orders=a", "https:/shop.example/=b")}, "trusted: entry 2 does not begin with a URL or the name"),
        ({"trusted": ("shop.example:8443=a",)}, "trusted: entry 1 does not begin with a URL or the name"),
        ({"trusted": ("shop.example/services=a",)}, "trusted: entry 1 does not begin with a URL or the name"),
        ({"plain_password": ("my orders",)}, "plain_password: entry 1 does not begin with a URL or the name"),
        ({"trusted": ("ftp://shop.example/=a",)}, "trusted: entry 1 does not begin with a URL or the name"),
        ({"bind_sequences": (f"{URL}=1",)}, "bind_sequences: entry 1 is not of the form WHERE"),
        ({"max_age": 0.0}, "max_age"),
        ({"clock_skew": -1.0}, "clock_skew"),
    ],
)
def test_entry_that_is_none_is_refused_without_its_secret(options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message) as error:
        SecuritySettings(**options)  # type: ignore[arg-type]
    assert "secret" not in str(error.value)


def test_settings_that_do_not_fit_together_name_their_place() -> None:
    with pytest.raises(ConfigurationError, match=r"security of https://shop\.example/: bind_sequences"):
        SecuritySettings(bind_sequences=(URL,)).added_to({}, Peer())
    with pytest.raises(ConfigurationError, match="form URL=USER:PASSWORD"):
        SecuritySettings(user=(f"{URL}=till",)).added_to({}, Peer())


@pytest.mark.parametrize("text", ["till", ":secret", "till:", "till:a\ntill:b"])
def test_file_of_users_with_a_wrong_line_is_refused_without_showing_it(tmp_path: Path, text: str) -> None:
    file = tmp_path / "users"
    file.write_text(text)
    with pytest.raises(ConfigurationError, match=r"line \d of .*users is not of the form USER:PASSWORD"):
        read_users(str(file))
    with pytest.raises(ConfigurationError, match="cannot be read"):
        read_users(str(tmp_path / "missing"))


def hosted(security: MessageSecurity) -> None:
    service = Service("orders", security=security)

    @service.operation
    def take(body: bytes) -> None: ...

    with Mercury("memory:", settings=Settings()) as mercury:
        mercury.add_service(service)


@pytest.mark.parametrize(
    ("security", "message"),
    [
        (MessageSecurity(user="till", password="x", users={"a": "b"}), "are for endpoints"),
        (MessageSecurity(), "needs users or trusted"),
    ],
)
def test_security_that_is_not_for_a_service_is_refused(security: MessageSecurity, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        hosted(security)


def log_of_start(caplog: pytest.LogCaptureFixture, *names: str) -> list[str]:
    """The lines about WS-Security of a process that hosts services, with settings for `orders` and `ordres`."""
    certificates = SecuritySettings(plain_password=("orders", "ordres", URL))
    mercury = Mercury("memory:", settings=Settings(security=certificates))
    for name in names:
        service = Service(name, security=MessageSecurity(users={"till": "x"}))
        service.operation(take)
        mercury.add_service(service)
    with mercury:
        return [each.getMessage() for each in caplog.records if each.name == "mercury.security"]


def take(body: bytes) -> None: ...


def test_settings_of_a_service_that_is_not_hosted_are_named_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    (line,) = log_of_start(caplog, "orders", "stock")
    assert line.startswith("the settings security.* name a service 'ordres', which this process does not host")


def test_process_that_hosts_no_service_logs_nothing_about_settings_of_services(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert log_of_start(caplog) == []


def test_security_that_is_not_for_an_endpoint_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="users is for services"):
        Peer(security=MessageSecurity(users={"till": "x"}))


def test_settings_show_no_password() -> None:
    shown = {each.path: each.shown for each in explain(None, {"MERCURY_SECURITY_USER": f"{URL}=till:secret"})}
    assert shown["security.user"] == "***"
