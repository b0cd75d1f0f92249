"""The WSDL of a service with WS-Security says what messages need."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from lxml import etree

from mercury import Mercury, MessageSecurity, SecuritySettings, Service, Settings
from mercury.wsdl.policy import Alternative, read
from tests.acceptance.processes import ROOT, mercury
from tests.keys import Keys, keys  # noqa: F401  a fixture

ORDERS = ROOT / "tests/data/wsdl/orders.wsdl"


@dataclass
class Note:
    text: str


def service(security: MessageSecurity | None = None) -> Service:
    made = Service("notes", security=security)

    @made.operation
    def note(what: Note) -> None:
        del what

    return made


def chosen(document: bytes) -> Alternative:
    """The alternative that a client uses at the first port."""
    found = next(iter(read(document).values())).choose()
    assert found is not None
    return found


def test_show_names_the_settings_for_a_service_with_users() -> None:
    with Mercury("memory:") as server:
        url = server.listen(service(MessageSecurity(users={"till": "secret"})))
        ended = mercury("wsdl", "show", f"{url}/services/notes?wsdl")
    assert ended.code == 0
    assert "needs security.user" in ended.out
    assert "not supported" not in ended.out
    assert "secret" not in ended.out


def test_show_names_the_settings_for_a_service_whose_messages_are_signed_and_encrypted(
    keys: Keys,  # noqa: F811
    tmp_path: Path,
) -> None:
    security = MessageSecurity(certificate=keys.file("shop"), trusted=keys.public("authority"), require_encryption=True)
    server = Mercury("memory:")
    server.add_service(service(security))
    file = tmp_path / "notes.wsdl"
    file.write_bytes(server.documents("notes").wsdl("http://shop.example/services/notes"))
    server.stop()
    ended = mercury("wsdl", "show", str(file), "-o", "json")
    assert ended.code == 0
    for port in ended.value.values():
        assert port["usable"]
        for each in port["alternatives"]:
            assert each["security"] == ["certificate", "trusted", "encrypt_for", "require_encryption"]
            assert (each["unsupported"], each["unknown"]) == ([], [])


def test_settings_of_the_process_are_published_too(tmp_path: Path) -> None:
    users = tmp_path / "users"
    users.write_text("till:secret\n")
    settings = Settings(security=SecuritySettings(users=(f"notes={users}",), plain_password=("notes",)))
    server = Mercury("memory:", settings=settings)
    server.add_service(service())
    assert chosen(server.documents("notes").wsdl("http://a/")).security == ("user", "plain_password")
    server.stop()


def test_service_without_security_publishes_none() -> None:
    server = Mercury("memory:")
    server.add_service(service())
    assert b"securitypolicy" not in server.documents("notes").wsdl("https://a/")
    server.stop()


def test_policy_has_a_transport_binding_where_the_address_is_https() -> None:
    server = Mercury("memory:")
    server.add_service(service(MessageSecurity(users={"till": "secret"})))
    documents = server.documents("notes")
    server.stop()
    plain, over_tls = documents.wsdl("http://a/"), documents.wsdl("HTTPS://a/")
    assert (b"TransportBinding" in plain, b"TransportBinding" in over_tls) == (False, True)
    assert chosen(plain).security == chosen(over_tls).security == ("user",)


def test_replies_that_are_not_signed_are_logged_because_no_policy_can_say_so(
    keys: Keys,  # noqa: F811
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = Mercury("memory:")
    server.add_service(service(MessageSecurity(trusted=keys.public("authority"))))
    document = server.documents("notes").wsdl("http://a/")
    server.stop()
    assert chosen(document).security == ("certificate", "trusted")
    assert caplog.text.count("its replies are not signed; its WSDL cannot say so") == 1


@pytest.mark.parametrize("has_policy", [False, True])
def test_given_wsdl_gets_the_assertions_unless_it_has_a_policy_and_then_the_log_says_so(
    has_policy: bool, caplog: pytest.LogCaptureFixture
) -> None:
    document = ORDERS.read_bytes() if has_policy else without_policy(ORDERS.read_bytes())
    made = Service.from_wsdl(document, security=MessageSecurity(users={"till": "secret"}))

    @made.operation("Place")
    def place(what: bytes) -> bytes:
        return what

    @made.operation("Notify")
    def notify(what: bytes) -> None:
        del what

    server = Mercury("memory:")
    server.add_service(made)
    documents = server.documents(made.name)
    server.stop()
    published = [documents.wsdl(address) for address in ("http://a/", "https://a/")]
    assert [chosen(each).security for each in published] == ([()] * 2 if has_policy else [("user",)] * 2)
    assert (b"TransportBinding" in published[1]) is not has_policy
    assert ("the policy of the given WSDL does not say so" in caplog.text) is has_policy


def without_policy(document: bytes) -> bytes:
    root = etree.fromstring(document)
    for element in list(root.iter("{http://www.w3.org/ns/ws-policy}*")):
        parent = element.getparent()
        if parent is not None:
            parent.remove(element)
    return etree.tostring(root)
