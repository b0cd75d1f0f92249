"""The authorities of a server while their file changes: no peer that is still accepted gets another identity."""

from __future__ import annotations

import logging
import ssl

import pytest

from mercury import ConfigurationError
from mercury.engine.runtime.peers import TlsSettings
from mercury.service.authorities import Authorities
from tests.acceptance.test_certificates import TILL, Folder

#: ``renewed`` and ``next`` have the name of ``ca``, and other keys.
NAMES = {"ca": "/CN=ca", "renewed": "/CN=ca", "next": "/CN=ca", "other": "/CN=other"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    made = Folder(tmp_path_factory.mktemp("authorities"))
    made.authority("server", "/CN=server")
    for name, subject in NAMES.items():
        made.authority(name, subject)
        made.sign(f"till of {name}", name, TILL)
    return made


class Server:
    """The authorities of a server whose file changes."""

    def __init__(self, folder: Folder, authorities: Authorities, *given: str) -> None:
        self._folder = folder
        self.authorities = authorities
        self.context = self.renewed(*given)

    def renewed(self, *given: str) -> ssl.SSLContext:
        """Use a file with these certificates."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._folder.path / "server.pem", self._folder.path / "server.key")
        context.verify_mode = ssl.CERT_REQUIRED
        for each in given:
            context.load_verify_locations(self._folder.path / f"{each}.pem")
        self.authorities.use(context)
        self.context = context
        return context

    def name_of(self, authority: str) -> str | None:
        """The name of the authority of a client's certificate that it signed, after a handshake in memory."""
        client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
        client.load_cert_chain(
            self._folder.path / f"till of {authority}.pem", self._folder.path / f"till of {authority}.key"
        )
        to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
        sides = (client.wrap_bio(to_client, to_server), self.context.wrap_bio(to_server, to_client, server_side=True))
        waiting = set(sides)
        while waiting:
            for side in sides:
                try:
                    side.do_handshake()
                    waiting.discard(side)
                except ssl.SSLWantReadError:
                    continue
        return self.authorities.of(sides[1], self._folder.fingerprint(f"till of {authority}"))

    def marked(self, authority: str) -> str:
        return f"CN=ca;sha256={self._folder.fingerprint(authority)}"


def test_number_of_authorities_at_the_start_decides_for_the_whole_process(folder: Folder) -> None:
    server = Server(folder, Authorities(), "ca", "other")
    assert server.authorities.in_identities
    server.renewed("ca")
    assert server.authorities.in_identities
    assert server.name_of("ca") == "CN=ca"
    alone = Server(folder, Authorities(), "ca")
    assert not alone.authorities.in_identities
    alone.renewed("other")
    assert not alone.authorities.in_identities


@pytest.mark.parametrize("added", ["other", "renewed"])
def test_further_authority_is_refused_when_identities_have_none(folder: Folder, added: str) -> None:
    """With it, one of them could sign for the clients of the other."""
    server = Server(folder, Authorities(), "ca")
    with pytest.raises(ConfigurationError, match=r"tls\.identity"):
        server.renewed("ca", added)
    assert not server.authorities.in_identities
    assert server.name_of("ca") == "CN=ca"


@pytest.mark.parametrize("with_issuer", [True, False])
def test_setting_decides_whatever_the_file_holds(folder: Folder, with_issuer: bool) -> None:
    for given in (("ca",), ("ca", "other"), ("other",)):
        assert Server(folder, Authorities(with_issuer), *given).authorities.in_identities == with_issuer
    server = Server(folder, Authorities(with_issuer), "ca")
    server.renewed("ca", "other")
    assert (server.name_of("ca"), server.name_of("other")) == ("CN=ca", "CN=other")
    assert server.authorities.in_identities == with_issuer


def test_authority_with_another_key_and_the_same_name_may_take_the_place_of_the_only_one(folder: Folder) -> None:
    server = Server(folder, Authorities(), "ca", "other")
    server.renewed("renewed", "other")
    assert (server.name_of("renewed"), server.name_of("other")) == ("CN=ca", "CN=other")


@pytest.mark.parametrize("with_issuer", [True, None])
def test_authority_of_the_same_name_beside_the_previous_one_is_refused(
    folder: Folder, with_issuer: bool | None
) -> None:
    server = Server(folder, Authorities(with_issuer), "ca", "other")
    with pytest.raises(ConfigurationError, match="CN=ca"):
        server.renewed("ca", "renewed", "other")
    assert server.name_of("ca") == "CN=ca"
    server.renewed("renewed", "other")
    with pytest.raises(ConfigurationError, match="CN=ca"):
        server.renewed("ca", "renewed", "other")


def test_two_of_one_name_keep_their_names_when_one_goes_and_comes_back(
    folder: Folder, caplog: pytest.LogCaptureFixture
) -> None:
    """For a while, the file that is being rewritten holds only the first of them."""
    server = Server(folder, Authorities(), "ca", "renewed", "other")
    with caplog.at_level(logging.WARNING, "mercury.tls"):
        server.renewed("ca", "other")
    (line,) = caplog.messages
    assert "after a restart" in line
    assert server.name_of("ca") == server.marked("ca")
    with pytest.raises(ConfigurationError, match="CN=ca"):
        server.renewed("next", "other")
    with pytest.raises(ConfigurationError, match="CN=ca"):
        server.renewed("ca", "next", "other")
    server.renewed("ca", "renewed", "other")
    assert server.name_of("ca") == server.marked("ca")
    assert server.name_of("renewed") == server.marked("renewed")


def test_authorities_that_were_there_one_after_the_other_are_different_side_by_side(folder: Folder) -> None:
    server = Server(folder, Authorities(), "ca", "other")
    for given in (("renewed", "other"), ("other",), ("ca", "renewed", "other")):
        server.renewed(*given)
    assert server.name_of("ca") == server.marked("ca")
    assert server.name_of("renewed") == server.marked("renewed")


def test_last_authority_of_several_warns_of_the_next_start(folder: Folder, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "mercury.tls"):
        Server(folder, Authorities(True), "ca", "other").renewed("ca")
        assert caplog.messages == []
        Server(folder, Authorities(), "ca", "other").renewed("ca")
    (line,) = caplog.messages
    assert 'tls.identity = "issuer"' in line


def test_value_of_the_setting_that_is_no_identity_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="identity: 'subject'"):
        TlsSettings(server_cert="a", identity="subject")
    assert TlsSettings().with_issuer is None
    assert TlsSettings(identity="name").with_issuer is False
    assert TlsSettings(identity="issuer").with_issuer is True
