"""A browser without JavaScript: keeps cookies, fills in forms, follows redirects. And a server with a console."""

from __future__ import annotations

import contextlib
import http.client
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import unescape
from urllib.parse import urlencode, urljoin, urlsplit

from starlette.types import ASGIApp

from mercury.console.console import Console
from mercury.console.settings import ConsoleSettings
from mercury.engine.runtime.peers import TlsSettings
from mercury.service.serving import BackgroundServer
from mercury.settings import HttpSettings
from mercury.storage.sql.store import SqlStore
from mercury.testing import FakeClock

OPERATOR, READER = "the-token-of-operators", "the-token-of-readers"
SETTINGS = ConsoleSettings(token=OPERATOR, reader_token=READER, refresh=0.05)


@dataclass(frozen=True)
class Answer:
    """An answer, with its headers by name in lower case."""

    status: int
    headers: dict[str, str]
    text: str
    url: str

    @property
    def title(self) -> str:
        found = re.search(r"<h1>(.*?)</h1>", self.text, re.DOTALL)
        return " ".join(re.sub(r"<[^>]+>", " ", found[1]).split()) if found else ""

    @property
    def words(self) -> str:
        """The text of the page without tags."""
        body = re.sub(r"<(head|svg|script)\b.*?</\1>", " ", self.text.replace("<wbr>", ""), flags=re.DOTALL)
        return " ".join(unescape(re.sub(r"<[^>]+>", " ", body)).split())

    def form(self, action: str) -> dict[str, str]:
        """The fields of the first form with an action, as the page fills them in."""
        found = re.search(rf'<form[^>]*action="{re.escape(action)}".*?</form>', self.text, re.DOTALL)
        assert found, f"no form {action} at {self.url}: {self.words[:300]}"
        fields = re.findall(r'<input(?![^>]*type="checkbox")[^>]*name="([^"]+)"[^>]*?value="([^"]*)"', found[0])
        areas = re.findall(r'<textarea[^>]*name="([^"]+)"[^>]*>\n?(.*?)</textarea>', found[0], re.DOTALL)
        return {name: unescape(value) for name, value in [*fields, *areas]}

    def links(self) -> list[str]:
        """Where the page leads."""
        return [unescape(each) for each in re.findall(r'<a [^>]*href="([^"]*)"', self.text)]


@dataclass
class Browser:
    """A browser at a server."""

    url: str
    host: str | None = None
    cookies: dict[str, str] = field(default_factory=dict)
    #: The attributes of each cookie as it was set last.
    attributes: dict[str, str] = field(default_factory=dict)

    def get(self, path: str, *, follow: bool = True, **headers: str) -> Answer:
        return self._ask("GET", path, None, headers, follow)

    def post(self, path: str, fields: dict[str, str], *, follow: bool = True, **headers: str) -> Answer:
        headers.setdefault("content_type", "application/x-www-form-urlencoded")
        return self._ask("POST", path, urlencode(fields), headers, follow)

    def submit(self, page: Answer, action: str, *, follow: bool = True, **fields: str) -> Answer:
        """Fill in a form of a page and send it."""
        return self.post(action, page.form(action) | fields, follow=follow, origin=self.url.rpartition("/")[0])

    def log_in(self, token: str = OPERATOR, name: str = "Ada") -> Answer:
        return self.submit(self.get("login"), "login", token=token, name=name)

    def _ask(self, method: str, path: str, body: str | None, headers: dict[str, str], follow: bool) -> Answer:
        url = urljoin(self.url, path)
        parts = urlsplit(url)
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.host is not None:
            sent["host"] = self.host
        if self.cookies:
            sent["cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        connection = http.client.HTTPConnection(parts.netloc, timeout=20)
        try:
            connection.request(method, f"{parts.path}?{parts.query}" if parts.query else parts.path, body, sent)
            reply = connection.getresponse()
            text = reply.read().decode()
        finally:
            connection.close()
        for each in reply.headers.get_all("set-cookie") or []:
            pair, _, rest = each.partition(";")
            name, _, value = pair.partition("=")
            self.cookies[name], self.attributes[name] = value, rest
        answer = Answer(reply.status, {name.lower(): value for name, value in reply.getheaders()}, text, url)
        if follow and reply.status in (303, 307):
            self.url = urljoin(url, "./")
            return self._ask("GET", urljoin(url, answer.headers["location"]), None, {}, follow)
        return answer


@contextlib.contextmanager
def serving(app: ASGIApp, tls: TlsSettings | None = None, port: int = 0) -> Iterator[str]:
    """A server with an application; its URL, which ends with a slash."""
    server = BackgroundServer("127.0.0.1", port, tls or TlsSettings())
    server.start(app, HttpSettings())  # type: ignore[arg-type]
    try:
        yield f"{server.url}/"
    finally:
        server.stop()


class Secrets:
    """Texts that are different each time."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._count = 0

    def __call__(self) -> str:
        with self._mutex:
            self._count += 1
            return f"secret-{self._count}"


def console_of(store: SqlStore, clock: FakeClock, settings: ConsoleSettings = SETTINGS, **options: object) -> Console:
    """A console whose time is the test's."""
    return Console(store, "sqlite:///shop.db", settings, clock=clock, secret=Secrets(), **options)  # type: ignore[arg-type]
