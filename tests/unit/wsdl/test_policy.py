"""Reading the requirements of a peer's policy, and the settings for them."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from mercury.errors import ConfigurationError
from mercury.security.settings import MessageSecurity
from mercury.statemachine.policy import DeliveryAssurance, SourcePolicy
from mercury.statemachine.protocol import AddressingVersion, Protocol, RmVersion, SoapVersion
from mercury.statemachine.retransmission import RetransmissionPolicy
from mercury.wsdl.policy import Alternative, Reliability, Requirements, imports, read

DATA = Path(__file__).resolve().parents[2] / "data"
WSP12 = "http://schemas.xmlsoap.org/ws/2004/09/policy"
WSP15 = "http://www.w3.org/ns/ws-policy"
PREFIXES = (
    'xmlns:rm10="http://schemas.xmlsoap.org/ws/2005/02/rm/policy" '
    'xmlns:rm11="http://docs.oasis-open.org/ws-rx/wsrmp/200702" '
    'xmlns:wsam="http://www.w3.org/2007/05/addressing/metadata" '
    'xmlns:wsaw="http://www.w3.org/2006/05/addressing/wsdl" '
    'xmlns:wsap="http://schemas.xmlsoap.org/ws/2004/08/addressing/policy" '
    'xmlns:wsmc="http://docs.oasis-open.org/ws-rx/wsmc/200702" '
    'xmlns:sp="http://docs.oasis-open.org/ws-sx/ws-securitypolicy/200702" '
    'xmlns:wsu="http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-wssecurity-utility-1.0.xsd" '
    'xmlns:x="urn:example:other"'
)
ADDRESSING = "<wsam:Addressing><wsp:Policy/></wsam:Addressing>"
RM11 = "<rm11:RMAssertion><wsp:Policy/></rm11:RMAssertion>"


def policy(content: str, version: str = WSP15) -> bytes:
    return f'<wsp:Policy xmlns:wsp="{version}" {PREFIXES}>{content}</wsp:Policy>'.encode()


def asked(content: str, version: str = WSP15) -> Requirements:
    return read(policy(content, version))[""]


def only(content: str) -> Alternative:
    (found,) = asked(content).alternatives
    return found


def published(name: str) -> Alternative:
    (found,) = read((DATA / "wire/policy" / name).read_bytes())[""].alternatives
    return found


# --- the assertions of WS-RM ------------------------------------------------------------------------------------------


def test_timers_of_ws_rm_1_0_are_read_in_seconds() -> None:
    # NS-04, POL-01, POL-08: what Metro and .NET add is passed over
    assert published("metro_rm-1_0-policy-custom.xml") == Alternative(
        reliability=Reliability(
            rm=RmVersion.RM10,
            inactivity_timeout=1.0,
            retransmission_interval=1.0,
            exponential_backoff=True,
            acknowledgement_interval=1.0,
        )
    )


def test_assertion_of_ws_rm_1_0_without_timers_says_the_version_only() -> None:
    assert published("metro_rm-1_0-policy-default.xml") == Alternative(reliability=Reliability(rm=RmVersion.RM10))


def test_delivery_assurance_of_ws_rm_1_1_is_read_from_its_nested_policy() -> None:
    # NS-05, POL-02
    assert published("metro_rm-1_1-policy-custom_3.xml").reliability == Reliability(
        rm=RmVersion.RM11, assurance=DeliveryAssurance.EXACTLY_ONCE, in_order=False
    )
    assert published("metro_rm-1_1-policy-default.xml") == Alternative(reliability=Reliability(rm=RmVersion.RM11))


@pytest.mark.parametrize(
    ("content", "rm"),
    [
        (
            '<rm11:RMAssertion><wsp:Policy/><n:InactivityTimeout Milliseconds="90000" '
            'xmlns:n="http://schemas.microsoft.com/ws-rx/wsrmp/200702"/></rm11:RMAssertion>',
            RmVersion.RM11,
        ),
        (
            '<rm10:RMAssertion><rm10:InactivityTimeout Milliseconds="90000"/></rm10:RMAssertion>'
            '<n:RmFlowControl xmlns:n="http://schemas.microsoft.com/net/2005/02/rm/policy"/>',
            RmVersion.RM10,
        ),
    ],
    ids=str,
)
def test_extensions_of_dotnet_are_read_or_passed_over(content: str, rm: RmVersion) -> None:
    # NS-14
    assert only(content) == Alternative(reliability=Reliability(rm=rm, inactivity_timeout=90.0))


def test_sequences_bound_to_a_token_or_to_tls_are_named_as_unsupported() -> None:
    # POL-03
    tls = published("metro_rm-1_1-policy-custom_1.xml")
    assert tls.unsupported == ("SequenceTransportSecurity of the RM assertion",)
    assert tls.reliability is not None
    assert (tls.reliability.assurance, tls.reliability.in_order) == (DeliveryAssurance.AT_LEAST_ONCE, True)
    assert tls.reliability.inactivity_timeout == 1.0  # of .NET, beside the assertion
    assert published("metro_rm-1_1-policy-custom_2.xml").unsupported == ("SequenceSTR of the RM assertion",)


@pytest.mark.parametrize("text", ["", "0", "-5", "1.5", "soon", "9" * 40])
def test_timer_of_no_use_says_nothing(text: str) -> None:
    timer = f'<rm10:RMAssertion><rm10:InactivityTimeout Milliseconds="{text}"/></rm10:RMAssertion>'
    assert only(timer).reliability == Reliability(rm=RmVersion.RM10)


# --- what else is asked for -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [WSP12, WSP15])
@pytest.mark.parametrize(
    ("assertion", "addressing"),
    [
        ("<wsam:Addressing/>", AddressingVersion.WSA10),
        ("<wsaw:UsingAddressing/>", AddressingVersion.WSA10),
        ("<wsap:UsingAddressing/>", AddressingVersion.WSA200408),
    ],
)
def test_addressing_is_read_in_both_versions_of_ws_policy(
    version: str, assertion: str, addressing: AddressingVersion
) -> None:
    # NS-16, POL-05, POL-06
    found = asked(f"<rm10:RMAssertion/>{assertion}", version)
    assert [each.addressing for each in found.alternatives] == [addressing]
    assert found.protocol().addressing is addressing


@pytest.mark.parametrize(
    ("inner", "anonymous"),
    [
        ("<wsam:AnonymousResponses/>", True),
        ("<wsam:NonAnonymousResponses/>", False),
        ("<wsam:AnonymousResponses/><wsam:NonAnonymousResponses/>", None),
    ],
)
def test_where_responses_may_go_is_read(inner: str, anonymous: bool | None) -> None:
    found = only(f"<wsam:Addressing><wsp:Policy>{inner}</wsp:Policy></wsam:Addressing>")
    assert found.anonymous is anonymous


def test_make_connection_is_read() -> None:
    # MC-SCH-04
    assert only(f"<wsmc:MCSupported/>{RM11}").make_connection


@pytest.mark.parametrize(
    "assertion",
    [
        '<m:OptimizedMimeSerialization xmlns:m="http://schemas.xmlsoap.org/ws/2004/09/policy/optimizedmimeserialization"{}/>',
        '<m:MTOM xmlns:m="http://www.w3.org/2007/08/soap12-mtom-policy"{}/>',
        '<m:MTOM xmlns:m="http://www.w3.org/2007/08/soap11-mtom-policy"{}/>',
    ],
)
def test_mtom_is_sent_to_a_peer_that_requires_it(assertion: str) -> None:
    required = asked(assertion.format("") + RM11)
    assert [(each.mtom, each.unsupported) for each in required.alternatives] == [(True, ())]
    assert required.source_policy().mtom
    optional = asked(assertion.format(' wsp:Optional="true"') + RM11)
    assert [each.mtom for each in optional.alternatives] == [True, False]
    assert not optional.source_policy().mtom
    assert optional.source_policy(SourcePolicy(mtom=True)).mtom


def assertion(name: str, *parts: str) -> str:
    """An assertion of WS-SecurityPolicy with nested ones."""
    return f"<sp:{name}><wsp:Policy>{''.join(parts)}</wsp:Policy></sp:{name}>"


def suite(name: str) -> str:
    return assertion("AlgorithmSuite", f'<c:{name} xmlns:c="http://cxf.apache.org/custom/security-policy"/>')


X509 = assertion("X509Token", "<sp:WssX509V3Token10/>")
TOKENS = assertion("InitiatorToken", X509) + assertion("RecipientToken", X509) + assertion("Layout", "<sp:Lax/>")
SIGNED = assertion("AsymmetricBinding", TOKENS, suite("CustomAlgorithmSuite"), "<sp:IncludeTimestamp/>")
METRO_SUITE = assertion("AlgorithmSuite", "<sp:Basic256Sha256/>").replace(
    "<sp:AlgorithmSuite", '<sp:AlgorithmSuite signatureAlgorithm="SHA256withRSA"'
)
PARTS = '<sp:SignedParts><sp:Body/><sp:Header Namespace="urn:x"/></sp:SignedParts>'
USER = assertion("SignedSupportingTokens", assertion("UsernameToken", "<sp:WssUsernameToken10/>", "<sp:HashPassword/>"))
TLS = assertion("TransportBinding", "<sp:TransportToken/>", "<sp:IncludeTimestamp/>")
BOUND = "<rm11:RMAssertion><wsp:Policy><rm11:SequenceSTR/></wsp:Policy></rm11:RMAssertion>"


@pytest.mark.parametrize(
    ("content", "settings"),
    [
        ("<sp:Wss11/><sp:Trust13/>", ()),
        (assertion("TransportBinding", "<sp:TransportToken/>"), ()),
        (SIGNED + PARTS, ("certificate", "trusted")),
        (
            SIGNED + PARTS + "<sp:EncryptedParts><sp:Body/></sp:EncryptedParts>",
            ("certificate", "trusted", "encrypt_for", "require_encryption"),
        ),
        (assertion("AsymmetricBinding", TOKENS, METRO_SUITE), ("certificate", "trusted")),
        (TLS + USER, ("user",)),
        (TLS + assertion("SignedEncryptedSupportingTokens", "<sp:UsernameToken/>"), ("user", "plain_password")),
        (SIGNED + BOUND, ("certificate", "trusted", "bind_sequences")),
    ],
)
def test_security_that_is_supported_names_its_settings(content: str, settings: tuple[str, ...]) -> None:
    found = only(content)
    assert (found.security, found.unsupported) == (settings, ())
    assert all(name in {each.name for each in fields(MessageSecurity)} for name in settings)


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (TLS, "TransportBinding with IncludeTimestamp"),
        ("<sp:SymmetricBinding/>", "SymmetricBinding"),
        (assertion("EndorsingSupportingTokens", X509), "EndorsingSupportingTokens"),
        (assertion("SignedSupportingTokens", "<sp:SamlToken/>"), "SignedSupportingTokens"),
        (
            assertion("SignedEncryptedSupportingTokens", "<sp:UsernameToken/>"),
            "SignedEncryptedSupportingTokens",
        ),
        (
            assertion("SupportingTokens", assertion("UsernameToken", "<sp:NoPassword/>")),
            "NoPassword of SupportingTokens",
        ),
        (assertion("AsymmetricBinding", "<sp:EncryptSignature/>"), "EncryptSignature of AsymmetricBinding"),
        (
            assertion("AsymmetricBinding", "<sp:EncryptBeforeSigning/>"),
            "EncryptBeforeSigning of AsymmetricBinding",
        ),
        (
            assertion("AsymmetricBinding", assertion("AlgorithmSuite", "<sp:Basic256Sha256/>")),
            "AlgorithmSuite Basic256Sha256, whose signatures use SHA-1, of AsymmetricBinding",
        ),
        (
            assertion("AsymmetricBinding", METRO_SUITE.replace("SHA256withRSA", "SHA1withRSA")),
            "AlgorithmSuite Basic256Sha256, whose signatures use SHA-1, of AsymmetricBinding",
        ),
        (
            assertion("AsymmetricBinding", METRO_SUITE.replace("Basic256Sha256", "Basic256")),
            "AlgorithmSuite Basic256, whose signatures use SHA-1, of AsymmetricBinding",
        ),
        (
            assertion("AsymmetricBinding", METRO_SUITE) + "<sp:EncryptedParts><sp:Body/></sp:EncryptedParts>",
            "AES-CBC of AlgorithmSuite Basic256Sha256",
        ),
        (
            assertion("AsymmetricBinding", suite("Basic256GCM")),
            "AlgorithmSuite Basic256GCM, whose signatures use SHA-1, of AsymmetricBinding",
        ),
        (
            '<sp:EncryptedParts><sp:Header Namespace="urn:x"/></sp:EncryptedParts>',
            "Header of EncryptedParts",
        ),
        ("<sp:SignedElements/>", "SignedElements"),
        (BOUND, "SequenceSTR of the RM assertion"),
    ],
)
def test_security_that_is_not_supported_is_named(content: str, name: str) -> None:
    assert only(content).unsupported == (name if "RM assertion" in name else f"{name} (WS-Security)",)


def test_unknown_assertion_is_named_unless_it_may_be_ignored() -> None:
    found = only('<x:Fly/><x:Swim wsp:Ignorable="true"/>')
    assert found.unknown == ("{urn:example:other}Fly",)


# --- alternatives -----------------------------------------------------------------------------------------------------


def test_alternatives_of_nested_choices_are_multiplied_out() -> None:
    found = asked(
        "<wsp:All><wsp:ExactlyOne><rm10:RMAssertion/><wsp:All><rm11:RMAssertion/></wsp:All></wsp:ExactlyOne>"
        "<wsp:Policy><wsp:ExactlyOne><wsap:UsingAddressing/><wsaw:UsingAddressing/></wsp:ExactlyOne></wsp:Policy></wsp:All>"
    )
    versions = [
        (each.reliability.rm.value, each.addressing.value)
        for each in found.alternatives
        if each.reliability is not None and each.addressing is not None
    ]
    assert versions == [("1.0", "2004/08"), ("1.0", "1.0"), ("1.1", "2004/08"), ("1.1", "1.0")]


def test_optional_assertion_leaves_a_choice_without_it() -> None:
    found = asked(f'<rm11:RMAssertion wsp:Optional="true"/>{ADDRESSING}')
    assert [each.reliability for each in found.alternatives] == [Reliability(rm=RmVersion.RM11, optional=True), None]
    chosen = found.choose()
    assert chosen is not None
    assert chosen.reliability is not None


def test_choice_of_nothing_is_fulfilled_by_nobody() -> None:
    found = asked(f"<wsp:ExactlyOne/>{RM11}")
    assert found.alternatives == ()
    assert found.choose() is None


@pytest.mark.parametrize("preferred", RmVersion)
def test_preferred_version_is_chosen_where_both_are_offered(preferred: RmVersion) -> None:
    found = asked(f"<wsp:ExactlyOne><rm10:RMAssertion/>{RM11}</wsp:ExactlyOne>")
    assert found.protocol(Protocol(rm=preferred)).rm is preferred


def test_alternative_without_security_is_chosen_before_one_with_it() -> None:
    found = asked(
        f"<wsp:ExactlyOne><wsp:All>{RM11}<sp:SymmetricBinding/></wsp:All><rm10:RMAssertion/></wsp:ExactlyOne>"
    )
    chosen = found.choose()
    assert chosen == Alternative(reliability=Reliability(rm=RmVersion.RM10))


# --- where policies stand in a WSDL -----------------------------------------------------------------------------------


def test_policy_is_read_by_reference_at_the_binding() -> None:
    # POL-04
    found = read((DATA / "wsdl/orders.wsdl").read_bytes())
    reliable = Reliability(rm=RmVersion.RM11, assurance=DeliveryAssurance.EXACTLY_ONCE, in_order=True)
    wanted = (Alternative(reliability=reliable, addressing=AddressingVersion.WSA10),)
    place = "http://127.0.0.1:9/soap"
    assert found == {
        "P11": Requirements(binding="B11", address=place, soap=SoapVersion.SOAP11, alternatives=wanted),
        "P12": Requirements(binding="B12", address=place, soap=SoapVersion.SOAP12, alternatives=wanted),
    }


def test_each_port_has_the_policy_of_its_own_binding() -> None:
    found = read((DATA / "wsdl/net.wsdl").read_bytes())
    plain, secure = (found[name].choose() for name in ("Plain", "Secure"))
    assert plain is not None
    assert secure is not None
    assert plain.unsupported == ()
    assert secure.unsupported == ("BinaryEncoding (binary XML of .NET)", "SymmetricBinding (WS-Security)")
    assert found["Plain"].protocol() == Protocol(SoapVersion.SOAP12, AddressingVersion.WSA10, RmVersion.RM10)


WSDL = """<d:definitions xmlns:d="http://schemas.xmlsoap.org/wsdl/" xmlns:s="http://schemas.xmlsoap.org/wsdl/soap/"
  xmlns:t="urn:t" targetNamespace="urn:t" xmlns:wsp="{version}" {prefixes}>
  <wsp:Policy wsu:Id="rm">{rm}</wsp:Policy>
  <d:portType name="T" {type_attributes}/><d:binding name="B" type="t:T">{binding}<s:binding/></d:binding>
  <d:service name="S">{service}<d:port name="P" binding="{to}">{port}<s:address location="http://a/"/></d:port></d:service>
</d:definitions>"""


def wsdl(**given: str) -> bytes:
    empty = dict.fromkeys(("type_attributes", "binding", "service", "port"), "")
    named = {"version": WSP15, "prefixes": PREFIXES, "rm": RM11, "to": "t:B"}
    return WSDL.format(**{**empty, **named, **given}).encode()


REFERENCE = '<wsp:PolicyReference URI="#rm"/>'


@pytest.mark.parametrize(
    "given",
    [
        {"binding": REFERENCE},
        {"port": REFERENCE},
        {"service": REFERENCE},
        {"port": f"<wsp:Policy>{RM11}</wsp:Policy>"},
        {"type_attributes": 'wsp:PolicyURIs="#rm"'},
    ],
)
def test_policy_is_read_wherever_it_is_attached(given: dict[str, str]) -> None:
    # POL-04
    (found,) = read(wsdl(**given))["P"].alternatives
    assert found == Alternative(reliability=Reliability(rm=RmVersion.RM11))


def test_policies_of_several_places_hold_together() -> None:
    (found,) = read(wsdl(binding=REFERENCE, port=f"<wsp:Policy>{ADDRESSING}</wsp:Policy>"))["P"].alternatives
    assert found == Alternative(reliability=Reliability(rm=RmVersion.RM11), addressing=AddressingVersion.WSA10)


def test_addressing_beside_a_policy_is_read() -> None:
    (found,) = read(wsdl(binding="<wsaw:UsingAddressing/>"))["P"].alternatives
    assert found == Alternative(addressing=AddressingVersion.WSA10)


def test_wsdl_without_a_policy_asks_for_nothing() -> None:
    assert read(wsdl())["P"].alternatives == (Alternative(),)


def test_references_that_lead_nowhere_are_named() -> None:
    found = read(wsdl(binding='<wsp:PolicyReference URI="http://other.example/policy"/>'))["P"]
    assert found.missing == ("http://other.example/policy",)
    assert read(wsdl(to="t:Elsewhere"))["P"].missing == ("the binding {urn:t}Elsewhere",)


def test_binding_and_its_policy_are_found_in_an_imported_wsdl() -> None:
    outer = (
        b'<d:definitions xmlns:d="http://schemas.xmlsoap.org/wsdl/" xmlns:t="urn:t" targetNamespace="urn:o">'
        b'<d:import namespace="urn:t" location="inner.wsdl"/>'
        b'<d:service name="O"><d:port name="Outer" binding="t:B"/></d:service></d:definitions>'
    )
    assert imports(outer) == ["inner.wsdl"]
    found = read(outer, [wsdl(binding=REFERENCE)])
    assert found["Outer"].alternatives == (Alternative(reliability=Reliability(rm=RmVersion.RM11)),)


# --- the settings that follow -----------------------------------------------------------------------------------------


def test_settings_follow_the_timers_of_the_peer() -> None:
    timers = "".join(
        f'<rm10:{name} Milliseconds="{value}"/>'
        for name, value in (
            ("InactivityTimeout", 60000),
            ("BaseRetransmissionInterval", 4000),
            ("AcknowledgementInterval", 2000),
        )
    )
    found = asked(f"<rm10:RMAssertion>{timers}</rm10:RMAssertion>").source_policy(SourcePolicy(window=7))
    assert found == SourcePolicy(
        window=7,
        protocol=Protocol(rm=RmVersion.RM10),
        retransmission=RetransmissionPolicy(base=4.0),
        idle_timeout=30.0,
    )


@pytest.mark.parametrize(
    ("timer", "milliseconds", "base"),
    [
        ("BaseRetransmissionInterval", 1, 0.1),
        ("BaseRetransmissionInterval", 10**14, 60.0),
        ("AcknowledgementInterval", 3000, 3.75),  # a fifth of it may be taken off
        ("AcknowledgementInterval", 10**14, 60.0),
    ],
)
def test_pause_before_a_retransmission_stays_within_reason(timer: str, milliseconds: int, base: float) -> None:
    found = asked(f'<rm10:RMAssertion><rm10:{timer} Milliseconds="{milliseconds}"/></rm10:RMAssertion>')
    assert found.source_policy().retransmission.base == base


def test_settings_stay_where_nothing_is_asked_for() -> None:
    own = SourcePolicy(protocol=Protocol(SoapVersion.SOAP11, AddressingVersion.WSA200408, RmVersion.RM10), window=3)
    assert asked("").source_policy(own) == own


def test_versions_that_do_not_go_together_are_not_chosen() -> None:
    found = asked(RM11).protocol(Protocol(addressing=AddressingVersion.WSA200408, rm=RmVersion.RM10))
    assert found.legal
    assert found.rm is RmVersion.RM11


# --- documents that are refused ---------------------------------------------------------------------------------------


def laughs() -> str:
    entities = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 9))
    return f'<!DOCTYPE p [<!ENTITY l0 "ha">{entities}]>' + policy("<x:Fly>&l8;</x:Fly>").decode()


def references(count: int, form: str) -> bytes:
    to = [f'<wsp:PolicyReference URI="#p{n}"/>' for n in range(count)]
    each = "".join(f'<wsp:Policy wsu:Id="p{n}">{form.format(to[n - 1])}</wsp:Policy>' for n in range(1, count))
    return policy(f'<wsp:Policy wsu:Id="p0"><rm11:RMAssertion/></wsp:Policy>{each}{to[-1]}')


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        (b"", "no element found"),
        (b"<wsp:Policy>", "unbound prefix"),
        (b"<html/>", "html is neither a WSDL 1.1 nor a policy"),
        (laughs().encode(), "a DOCTYPE is not accepted"),
        (laughs().encode("utf-16"), "a DOCTYPE is not accepted"),
        (b'<!DOCTYPE p SYSTEM "file:///etc/passwd"><p/>', "a DOCTYPE is not accepted"),
        (policy("<x:a>" * 200 + "</x:a>" * 200), "elements nested deeper than 128"),
        (policy('<wsp:Policy wsu:Id="me"><wsp:PolicyReference URI="#me"/></wsp:Policy>'), "refers to itself"),
        (policy('<x:a wsp:Optional="true"/>' * 7), "more than 64 alternatives"),
        (policy("<wsp:ExactlyOne>" + "<x:a/>" * 65 + "</wsp:ExactlyOne>"), "more than 64 alternatives"),
        (references(40, "{0}{0}"), "too large"),
        (references(40, "<wsp:ExactlyOne>{0}{0}</wsp:ExactlyOne>"), "more than 64 alternatives"),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_document_that_would_do_harm_is_refused(document: bytes, reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        read(document)


def test_processing_instructions_and_comments_are_passed_over() -> None:
    assert only("<?style none?><!-- none --><rm10:RMAssertion/>") == Alternative(
        reliability=Reliability(rm=RmVersion.RM10)
    )
