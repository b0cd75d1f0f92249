"""WS-Security of the other stacks: their key stores, and the assertions by which Metro finds them."""

from __future__ import annotations

from pathlib import Path
from string import Template

from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12
from lxml import etree

from mercury.statemachine.protocol import RmVersion
from mercury.wire.ns import clark
from mercury.wsdl.names import WSP15
from mercury.wsdl.write_security import RequiredSecurity, security_assertions
from tests.keys import Keys

from .policies import RM11, SOAP

#: Of the key stores, and of the user.
STORE_PASSWORD, USER, PASSWORD = "changeit", "till", "secret"
#: CXF's settings for the user of a client, and for the class of a server that knows the passwords.
CXF_USER = {"security.username": USER, "security.password": PASSWORD}
CXF_USERS = {"security.callback-handler": "interop.cxf.Passwords"}
_CONFIGURATION = "http://schemas.sun.com/2006/03/wss/"
_VISIBILITY = "{http://java.sun.com/xml/ns/wsit/policy}visibility"


def key_stores(keys: Keys, name: str, *trusted: str) -> tuple[str, str]:
    """PKCS#12 files for Java: one with a certificate and its key, and one with trusted certificates."""
    own, others = keys.folder / f"{name}.p12", keys.folder / f"{name}-trusts.p12"
    encryption = BestAvailableEncryption(STORE_PASSWORD.encode())
    own.write_bytes(
        pkcs12.serialize_key_and_certificates(
            name.encode(), keys.private[name], keys.certificates[name], [keys.certificates["authority"]], encryption
        )
    )
    entries = [pkcs12.PKCS12Certificate(keys.certificates[each], each.encode()) for each in trusted]
    others.write_bytes(pkcs12.serialize_java_truststore(entries, encryption))
    return str(own), str(others)


def metro_stores(side: str, stores: tuple[str, str], peer: str | None = None) -> list[etree._Element]:
    """Metro's assertions for the key stores of a ``client`` or a ``server``.

    :param peer: the alias of the certificate of the service.
    """
    found = []
    for kind, location in zip(("KeyStore", "TrustStore"), stores, strict=True):
        made = _configuration(side, kind, location=location, type="PKCS12", storepass=STORE_PASSWORD)
        if kind == "TrustStore" and peer is not None:
            made.set("peeralias", peer)
        found.append(made)
    return found


def metro_user() -> etree._Element:
    """Metro's assertion for the user of a client. The one in a request context does not reach messages of WS-RM."""
    made = _configuration("client", "CallbackHandlerConfiguration")
    handler = clark(_CONFIGURATION + "client", "CallbackHandler")
    for name, value in (("usernameHandler", USER), ("passwordHandler", PASSWORD)):
        etree.SubElement(made, handler, {"name": name, "default": value})
    return made


def metro_users() -> etree._Element:
    """Metro's assertion for the class of a server that checks passwords."""
    made = _configuration("server", "ValidatorConfiguration")
    namespace = _CONFIGURATION + "server"
    etree.SubElement(made, clark(namespace, "Validator"), name="usernameValidator", classname="interop.metro.Passwords")
    return made


def _configuration(side: str, name: str, **attributes: str) -> etree._Element:
    made = etree.Element(clark(_CONFIGURATION + side, name), attributes, nsmap={"c": _CONFIGURATION + side})
    made.set(_VISIBILITY, "private")
    return made


def cxf_settings(stores: tuple[str, str], file: Path, name: str, peer: str) -> dict[str, str]:
    """CXF's settings for the key stores of a client or a server, and the aliases of both certificates."""
    lines = ["org.apache.wss4j.crypto.provider=org.apache.wss4j.common.crypto.Merlin"]
    for kind, location in zip(("keystore", "truststore"), stores, strict=True):
        merlin = f"org.apache.wss4j.crypto.merlin.{kind}"
        lines += [f"{merlin}.file={location}", f"{merlin}.type=PKCS12", f"{merlin}.password={STORE_PASSWORD}"]
    lines += [f"org.apache.wss4j.crypto.merlin.keystore.private.password={STORE_PASSWORD}"]
    file.write_text("\n".join(lines))
    return {
        "security.signature.properties": str(file),
        "security.encryption.properties": str(file),
        "security.signature.username": name,
        "security.signature.password": STORE_PASSWORD,
        "security.encryption.username": peer,
        "ws-security.username-token.always.encrypted": "false",
        "ws-security.custom.alg.suite.asymmetric.key.encryption.algorithm": "http://www.w3.org/2009/xmlenc11#rsa-oaep",
        "ws-security.asymmetric.signature.algorithm": "http://www.w3.org/2001/04/xmldsig-more#rsa-sha256",
    }


def for_client(published: bytes, assertions: list[etree._Element], file: Path) -> Path:
    """The WSDL that a service publishes, with the configuration of a Metro client in each alternative."""
    root = etree.fromstring(published)
    for alternative in root.iter(clark(WSP15, "All")):
        alternative.extend(etree.fromstring(etree.tostring(each)) for each in assertions)
    file.write_bytes(etree.tostring(root))
    return file


def for_server(required: RequiredSecurity, url: str, assertions: list[etree._Element], file: Path) -> Path:
    """The WSDL of a Metro server."""
    security = [*security_assertions(required, RmVersion.RM11, over_tls=False), *assertions]
    written = "".join(etree.tostring(each, encoding="unicode") for each in security)
    wsdl = Template((Path(__file__).parent / "orders.wsdl").read_text())
    file.write_text(wsdl.substitute(soap=SOAP["1.1"], assertions=RM11 + written, url=url))
    return file
