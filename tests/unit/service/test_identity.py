"""The sender of a request: from the headers and the certificate in a server's scope."""

from __future__ import annotations

import pytest

from mercury import HttpRequest
from mercury.service.asgi import headers_of
from mercury.service.bodies import RequestRefused
from mercury.service.identity import identify
from mercury.service.peer import name_in, with_issuer

SUBJECT = ((("organizationName", "Shop"),), (("commonName", "till"),))


def shown(name: str | None) -> dict[str, object]:
    """The scope of a request with a certificate of this name."""
    return {"extensions": {"tls": {"client_cert_name": name}}}


def test_trailer_does_not_replace_what_a_proxy_has_said() -> None:
    """Plain uvicorn with httptools adds the trailers behind the header."""
    fields = [(b"x-client-dn", b"CN=mallory"), (b"host", b"x"), (b"X-Client-DN", b"CN=admin")]
    assert headers_of(fields) == {"x-client-dn": "CN=mallory, CN=admin", "host": "x"}


@pytest.mark.parametrize(
    ("certificate", "name"),
    [
        ({"subject": SUBJECT, "subjectAltName": (("DNS", "a.example"), ("URI", "spiffe://a/b"))}, "URI:spiffe://a/b"),
        ({"subject": SUBJECT, "subjectAltName": (("DNS", "a.example"),)}, "CN=till,O=Shop"),
        ({"subjectAltName": (("URI", "urn:b"), ("URI", "urn:a"))}, "URI:urn:b,URI:urn:a"),
        ({"subjectAltName": (("DNS", "b.example"), ("DNS", "a.example"))}, "DNS:b.example,DNS:a.example"),
        ({"subject": (), "subjectAltName": (("DNS", "a.example"), ("URI", "spiffe://a/b"))}, "URI:spiffe://a/b"),
        ({"subjectAltName": (("IP Address", "10.0.0.1"), ("DNS", "a.example"))}, "DNS:a.example"),
        ({"subject": (), "subjectAltName": (("IP Address", "10.0.0.1"),)}, ""),
        ({}, ""),
    ],
)
def test_certificate_names_by_its_uris_or_else_its_subject_or_else_its_dns_names(
    certificate: dict[str, object], name: str
) -> None:
    assert name_in(certificate) == name


def named(subject: str = "", *uris: str) -> dict[str, object]:
    return {
        "subject": ((("commonName", subject),),) if subject else (),
        "subjectAltName": tuple(("URI", uri) for uri in uris),
    }


def test_no_certificate_imitates_the_name_of_another_one_or_of_an_authority() -> None:
    """Each of these certificates has another identity, whatever is in its fields."""
    certificates = (
        named("till", ""),
        named("till;issuer=<CN=a>"),
        named("till\\;issuer=<CN=a>"),
        named("URI:urn:a"),
        named("", "urn:a"),
        named("", "urn:a", "urn:b"),
        named("", "urn:a,URI:urn:b"),
        named("", "urn:a\\,URI:urn:b"),
        named("", "urn:a;issuer=<CN=a>"),
        named("", "urn:a\0"),
        named("", "urn:a\\00"),
    )
    authorities = ("CN=a", "CN=a;sha256=00", "CN=a\\>\\;issuer=\\<CN=a", "")
    names = [name_in(each) for each in certificates]
    both = [with_issuer(name, authority) for name in names for authority in authorities]
    assert len({*names, *both}) == len(names) + len(both)
    assert with_issuer(name_in(named("till")), "CN=a") == "CN=till;issuer=<CN=a>"


def test_certificate_without_a_name_or_a_known_authority_is_no_identity() -> None:
    assert (with_issuer("", "CN=a"), with_issuer("CN=till", None)) == ("", "")
    with pytest.raises(RequestRefused) as refused:
        identify(shown(""), {}, None)
    assert refused.value.status == 403
    assert identify(shown(None), {}, None) is None
    assert identify(shown("URI:spiffe://a/b"), {}, None) == "URI:spiffe://a/b"


def test_hook_gets_no_certificate_when_it_has_no_name() -> None:
    seen: list[HttpRequest] = []

    def by_token(request: HttpRequest) -> str | None:
        seen.append(request)
        return "shop"

    assert identify(shown(""), {}, by_token) == "shop"
    assert seen[0].certificate is None
