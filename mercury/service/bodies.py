"""Reads the bodies of requests, within a limit for each body and a limit for all of them together."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

from mercury.service.shares import FREE, Share, Shares
from mercury.settings import HttpSettings
from mercury.statemachine.faults import Fault, FaultCode
from mercury.storage.callers import network_of
from mercury.wire.values import whole_number

log = logging.getLogger("mercury.endpoint")


class RequestRefused(Exception):
    """The endpoint answers a request with ``status`` and ``fault`` and does not pass it to the engine."""

    def __init__(self, status: int, reason: str, *, busy: bool = False, challenge: str | None = None) -> None:
        super().__init__(reason)
        self.status = status
        #: The value of the WWW-Authenticate header of a 401.
        self.challenge = challenge
        code = FaultCode.RECEIVER if busy else FaultCode.SENDER
        self.fault = Fault(code=code, reason=reason, sender=not busy, busy=busy)


class Bodies:
    """Counts the bytes of all request bodies that this process receives or handles, and of their answers.

    Used in the event loop's thread only.

    :param max_bytes: the largest body of one request, in bytes.
    """

    def __init__(self, max_bytes: int, settings: HttpSettings) -> None:
        self._max_bytes = max_bytes
        #: Seconds in which a whole body must arrive.
        self._timeout = settings.receive_timeout
        #: Bytes of the request bodies, without the first `FREE` bytes of each.
        self._received = Shares(settings.max_receiving_bytes)
        #: Bytes of the answers larger than `FREE`, until the peer has read them.
        self.answers = Shares(settings.max_sending_bytes)
        self._lost_body_logged = False

    async def read(
        self, headers: Mapping[str, str], receive: Callable[[], Awaitable[MutableMapping[str, Any]]], host: str
    ) -> tuple[bytes, Share | None]:
        """Read one body.

        :param host: the peer's IP address.
        :returns: the body and its share of the limit. The caller passes the share to `release` after the engine has
            handled the body. ``None`` = the body is small and counts for nothing.
        :raises RequestRefused: the body, or its Content-Length, is above a limit (413, 503); it did not arrive in time
            (408); the peer disconnected (400); or it was cut so that another network's body fits (503). Its bytes
            are no longer counted then.
        """
        announced = whole_number(headers.get("content-length"))
        if announced is not None:
            self._check(announced, host)
        pieces: list[bytes] = []
        size = 0
        share: Share | None = None
        try:
            async with asyncio.timeout(self._timeout) as timeout:
                while True:
                    event = await receive()
                    if event["type"] == "http.disconnect":
                        raise RequestRefused(400, "The request broke off.")
                    piece = event.get("body", b"")
                    size += len(piece)
                    if size > self._max_bytes:
                        raise self._too_long()
                    if size > FREE:
                        share = share or _share(host, timeout)
                        self._count(share, size)
                    pieces.append(piece)
                    if not event.get("more_body", False):
                        break
        except BaseException as error:
            if share is not None:
                self._received.drop(share)
            if isinstance(error, TimeoutError):
                if share is not None and share.lost:
                    raise _too_many() from None
                raise RequestRefused(408, "The request took too long to arrive.") from None
            raise
        if not size:
            self._check_upgrade(headers)
        if share is not None:
            share.cut = None  # a body that has arrived is not cut any more
        return b"".join(pieces), share

    def release(self, share: Share | None) -> None:
        """Stop counting a body that `read` returned."""
        if share is not None:
            self._received.drop(share)

    def _count(self, share: Share, size: int) -> None:
        if share.lost or not self._received.grow(share, size - FREE, asyncio.get_running_loop().time()):
            raise _too_many()

    def _check(self, size: int, host: str) -> None:
        if size > self._max_bytes:
            raise self._too_long()
        if size > FREE and not self._received.may_have(network_of(host), size - FREE):
            raise _too_many()

    def _too_long(self) -> RequestRefused:
        return RequestRefused(413, f"The message is longer than {self._max_bytes} bytes.")

    def _check_upgrade(self, headers: Mapping[str, str]) -> None:
        """Detect an HTTP server that drops the body of a request with an Upgrade header.

        :raises RequestRefused: the headers announce a body, and none came (500).
        """
        has_body = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
        if "upgrade" not in headers or not has_body:
            return
        if not self._lost_body_logged:
            self._lost_body_logged = True
            log.error(
                "the HTTP server lost the body of a request that offers an upgrade (Upgrade: %s), as uvicorn with "
                "httptools does; start it with: uvicorn --http mercury.service.http11:Http11Protocol, or: mercury "
                "serve. Further ones are not logged",
                headers["upgrade"][:100].encode("unicode_escape").decode(),
            )
        raise RequestRefused(500, "The HTTP server in front of this endpoint lost the message.", busy=True)


def _too_many() -> RequestRefused:
    return RequestRefused(503, "Too many large messages at once; send it again later.", busy=True)


def _share(host: str, timeout: asyncio.Timeout) -> Share:
    loop = asyncio.get_running_loop()

    def cut() -> None:
        if not timeout.expired():
            timeout.reschedule(loop.time())

    return Share(network_of(host), loop.time(), cut)
