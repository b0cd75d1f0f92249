"""A zeep client in which only the transport is changed, over real sockets."""

from __future__ import annotations

import logging
import sys
import textwrap
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy
import zeep
import zeep.helpers
import zeep.wsse.username
from lxml import etree
from zeep.wsa import WsAddressingPlugin

from mercury import (
    ApplicationFault,
    ConfigurationError,
    Mercury,
    MercuryError,
    MessageContext,
    RmVersion,
    Service,
    SourcePolicy,
    Transaction,
    ZeepTransport,
)
from mercury.client.overview import waiting_by_key
from mercury.engine.events import Side
from mercury.statemachine.tables import RmsState
from tests.acceptance.processes import PATIENCE, Running, eventually
from tests.acceptance.zeep_peer import PATH, WSA, Notify, Orders, Place, Tap, wsdl_at

#: A port at which no process listens.
NOWHERE = f"http://127.0.0.1:9{PATH}"
PORTS = pytest.mark.parametrize("port", ["P11", "P12"])
RM11, RM10 = "http://docs.oasis-open.org/ws-rx/wsrm/200702", "http://schemas.xmlsoap.org/ws/2005/02/rm"
SOAP11 = "http://schemas.xmlsoap.org/soap/envelope/"


@dataclass(frozen=True)
class Shop:
    """A server in this process, and a client's Mercury."""

    orders: Orders
    url: str
    mercury: Mercury
    folder: Path

    @property
    def netloc(self) -> str:
        return self.url.removeprefix("http://").partition("/")[0]

    def client(
        self, port: str = "P12", *, url: str | None = None, transport: Any = None, change: Any = str, **options: Any
    ) -> zeep.Client:
        """A client of zeep's, as a user makes it."""
        wsdl = wsdl_at(url or self.url, self.folder, change=change)
        transport = transport or self.mercury.zeep_transport()
        return zeep.Client(wsdl, transport=transport, service_name="Orders", port_name=port, **options)

    def waiting(self) -> int:
        """What the client has stored and not done, wherever it goes."""
        return sum(waiting_by_key(self.mercury.store).values())


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    orders = Orders()
    server = Mercury("memory:", allow=["http://127.0.0.1:*"])
    url = server.listen(orders.service)
    with server, Mercury("memory:") as mercury:
        yield Shop(orders, url + PATH, mercury, tmp_path)
        orders.go_on.set()


# --- calls -----------------------------------------------------------------------------------------------------------


@PORTS
def test_request_returns_the_response_as_zeep_reads_it(shop: Shop, port: str) -> None:
    assert shop.client(port).service.Place(sku="tea", qty=4) == 40
    shop.orders.wait_for(Place("tea", 4))


def test_one_way_call_returns_when_it_is_stored(shop: Shop) -> None:
    client = shop.client(url=NOWHERE)
    assert client.service.Notify(text="nobody is there") is None
    assert shop.waiting() == 1


@PORTS
def test_one_way_calls_arrive_once_and_in_order(shop: Shop, port: str) -> None:
    client = shop.client(port)
    for number in range(20):
        client.service.Notify(text=str(number))
    assert client.transport.wait(PATIENCE)
    shop.orders.wait_for(*(Notify(str(number)) for number in range(20)))


@PORTS
def test_fault_is_raised_as_the_fault_of_zeep(shop: Shop, port: str) -> None:
    with pytest.raises(zeep.exceptions.Fault) as raised:
        shop.client(port).service.Place(sku="tea", qty=-1)
    assert raised.value.message == "less than nothing"
    assert raised.value.code.endswith({"P11": ":Client", "P12": ":Sender"}[port])
    assert raised.value.detail.findtext("{urn:w}why") == "because"


def test_call_without_a_response_in_time_raises_timeout_and_is_delivered_once(shop: Shop) -> None:
    client = shop.client(transport=shop.mercury.zeep_transport(operation_timeout=0.2))
    with pytest.raises(TimeoutError, match=r"no response to .* within 0\.2 s"):
        client.service.Place(sku="slow", qty=1)
    shop.orders.go_on.set()
    assert client.transport.wait(PATIENCE)
    shop.orders.wait_for(Place("slow", 1))


def test_timeout_of_zeeps_settings_counts(shop: Shop) -> None:
    client = shop.client()
    with client.transport.settings(timeout=0.1), pytest.raises(TimeoutError, match=r"within 0\.1 s"):
        client.service.Place(sku="slow", qty=1)


def test_raw_response_is_the_envelope(shop: Shop) -> None:
    client = shop.client("P11")
    with client.settings(raw_response=True):
        response = client.service.Place(sku="tea", qty=4)
    assert (response.status_code, response.headers) == (200, {"Content-Type": "text/xml; charset=utf-8"})
    assert etree.fromstring(response.content).findtext(".//{urn:mercury:orders}id") == "40"
    assert response.text == response.content.decode()


def test_threads_share_a_client(shop: Shop) -> None:
    client, found = shop.client(), dict[int, int]()

    def place(number: int) -> None:
        found[number] = client.service.Place(sku="tea", qty=number)

    threads = [threading.Thread(target=place, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert found == {number: number * 10 for number in range(8)}


def test_leaving_the_client_ends_its_sequence(shop: Shop) -> None:
    with shop.client() as client:
        client.service.Notify(text="the last")
    assert client.transport.wait(PATIENCE)
    shop.orders.wait_for(Notify("the last"))
    assert [status.state for status in shop.mercury.sequences() if status.side is Side.SOURCE] == [RmsState.ENDED]


# --- futures and callbacks -------------------------------------------------------------------------------------------


@PORTS
def test_future_gets_the_response_as_zeep_reads_it(shop: Shop, port: str) -> None:
    client = shop.client(port)
    future = client.transport.request(client.service.Place, sku="slow", qty=7)
    assert not future.done()
    with pytest.raises(TimeoutError, match=r"within 0\.01 s; still waiting"):
        future.result(0.01)
    shop.orders.go_on.set()
    assert future.result(PATIENCE) == 70


class Seen(zeep.Plugin):
    """Notes the thread in which zeep parses, and whether it is strict."""

    def __init__(self) -> None:
        self.threads: list[threading.Thread] = []
        self.strict: list[bool] = []
        self.client: Any = None

    def ingress(self, envelope: Any, http_headers: Any, operation: Any) -> tuple[Any, Any]:
        self.threads.append(threading.current_thread())
        self.strict.append(self.client.settings.strict)
        return envelope, http_headers


def test_response_of_a_future_is_parsed_in_a_thread_that_ends(shop: Shop) -> None:
    seen = Seen()
    client = seen.client = shop.client(plugins=[seen])
    assert client.transport.request(client.service.Place, sku="tea", qty=7).result(PATIENCE) == 70
    answer = b'<t:PlaceResponse xmlns:t="urn:mercury:orders"><t:id>7</t:id></t:PlaceResponse>'
    with client.settings(strict=False):
        assert client.transport.response(client.service.Place, answer) == 7
    assert client.transport.response(client.service.Place, answer) == 7
    assert not any(thread.is_alive() for thread in seen.threads)
    assert seen.strict == [True, False, True]  # the settings of the caller's thread


@PORTS
def test_future_gets_the_fault_of_zeep(shop: Shop, port: str) -> None:
    client = shop.client(port)
    future = client.transport.request(client.service.Place, sku="tea", qty=-1)
    assert isinstance(future.exception(PATIENCE), zeep.exceptions.Fault)
    with pytest.raises(zeep.exceptions.Fault, match="less than nothing"):
        future.result(PATIENCE)


def test_future_of_a_one_way_operation_is_refused_and_nothing_is_stored(shop: Shop) -> None:
    client = shop.client(url=NOWHERE)
    with pytest.raises(ConfigurationError, match="Notify is one-way"):
        client.transport.request(client.service.Notify, text="x")
    assert shop.waiting() == 0


def test_operation_of_another_client_is_refused(shop: Shop) -> None:
    client, other = shop.client(url=NOWHERE), shop.client(url=NOWHERE)
    for wrong in (other.service.Place, len):
        with pytest.raises(ConfigurationError, match="client with this transport"):
            client.transport.request(wrong, sku="x", qty=1)
    assert shop.waiting() == 0


def test_callback_reads_response_and_fault_as_zeep_does(shop: Shop) -> None:
    found: dict[str | None, object] = {}
    client = shop.client()

    @shop.mercury.callback("placed")
    def placed(context: MessageContext, answer: bytes | ApplicationFault) -> None:
        try:
            found[context.correlation] = client.transport.response(client.service.Place, answer, context.headers)
        except zeep.exceptions.Fault as fault:
            found[context.correlation] = fault.message

    for correlation, quantity in (("order:1", 3), ("order:2", -1)):
        with client.transport.correlated(correlation):
            receipt = client.transport.request_with_callback(client.service.Place, "placed", sku="tea", qty=quantity)
        assert receipt.endpoint == shop.url
    eventually(lambda: len(found) == 2, "both are answered")
    assert found == {"order:1": 30, "order:2": "less than nothing"}


def test_callback_that_is_not_registered_is_refused(shop: Shop) -> None:
    client = shop.client(url=NOWHERE)
    with pytest.raises(ConfigurationError, match="no callback named 'nobody'"):
        client.transport.request_with_callback(client.service.Place, "nobody", sku="tea", qty=1)
    assert shop.waiting() == 0


# --- transactions ----------------------------------------------------------------------------------------------------


def test_calls_in_a_transaction_leave_with_its_commit(shop: Shop) -> None:
    client = shop.client()
    with shop.mercury.transaction():
        client.service.Notify(text="first")
        future = client.transport.request(client.service.Place, sku="tea", qty=1)
        assert shop.orders.given == []
        assert not future.done()
    assert future.result(PATIENCE) == 10
    shop.orders.wait_for(Notify("first"), Place("tea", 1))


def test_calls_in_a_transaction_that_is_rolled_back_are_not_sent(shop: Shop) -> None:
    client = shop.client()
    with pytest.raises(ValueError, match="not today"), shop.mercury.transaction():
        client.service.Notify(text="never")
        client.transport.request(client.service.Place, sku="never", qty=1)
        raise ValueError("not today")
    assert shop.waiting() == 0
    client.service.Notify(text="afterwards")
    assert client.transport.wait(PATIENCE)
    shop.orders.wait_for(Notify("afterwards"))


def test_response_is_not_waited_for_inside_a_transaction(shop: Shop) -> None:
    client = shop.client()
    refused = pytest.raises(ConfigurationError, match=r"answered after the commit.*transport\.request")
    with shop.mercury.transaction(), refused:
        client.service.Place(sku="tea", qty=1)
    assert shop.waiting() == 0
    assert client.service.Place(sku="tea", qty=2) == 20


def test_calls_leave_with_the_commit_of_a_session_of_the_applications(tmp_path: Path) -> None:
    with Mercury(f"sqlite:///{tmp_path}/shop.db") as mercury:
        shop = Shop(Orders(), NOWHERE, mercury, tmp_path)
        client = shop.client()
        engine = sqlalchemy.create_engine(f"sqlite:///{tmp_path}/shop.db")
        with engine.connect() as connection, closing(SimpleNamespace(close=engine.dispose)):
            connection.exec_driver_sql("create table orders (id integer)")
            for commit in (False, True):
                with mercury.transaction(connection):
                    connection.exec_driver_sql("insert into orders values (1)")
                    client.service.Notify(text="stored with the order")
                (connection.commit if commit else connection.rollback)()
                assert shop.waiting() == int(commit)


def test_transaction_of_another_thread_is_not_joined(shop: Shop) -> None:
    """A thread of its own starts outside the block: its calls are stored at once."""
    client = shop.client(url=NOWHERE)
    with pytest.raises(ValueError, match="undone"), shop.mercury.transaction():
        thread = threading.Thread(target=client.service.Notify, kwargs={"text": "apart"})
        thread.start()
        thread.join(PATIENCE)
        raise ValueError("undone")
    assert shop.waiting() == 1


def test_call_in_a_handler_is_part_of_what_the_handler_does(tmp_path: Path) -> None:
    """On SQLite a transaction of its own would wait for the handler's forever."""
    orders, front = Orders(), Service("front", namespace="urn:mercury:orders")
    attempts: list[int] = []
    with Mercury("memory:") as back:
        url = back.listen(orders.service) + PATH
        with Mercury(f"sqlite:///{tmp_path}/front.db") as mercury:
            transport = mercury.zeep_transport(listen=False)
            client = Shop(orders, url, mercury, tmp_path).client(transport=transport)

            @front.operation
            def notify(notice: Notify, tx: Transaction) -> None:
                attempts.append(len(attempts))
                client.service.Notify(text=f"{notice.text}, try {len(attempts)}")
                if len(attempts) == 1:
                    raise ValueError("the first try fails")

            here = mercury.listen(front) + "/services/front"
            sender = mercury.to(here, namespace="urn:mercury:orders", listen=False)
            sender.send(Notify("through"))
            assert sender.wait(PATIENCE)
            orders.wait_for(Notify("through, try 2"))


# --- what is stored outlives the process -----------------------------------------------------------------------------


def test_stored_call_is_sent_by_the_next_process(tmp_path: Path) -> None:
    orders, server = Orders(), Mercury("memory:")
    url = server.listen(orders.service) + PATH
    script = textwrap.dedent("""
        import sys, threading, zeep
        from mercury import Mercury
        mercury = Mercury(sys.argv[1])  # not started: the process dies between storing and sending
        client = zeep.Client(sys.argv[2], transport=mercury.zeep_transport())
        client.service.Notify(text="from the first process")
        print("stored", flush=True)
        threading.Event().wait()
    """)
    store = f"sqlite:///{tmp_path}/outbox.db"
    with server:
        with Running(sys.executable, "-c", script, store, wsdl_at(url, tmp_path)) as first:
            first.says("stored")
        assert orders.given == []
        with Mercury(store) as mercury:
            assert mercury.to(url).wait(PATIENCE)
        orders.wait_for(Notify("from the first process"))


def test_request_of_a_mercury_that_is_not_started_is_refused_and_not_stored(tmp_path: Path) -> None:
    mercury = Mercury("memory:")
    shop = Shop(Orders(), NOWHERE, mercury, tmp_path)
    with pytest.raises(MercuryError, match="no response to Place can come"):
        shop.client().service.Place(sku="tea", qty=1)
    assert shop.waiting() == 0
    mercury.stop()


# --- what is on the wire ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("plugins", [[], [WsAddressingPlugin()]], ids=["own", "plugin"])
def test_addressing_headers_are_not_doubled(shop: Shop, plugins: list[Any]) -> None:
    with Tap(shop.netloc) as tap:
        client = shop.client(url=tap.url, plugins=plugins)
        assert client.service.Place(sku="tea", qty=1) == 10
        client.service.Notify(text="x")
        client.transport.close()
        assert client.transport.wait(PATIENCE)
        for name in ("Action", "MessageID", "To"):
            assert {len(found) for found in tap.told(name)} == {1}
    actions = [action for [action] in tap.told("Action")]
    assert [action for action in actions if action.startswith("urn:mercury:orders")] == [
        "urn:mercury:orders/Place",
        "urn:mercury:orders/Notify",
    ]


@pytest.mark.parametrize("listens", [False, True], ids=["anonymous", "listening"])
def test_wsa_to_of_all_messages_may_differ_from_the_url(shop: Shop, listens: bool) -> None:
    if listens:
        shop.mercury.listen()
    with Tap(shop.netloc) as tap:
        client = shop.client(url=tap.url, plugins=[WsAddressingPlugin("urn:orders:europe")])
        assert client.service.Place(sku="tea", qty=1) == 10
        if listens:  # the acknowledgement of the response goes to AcksTo, which is the wsa:To that the server knows
            acknowledgement = [f"{RM11}/SequenceAcknowledgement"]
            eventually(lambda: acknowledgement in tap.told("Action"), "the response is acknowledged")
        client.transport.close()
        assert client.transport.wait(PATIENCE)
        assert {to for [to] in tap.told("To")} == {"urn:orders:europe"}
        told = {action.rpartition("/")[2] for [action] in tap.told("Action")}
        assert {"CreateSequence", "Place", "CloseSequence", "TerminateSequence"} <= told


def test_wsa_to_that_differ_have_sequences_of_their_own(shop: Shop) -> None:
    with Tap(shop.netloc) as tap:
        transport = shop.mercury.zeep_transport()
        for to in ("urn:a", "urn:b"):
            client = shop.client(url=tap.url, transport=transport, plugins=[WsAddressingPlugin(to)])
            assert client.service.Place(sku=to, qty=1) == 10
        placed = [post for post, name in zip(tap.posts, tap.bodies, strict=True) if name.endswith("Place")]
        identifiers = {post.findtext(f".//{{{RM11}}}Sequence/{{{RM11}}}Identifier") for post in placed}
        assert len(identifiers) == 2


def test_header_blocks_of_the_application_travel(shop: Shop) -> None:
    block = etree.fromstring('<w:who xmlns:w="urn:who">Ada</w:who>')
    client = shop.client(wsse=zeep.wsse.username.UsernameToken("ada", "secret"))
    assert client.service.Place(sku="tea", qty=1, _soapheaders=[block]) == 10
    (headers,) = shop.orders.headers
    assert [etree.QName(etree.fromstring(each)).localname for each in headers] == ["who", "Security"]


class Signs:
    """What zeep's signatures do to an envelope."""

    def apply(self, envelope: Any, headers: Any) -> Any:
        security = etree.SubElement(
            zeep.wsdl.utils.get_or_create_header(envelope),
            "{http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-wssecurity-secext-1.0.xsd}Security",
        )
        etree.SubElement(security, "{http://www.w3.org/2000/09/xmldsig#}Signature")
        return envelope, headers


def test_signed_envelope_is_refused(shop: Shop) -> None:
    with pytest.raises(ConfigurationError, match=r"each transmission is a new envelope\. Use TLS"):
        shop.client(url=NOWHERE, wsse=Signs()).service.Notify(text="x")
    assert shop.waiting() == 0


def test_http_headers_that_are_not_sent_are_logged_once(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    settings = zeep.Settings(extra_http_headers={"Authorization": "Bearer x"})
    client = shop.client(settings=settings)
    for _ in range(2):
        assert client.service.Place(sku="tea", qty=1) == 10
    assert [line for line in caplog.messages if "Authorization" in line] == [
        f"{shop.url}: the HTTP header Authorization is not sent with reliable messages: name it in peers="
    ]


# --- the requirements of the WSDL ------------------------------------------------------------------------------------

POLICY_10 = "http://schemas.xmlsoap.org/ws/2005/02/rm/policy"


def without_policy(text: str) -> str:
    root = etree.fromstring(text)
    for element in root.xpath("//*[namespace-uri()='http://www.w3.org/ns/ws-policy']"):
        if element.getparent() is not None:
            element.getparent().remove(element)
    return etree.tostring(root, encoding="unicode")


def with_addressing_only(text: str) -> str:
    root = etree.fromstring(text)
    (assertion,) = root.xpath("//*[local-name()='RMAssertion']")
    assertion.getparent().remove(assertion)
    return etree.tostring(root, encoding="unicode")


def asking_for_rm10(text: str) -> str:
    root = etree.fromstring(text)
    (assertion,) = root.xpath("//*[local-name()='RMAssertion']")
    assertion.getparent().replace(assertion, etree.Element(f"{{{POLICY_10}}}RMAssertion"))
    return etree.tostring(root, encoding="unicode")


@pytest.mark.parametrize(
    ("change", "settings", "spoken"),
    [
        (str, RmVersion.RM10, RM11),
        (asking_for_rm10, RmVersion.RM11, RM10),
        (without_policy, RmVersion.RM10, RM10),
        (without_policy, RmVersion.RM11, RM11),
    ],
    ids=["policy 1.1", "policy 1.0", "settings 1.0", "settings 1.1"],
)
def test_version_is_the_policys_or_else_the_settings(shop: Shop, change: Any, settings: RmVersion, spoken: str) -> None:
    policy = SourcePolicy(protocol=replace(SourcePolicy().protocol, rm=settings))
    with Tap(shop.netloc) as tap:
        client = shop.client(url=tap.url, change=change, transport=shop.mercury.zeep_transport(policy=policy))
        assert client.service.Place(sku="tea", qty=1) == 10
        assert tap.bodies[0] == f"{{{spoken}}}CreateSequence"


ANSWER = (
    f'<s:Envelope xmlns:s="{SOAP11}"><s:Body><t:PlaceResponse xmlns:t="urn:mercury:orders"><t:id>7</t:id>'
    "</t:PlaceResponse></s:Body></s:Envelope>"
).encode()


def test_endpoint_without_rm_in_its_policy_is_called_plainly_and_logged_once(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    with Tap(answer=ANSWER) as tap:
        client = shop.client("P11", url=tap.url, change=with_addressing_only)
        for _ in range(3):
            assert client.service.Place(sku="tea", qty=1) == 7
        assert tap.bodies == ["{urn:mercury:orders}Place"] * 3
        with pytest.raises(ConfigurationError, match="the caller must wait for its response"):
            client.transport.request(client.service.Place, sku="tea", qty=1)
        assert len(tap.posts) == 3
    assert shop.waiting() == 0
    assert [line for line in caplog.messages if "policy" in line] == [
        f"{tap.url}: its policy has no WS-ReliableMessaging assertion: it is called without"
    ]


def with_responses(restriction: str) -> Any:
    def change(text: str) -> str:
        policy = f"<wsam:Addressing><wsp:Policy><wsam:{restriction}/></wsp:Policy></wsam:Addressing>"
        assert "<wsam:Addressing><wsp:Policy/></wsam:Addressing>" in text
        return text.replace("<wsam:Addressing><wsp:Policy/></wsam:Addressing>", policy)

    return change


def test_policy_that_wants_anonymous_responses_has_them_fetched(shop: Shop) -> None:
    shop.mercury.listen()
    with Tap(shop.netloc) as tap:
        for change, anonymous in ((with_responses("AnonymousResponses"), True), (str, False)):
            transport = shop.mercury.zeep_transport(key=change.__name__)
            assert shop.client(url=tap.url, change=change, transport=transport).service.Place(sku="tea", qty=1) == 10
            (placed,) = (post for post in tap.posts if post.findtext(".//{urn:mercury:orders}sku"))
            assert (placed.findtext(f".//{{{WSA}}}ReplyTo/{{{WSA}}}Address") == f"{WSA}/anonymous") is anonymous
            tap.posts.clear()


def test_policy_that_wants_an_address_for_responses_is_refused_without_one(shop: Shop) -> None:
    client = shop.client(url=NOWHERE, change=with_responses("NonAnonymousResponses"))
    with pytest.raises(ConfigurationError, match="to listen, Mercury needs an address"):
        client.service.Notify(text="x")
    assert shop.waiting() == 0


def test_policy_that_wants_what_is_not_done_is_logged_once(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    def change(text: str) -> str:
        wanted = '<t:ATAssertion xmlns:t="http://docs.oasis-open.org/ws-tx/wsat/2006/06"/>'
        return text.replace("<wsp:All>", f"<wsp:All>{wanted}", 1)

    client = shop.client(change=change)
    for _ in range(2):
        assert client.service.Place(sku="tea", qty=1) == 10
    assert [line for line in caplog.messages if "policy" in line] == [
        f"{shop.url}: its policy requires a feature that Mercury does not support: ATAssertion (WS-AtomicTransaction)"
    ]


def test_policy_that_wants_security_that_is_not_set_is_logged_once(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    def change(text: str) -> str:
        wanted = '<p:AsymmetricBinding xmlns:p="http://docs.oasis-open.org/ws-sx/ws-securitypolicy/200702"/>'
        return text.replace("<wsp:All>", f"<wsp:All>{wanted}", 1)

    client = shop.client(change=change)
    for _ in range(2):
        assert client.service.Place(sku="tea", qty=1) == 10
    assert [line for line in caplog.messages if "policy" in line] == [
        f"{shop.url}: its policy requires WS-Security: set security.certificate for it",
        f"{shop.url}: its policy requires WS-Security: set security.trusted for it",
    ]


def test_policy_that_nobody_can_fulfil_is_refused(shop: Shop) -> None:
    def change(text: str) -> str:
        root = etree.fromstring(text)
        for alternative in root.xpath("//*[local-name()='All']"):
            alternative.getparent().remove(alternative)
        return etree.tostring(root, encoding="unicode")

    with pytest.raises(ConfigurationError, match="no client can call it"):
        shop.client(url=NOWHERE, change=change).service.Notify(text="x")
    assert shop.waiting() == 0


@pytest.mark.parametrize("change", [str, with_addressing_only], ids=["asked for", "not asked for"])
def test_whether_calls_are_reliable_can_be_said(shop: Shop, change: Any, caplog: pytest.LogCaptureFixture) -> None:
    with Tap(answer=ANSWER) as tap:
        client = shop.client("P11", url=tap.url, change=change, transport=shop.mercury.zeep_transport(reliable=False))
        assert client.service.Place(sku="tea", qty=1) == 7
    client = shop.client("P11", change=change, transport=shop.mercury.zeep_transport(reliable=True))
    assert client.service.Place(sku="tea", qty=1) == 10
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_documents_are_loaded_plainly(shop: Shop, tmp_path: Path) -> None:
    whole = Path(wsdl_at(shop.url, tmp_path)).read_bytes()
    with Tap(shop.netloc, documents={"/orders?wsdl": whole}) as tap:
        transport = shop.mercury.zeep_transport()
        client = zeep.Client(f"http://{tap.netloc}/orders?wsdl", transport=transport)
        assert client.service.Place(sku="tea", qty=1) == 10
        assert (tap.fetched, tap.posts) == (["/orders?wsdl"], [])
    assert isinstance(transport, zeep.Transport)
    assert isinstance(transport, ZeepTransport)


def test_call_by_a_wsdl_that_the_transport_has_not_loaded_is_refused(shop: Shop, tmp_path: Path) -> None:
    file = wsdl_at(shop.url, tmp_path)
    document = zeep.wsdl.Document(file, zeep.Transport())
    transport = shop.mercury.zeep_transport()
    client = zeep.Client(document, transport=transport)
    with pytest.raises(ConfigurationError, match=r"load it into the transport: transport.load\(url\)"):
        client.service.Place(sku="tea", qty=1)
    transport.load(file)  # type: ignore[attr-defined]
    assert client.service.Place(sku="tea", qty=1) == 10


def test_missing_zeep_is_named_with_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, make in (("zeep", Mercury.zeep_transport), ("httpx", Mercury.azeep_transport)):
        with monkeypatch.context() as without:
            without.setitem(sys.modules, module, None)
            mercury = Mercury("memory:")
            with pytest.raises(ConfigurationError, match=rf"{module} is missing: pip install 'mercury-rm\[zeep\]'"):
                make(mercury)
            mercury.stop()
