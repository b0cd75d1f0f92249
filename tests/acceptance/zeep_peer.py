"""The server that zeep's clients call in tests: the service of ``tests/data/wsdl/orders.wsdl``, with its messages."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from lxml import etree

from mercury import ApplicationFault, MessageContext, Service
from tests.acceptance.processes import PATIENCE, ROOT, eventually

WSDL = ROOT / "tests/data/wsdl/orders.wsdl"
NAMESPACE = "urn:mercury:orders"
WSA = "http://www.w3.org/2005/08/addressing"
PATH = "/services/orders"
#: The requirements of the WSDL, and the placeholder for an address in it.
RM_ASSERTION = "wsrmp:RMAssertion"
PLACE = "http://127.0.0.1:9/soap"


@dataclass(frozen=True)
class Place:
    sku: str
    qty: int


@dataclass(frozen=True)
class PlaceResponse:
    id: int


@dataclass(frozen=True)
class Notify:
    text: str


class Orders:
    """The service, and what its handlers were given."""

    def __init__(self) -> None:
        self.service = Service("orders", namespace=NAMESPACE)
        self.given: list[Place | Notify] = []
        self.headers: list[tuple[bytes, ...]] = []
        #: Orders of ``slow`` wait for it.
        self.go_on = threading.Event()

        @self.service.operation
        def place(order: Place, context: MessageContext) -> PlaceResponse:
            if order.sku == "slow":
                assert self.go_on.wait(PATIENCE)
            if order.qty < 0:
                raise ApplicationFault("less than nothing", code="Negative", detail=b'<why xmlns="urn:w">because</why>')
            context.transaction.after_commit(lambda: self._keep(order, context))
            return PlaceResponse(order.qty * 10)

        @self.service.operation
        def notify(notice: Notify, context: MessageContext) -> None:
            context.transaction.after_commit(lambda: self._keep(notice, context))

    def _keep(self, body: Place | Notify, context: MessageContext) -> None:
        self.headers.append(context.headers)
        self.given.append(body)

    def wait_for(self, *bodies: Place | Notify) -> None:
        """Wait until these were given, and nothing else was."""
        eventually(lambda: len(self.given) >= len(bodies), f"{len(bodies)} are given, now: {self.given}")
        assert self.given == list(bodies)


def wsdl_at(url: str, folder: Path, *, change: Callable[[str], str] = lambda text: text) -> str:
    """The file of a WSDL whose ports are at an address."""
    file = folder / "orders.wsdl"
    file.write_text(change(WSDL.read_text(encoding="utf-8")).replace(PLACE, url), encoding="utf-8")
    return str(file)


class Tap:
    """An HTTP server that keeps what is posted to it, and has it answered.

    :param target: the ``host:port`` that it hands everything to; ``None`` = `answer` is the answer.
    """

    def __init__(
        self, target: str | None = None, answer: bytes = b"", documents: dict[str, bytes] | None = None
    ) -> None:
        self.posts: list[etree._Element] = []
        self.types: list[str] = []
        self.fetched: list[str] = []
        tap, documents = self, documents or {}

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                tap.types.append(self.headers["Content-Type"])
                tap.posts.append(etree.fromstring(body))
                if target is None:
                    self._reply(200, "text/xml", answer)
                    return
                names = ("Content-Type", "SOAPAction")
                given = {name: self.headers[name] for name in names if name in self.headers}
                connection = http.client.HTTPConnection(target, timeout=PATIENCE)
                connection.request("POST", self.path, body, given)
                reply = connection.getresponse()
                self._reply(reply.status, reply.headers.get("Content-Type", ""), reply.read())
                connection.close()

            def do_GET(self) -> None:
                tap.fetched.append(self.path)
                self._reply(200, "text/xml", documents[self.path])

            def _reply(self, status: int, kind: str, body: bytes) -> None:
                self.send_response(status)
                if kind:
                    self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    @property
    def netloc(self) -> str:
        return f"127.0.0.1:{self._server.server_port}"

    @property
    def url(self) -> str:
        return f"http://{self.netloc}{PATH}"

    def __enter__(self) -> Tap:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def told(self, name: str, *, namespace: str = WSA) -> list[list[str]]:
        """Of each post the texts of the header blocks of a name."""
        return [[each.text or "" for each in post.iterfind(f"./*[1]/{{{namespace}}}{name}")] for post in self.posts]

    @property
    def bodies(self) -> list[str]:
        """Of each post the name of the element in its Body; "" = it is empty."""
        return [_name(post[-1]) for post in self.posts]


def _name(body: Iterable[etree._Element]) -> str:
    return next((each.tag for each in body), "")
