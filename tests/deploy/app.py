"""The application behind nginx: its senders have the identity that nginx has verified."""

from __future__ import annotations

import hmac
import os
import time
from dataclasses import dataclass

from mercury import HttpRequest, Mercury, NotAuthenticated, Service

SECRET = os.environ.get("PROXY_SECRET", "")
seen: list[str | None] = []


def by_proxy(request: HttpRequest) -> str | None:
    """The subject of the client's certificate, from a request of nginx."""
    if not SECRET or not hmac.compare_digest(request.headers.get("x-proxy-secret", ""), SECRET):
        raise NotAuthenticated("Requests must come through the proxy.")
    return request.headers.get("x-client-certificate") or None


@dataclass(frozen=True)
class Ask:
    text: str
    seconds: float = 0.0


@dataclass(frozen=True)
class Said:
    text: str


def remembered(request: HttpRequest) -> str | None:
    identity = by_proxy(request)
    seen.append(identity)
    return identity


service = Service("desk")


@service.operation
def ask(question: Ask) -> Said:
    time.sleep(question.seconds)
    return Said(question.text)


app = Mercury(authenticate=remembered).app(service)


@app.get("/seen")
def identities() -> list[str | None]:
    return seen
