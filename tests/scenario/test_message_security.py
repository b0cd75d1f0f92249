"""Messages with WS-Security between two nodes: what arrives, and who owns the sequences (SEC-01)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from lxml import etree
from opentelemetry.trace import NonRecordingSpan, SpanContext, get_current_span, use_span

from mercury import Service, Settings, Transaction
from mercury.engine.exchange import Arrival
from mercury.engine.runtime.security_settings import SecuritySettings
from mercury.security.names import SECURITY
from mercury.statemachine.policy import SourcePolicy
from mercury.statemachine.protocol import ALL_PROTOCOLS, Protocol
from mercury.statemachine.trace import read_trace
from mercury.testing import Pair, name_of
from mercury.wire.envelope import HttpMessage
from tests.keys import Keys, elliptic, keys  # noqa: F401  a fixture
from tests.unit.security.forge import party, under_certificate

from .foreign import RM11_SOAP12, Foreign

URL, CLIENT = "http://server/services/shop", "http://client"


@dataclass
class Note:
    text: str


@dataclass
class Reply:
    text: str


@dataclass
class Traced:
    text: str


class Shop:
    """A service, and what its handlers have committed."""

    def __init__(self) -> None:
        self.got: list[str] = []
        self.service = Service("shop")

        @self.service.operation
        def take(tx: Transaction, note: Note) -> None:
            tx.after_commit(lambda: self.got.append(note.text))

        @self.service.operation
        def ask(note: Reply) -> Reply:
            return Reply(f"re: {note.text}")


def settings(security: SecuritySettings) -> Settings:
    return Settings(security=security)


@pytest.fixture
def users(tmp_path: Path) -> SecuritySettings:
    file = tmp_path / "users"
    file.write_text("# users\ntill:secret\n\nother:also secret\n")
    return SecuritySettings(user=(f"{URL}=till:secret",), users=(f"shop={file}",))


@pytest.fixture
def signed(keys: Keys) -> SecuritySettings:  # noqa: F811
    ca = keys.public("authority")
    return SecuritySettings(
        certificate=(f"{URL}={keys.file('till')}", f"shop={keys.file('shop')}"),
        trusted=(f"{URL}={ca}", f"shop={ca}"),
    )


def pair(security: SecuritySettings, **options: object) -> tuple[Pair, Shop]:
    shop = Shop()
    return Pair(shop.service, settings=settings(security), **options), shop  # type: ignore[arg-type]


def messages_arrive(made: Pair, shop: Shop) -> None:
    """Five messages and a request arrive, in order, and the response comes."""
    for number in range(5):
        made.to().send(Note(f"note {number}"))
    answer = made.to().request(Reply("hello"), response=Reply)
    made.run()
    assert shop.got == [f"note {number}" for number in range(5)]
    assert answer.result(0) == Reply("re: hello")


def identities(made: Pair) -> set[str | None]:
    with made.server.store.transaction() as tx:
        return {record.identity for record in tx.rmd.all()}


def rows(made: Pair) -> list[str]:
    """The identifiers of the sequences at the server."""
    with made.server.store.transaction() as tx:
        return [record.identifier for record in tx.rmd.all()]


def brought(made: Pair, http: HttpMessage) -> str:
    """Somebody posts this to the service; returns the name of the answer."""
    arrival = Arrival(http=http, service="shop", url=URL, peer="thief")
    (answer,) = made.server._process.receive([arrival]) or ()
    return name_of(answer.http)


def without_security(http: HttpMessage) -> HttpMessage:
    root = etree.fromstring(http.body)
    for block in list(root.iter(SECURITY)):
        block.getparent().remove(block)  # type: ignore[union-attr]
    return replace(http, body=etree.tostring(root))


def test_messages_of_a_user_arrive_and_the_user_owns_the_sequence(users: SecuritySettings) -> None:
    made, shop = pair(users)
    messages_arrive(made, shop)
    assert identities(made) == {"user:till"}


def test_wrong_password_delivers_nothing_and_the_sender_is_told_no_reason(users: SecuritySettings) -> None:
    made, shop = pair(replace(users, user=(f"{URL}=till:guessed",)))  # SEC-06
    made.to().send(Note("a"))
    made.advance(30)
    assert shop.got == []
    assert "CreateSequence" in made.wire.seen
    assert "fault InvalidSecurity" in made.wire.seen
    assert made.to().last_error == "InvalidSecurity: The security of the message is not accepted."
    assert identities(made) == set()


def test_message_without_security_is_refused_by_a_service_that_needs_it(users: SecuritySettings) -> None:
    made, shop = pair(replace(users, user=()))
    made.to().send(Note("a"))
    made.advance(30)
    assert shop.got == []
    assert made.wire.count("fault InvalidSecurity") > 0


def test_signed_messages_arrive_in_both_directions(signed: SecuritySettings) -> None:
    made, shop = pair(signed)
    messages_arrive(made, shop)
    assert identities(made) == {"x509:CN=till;issuer=<CN=authority>"}


def test_lost_and_repeated_messages_are_signed_afresh_and_delivered_once(signed: SecuritySettings) -> None:
    made, shop = pair(signed)
    # SEC-09: a copy would be refused
    made.wire.at_random(7, lose=0.2, repeat=0.2, overtake=0.2)
    for number in range(20):
        made.to().send(Note(str(number)))
    made.run()
    assert shop.got == [str(number) for number in range(20)]


@pytest.mark.parametrize("protocol", ALL_PROTOCOLS, ids=str)
@pytest.mark.parametrize("listen", [False, True], ids=["connections", "listens"])
def test_every_pair_of_versions_is_signed_and_bound(signed: SecuritySettings, protocol: Protocol, listen: bool) -> None:
    security = replace(both_ways(signed), bind_sequences=(URL,))  # NS-15, SEC-02, SEC-03, RM11-SCH-11, RM11-CS-16
    made, shop = pair(security, listen=listen)
    sender = made.to(policy=SourcePolicy(protocol=protocol))
    sender.send(Note("a"))
    answer = sender.request(Reply("hello"), response=Reply)
    made.run()
    assert shop.got == ["a"]
    assert answer.result(0) == Reply("re: hello")
    with made.server.store.transaction() as tx:
        assert {(record.token or "")[:5] for record in tx.rmd.all() if record.service} == {"x509:"}


def test_messages_that_are_fetched_are_signed(signed: SecuritySettings) -> None:
    made, shop = pair(both_ways(signed))
    sender = made.to(policy=SourcePolicy(make_connection=True))
    sender.send(Note("a"))
    answer = sender.request(Reply("hello"), response=Reply)
    made.run()
    assert shop.got == ["a"]
    assert answer.result(0) == Reply("re: hello")
    assert "MakeConnection" in made.wire.seen


def both_ways(security: SecuritySettings) -> SecuritySettings:
    """The server also signs what it posts to an address of the client's."""
    keys_of = dict(entry.split("=", 1) for entry in (*security.certificate, *security.trusted[:1]))
    return replace(
        security,
        certificate=(*security.certificate, f"{CLIENT}={keys_of['shop']}"),
        trusted=(*security.trusted, f"{CLIENT}={security.trusted[0].partition('=')[2]}"),
    )


def test_body_is_encrypted_in_both_directions(signed: SecuritySettings, keys: Keys) -> None:  # noqa: F811
    security = replace(signed, encrypt_for=(f"{URL}={keys.public('shop')}",), require_encryption=("shop", URL))
    made, shop = pair(security)
    carried: list[bytes] = []
    for name in ("message *", "response *", "CreateSequence*", "SequenceAcknowledgement*"):
        made.wire.alter(name, lambda http: (carried.append(http.body), http)[1], times=99)
    made.to().send(Note("a secret"))
    answer = made.to().request(Reply("another secret"), response=Reply)
    made.run()
    assert shop.got == ["a secret"]
    assert answer.result(0) == Reply("re: another secret")
    assert carried
    assert not any(b"secret" in body or b"CreateSequence>" in body for body in carried)


def test_user_whose_token_is_signed_is_the_owner(signed: SecuritySettings, users: SecuritySettings) -> None:
    made, shop = pair(replace(signed, user=users.user, users=users.users, bind_sequences=(URL,)))
    made.to().send(Note("a"))
    made.run()
    assert shop.got == ["a"]
    assert identities(made) == {"user:till"}


# --- copies --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["users", "signed"])
def test_copy_of_a_recorded_message_is_refused(kind: str, request: pytest.FixtureRequest) -> None:
    made, shop = pair(request.getfixturevalue(kind))
    recorded: list[HttpMessage] = []  # SEC-10
    for name in ("CreateSequence", "message 1", "TerminateSequence"):
        made.wire.alter(name, lambda http: (recorded.append(http), http)[1])
    made.to().send(Note("a"))
    made.run()
    made.advance(60)
    assert len(recorded) >= 2
    before = rows(made)
    assert {brought(made, http) for http in recorded} == {"fault InvalidSecurity"}
    made.server.crash()  # the record is in the store
    assert {brought(made, http) for http in recorded} == {"fault InvalidSecurity"}
    made.clock.advance(400)
    assert {brought(made, http) for http in recorded} == {"fault InvalidSecurity"}
    assert rows(made) == before
    assert shop.got == ["a"]


@pytest.mark.parametrize("authority", ["RSA", "elliptic curve"])
def test_copy_under_a_certificate_that_is_written_in_another_way_shows_no_response(
    keys: Keys,  # noqa: F811
    authority: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    keys.make(authority, authority=True, key=None if authority == "RSA" else elliptic())
    keys.make("clerk", authority)
    other, ca = keys.make_in_two_ways("rewritten", authority), keys.public(authority)
    made, shop = pair(
        SecuritySettings(
            certificate=(f"{URL}={keys.file('rewritten')}", f"shop={keys.file('clerk')}"),
            trusted=(f"{URL}={ca}", f"shop={ca}"),
        )
    )
    recorded: list[HttpMessage] = []  # SEC-10
    for name in ("CreateSequence", "message 1", "message 2"):
        made.wire.alter(name, lambda http: (recorded.append(http), http)[1])
    made.to().send(Note("a"))
    answer = made.to().request(Reply("secret"), response=Reply)
    made.run()
    assert answer.result(0) == Reply("re: secret")
    assert len(recorded) == 3
    before = rows(made)
    for http in recorded:
        root = under_certificate(etree.fromstring(http.body), other)
        assert brought(made, replace(http, body=etree.tostring(root))) == "fault InvalidSecurity"
    assert "a copy of a message is refused" in caplog.text
    assert (shop.got, rows(made)) == (["a"], before)


def test_copies_are_one_line_a_minute_in_the_log(users: SecuritySettings, caplog: pytest.LogCaptureFixture) -> None:
    made, _ = pair(users)
    recorded: list[HttpMessage] = []
    made.wire.alter("message 1", lambda http: (recorded.append(http), http)[1])
    made.to().send(Note("a"))
    made.run()
    for lines in (1, 2):
        for _copy in range(5):
            assert brought(made, recorded[0]) == "fault InvalidSecurity"
        assert caplog.text.count("a copy of a message is refused") == lines
        made.advance(60)


def test_two_copies_that_arrive_together_are_one_message(users: SecuritySettings) -> None:
    made, _ = pair(users)
    made.wire.hold("CreateSequence")
    made.to().send(Note("a"))
    made.wire.run()
    (flight,) = made.wire.held
    arrival = Arrival(http=flight.http, service="shop", url=URL, peer="peer")
    answers = made.server._process.receive([arrival, arrival])
    assert [name_of(answer.http) for answer in answers or ()] == ["CreateSequenceResponse", "fault InvalidSecurity"]
    assert len(rows(made)) == 1


def test_message_whose_transaction_failed_may_come_again(users: SecuritySettings) -> None:
    made, _ = pair(users)
    made.wire.hold("CreateSequence")
    made.to().send(Note("a"))
    made.wire.run()
    (flight,) = made.wire.held
    made.server.store.fail()
    assert brought(made, flight.http) == "fault Receiver"
    assert brought(made, flight.http) == "CreateSequenceResponse"


# --- other senders -------------------------------------------------------------------------------------------------


def test_sequence_takes_nothing_from_another_trusted_peer(signed: SecuritySettings, keys: Keys) -> None:  # noqa: F811
    made, shop = pair(signed)
    made.to().send(Note("a"))
    made.run()
    (identifier,) = rows(made)
    thief = party(certificate=keys.file("shop"))
    foreign = Foreign(RM11_SOAP12)
    for http in (foreign.note(identifier, 2), foreign.terminate(identifier)):
        stolen = thief.secure(http, made.clock.now)
        assert brought(made, stolen) == "fault UnknownSequence"
    assert shop.got == ["a"]


def test_bound_sequence_takes_nothing_under_a_renewed_certificate(signed: SecuritySettings, keys: Keys) -> None:  # noqa: F811
    made, shop = pair(replace(signed, bind_sequences=(URL,)))
    made.to().send(Note("a"))
    made.run()
    # SEC-02
    keys.make("till renewed", "authority", subject="till")
    renewed = party(certificate=keys.file("till renewed"))
    (bound,) = rows(made)
    http = renewed.secure(Foreign(RM11_SOAP12).note(bound, 2), made.clock.now)
    assert brought(made, http) == "fault UnknownSequence"
    assert shop.got == ["a"]


@pytest.mark.parametrize("secured", ["no security", "a stranger"])
def test_forged_answers_at_the_address_of_a_client_do_not_count(
    signed: SecuritySettings,
    keys: Keys,  # noqa: F811
    secured: str,
) -> None:
    made, _ = pair(both_ways(signed), listen=True)
    made.wire.lose("CreateSequenceResponse", 99)
    made.wire.lose("SequenceAcknowledgement", 99)
    made.to().send(Note("a"))
    made.advance(0)
    with made.client.store.transaction() as tx:
        (create,) = (record.create_message_id for record in tx.rms.all())
    forged = Foreign(RM11_SOAP12).created("urn:forged", create)
    if secured == "a stranger":
        forged = party(certificate=keys.file("stranger")).secure(forged, made.clock.now)
    arrival = Arrival(http=forged, service=None, url="http://client/responses", peer="peer")
    made.client._process.receive([arrival])  # type: ignore[attr-defined]
    assert [status.identifier for status in made.client.sequences()] == [""]


def test_reply_on_the_connection_that_is_not_signed_does_not_count(signed: SecuritySettings) -> None:
    made, shop = pair(signed)
    made.wire.alter("CreateSequenceResponse", without_security, times=99)
    made.to().send(Note("a"))
    made.advance(10)
    assert shop.got == []
    assert [status.identifier for status in made.client.sequences()] == [""]


def test_fault_on_the_connection_that_is_not_signed_does_not_count(signed: SecuritySettings) -> None:
    made, shop = pair(signed)
    fault = Foreign(RM11_SOAP12).fault("CreateSequenceRefused")
    made.wire.alter("CreateSequenceResponse", lambda _: fault, times=3)
    made.to().send(Note("a"))
    made.run()
    assert shop.got == ["a"]


# --- what the service signs for another client ---------------------------------------------------------------------


def fault_about(made: Pair, known: Keys, identifier: str) -> HttpMessage:
    """The fault that the service signs for another client, which names a sequence that is not its own."""
    known.make("other", "authority")
    http = party(certificate=known.file("other")).secure(Foreign(RM11_SOAP12).note(identifier, 9), made.clock.now)
    process = made.server._process  # type: ignore[attr-defined]
    (answer,) = process.receive([Arrival(http=http, service="shop", url=URL, peer="other")])
    assert name_of(answer.http) == "fault UnknownSequence"
    verified = process.engine.decode(http, "shop").verified
    fault = process.engine.secured_reply(answer.http, "shop", verified)
    assert b"SignatureValue" in fault.body
    return replace(fault, status=None)


def ends_well(made: Pair, shop: Shop) -> None:
    """The sequence of the client goes on, and all arrives."""
    (before,) = [status.identifier for status in made.client.sequences() if status.endpoint == URL]
    made.run()
    assert shop.got == ["one", "two"]
    assert [status.identifier for status in made.client.sequences() if status.endpoint == URL] == [before]
    assert made.client.dead_letters() == []


def test_copy_of_a_fault_at_the_address_of_a_client_does_not_end_its_sequence(
    signed: SecuritySettings,
    keys: Keys,  # noqa: F811
) -> None:
    made, shop = pair(both_ways(signed), listen=True)
    made.to().send(Note("one"))
    made.run()
    made.wire.lose("message *", 2)
    made.to().send(Note("two"))
    made.advance(1)
    fault = fault_about(made, keys, rows(made)[0])
    arrival = Arrival(http=fault, service=None, url=f"{CLIENT}/mercury/responses", peer="other")
    made.client._process.receive([arrival])  # type: ignore[attr-defined]
    ends_well(made, shop)


def test_copy_of_a_fault_on_the_connection_does_not_end_the_sequence(
    signed: SecuritySettings,
    keys: Keys,  # noqa: F811
) -> None:
    made, shop = pair(signed)
    made.to().send(Note("one"))
    made.run()
    fault = fault_about(made, keys, rows(made)[0])
    made.wire.alter("acknowledgement", lambda _: fault)
    made.to().send(Note("two"))
    ends_well(made, shop)


def test_offer_of_the_identifier_of_a_clients_sequence_is_declined(signed: SecuritySettings) -> None:
    made, shop = pair(signed)
    made.to().send(Note("one"))
    made.run()
    keys_of_till = next(entry.partition("=")[2] for entry in signed.certificate if entry.startswith(URL))
    create = Foreign(RM11_SOAP12).create(message_id="urn:other", to=URL, offer=rows(made)[0])
    http = party(certificate=keys_of_till).secure(create, made.clock.now)
    (answer,) = made.server._process.receive([Arrival(http=http, service="shop", url=URL, peer="other")])  # type: ignore[attr-defined]
    assert name_of(answer.http) == "CreateSequenceResponse"
    assert b"Accept" not in answer.http.body
    assert shop.got == ["one"]


def test_the_trace_of_a_signed_message_is_the_signed_one(signed: SecuritySettings) -> None:
    shop, found = Shop(), []

    @shop.service.operation
    def trace(note: Traced) -> None:
        found.append(get_current_span().get_span_context().span_id)

    made = Pair(shop.service, settings=Settings(security=signed, source=SourcePolicy(batch=2)))
    sent = NonRecordingSpan(SpanContext(1, 2, is_remote=False))
    with use_span(sent):
        made.to().send(Traced("one"))

    def forged(http: HttpMessage) -> HttpMessage:
        assert b"<m:Sent" in http.body
        return replace(http, trace=read_trace(f"00-{'3' * 32}-{'4' * 16}-01"))

    made.wire.alter("message *", forged)
    made.run()
    assert found == [2]
