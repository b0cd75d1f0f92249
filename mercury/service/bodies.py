"""Reading the bodies of requests, within the limits of each and of all together."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any

from mercury.statemachine.faults import Fault, FaultCode

log = logging.getLogger("mercury.endpoint")

#: Bytes of each body that the common limit leaves out: small messages are taken whatever the large ones use.
FREE = 64 * 1024


class RequestRefused(Exception):
    """A request is not handed to the engine; ``status`` and ``fault`` are its answer."""

    def __init__(self, status: int, reason: str, *, busy: bool = False, challenge: str | None = None) -> None:
        super().__init__(reason)
        self.status = status
        #: Of a 401: the value of its WWW-Authenticate header.
        self.challenge = challenge
        code = FaultCode.RECEIVER if busy else FaultCode.SENDER
        self.fault = Fault(code=code, reason=reason, sender=not busy, busy=busy)


@dataclass(slots=True)
class Bodies:
    """The bodies of all requests to one process that are being received or handled.

    Used in the event loop's thread.
    """

    #: Bytes that one may have, and that all may have without the first `FREE` of each.
    max_bytes: int
    max_in_all: int
    #: Seconds that one may take to arrive.
    timeout: float
    #: Bytes that count for the common limit now.
    counted: int = 0
    _told: bool = False

    async def read(
        self, headers: Mapping[str, str], receive: Callable[[], Awaitable[MutableMapping[str, Any]]]
    ) -> bytes:
        """One body; give it to `release` when it has been dealt with.

        :raises RequestRefused: it is, or will be, too long, or took too long, or broke off. Nothing of it is counted.
        """
        announced = headers.get("content-length", "")
        if announced.isdecimal():
            self._check(int(announced))
        pieces: list[bytes] = []
        size = counted = 0
        try:
            async with asyncio.timeout(self.timeout):
                while True:
                    event = await receive()
                    if event["type"] == "http.disconnect":
                        raise RequestRefused(400, "The request broke off.")
                    piece = event.get("body", b"")
                    size += len(piece)
                    self._check(size, counted)
                    if size > FREE:
                        self.counted += size - FREE - counted
                        counted = size - FREE
                    pieces.append(piece)
                    if not event.get("more_body", False):
                        break
        except BaseException as error:
            self.counted -= counted
            if isinstance(error, TimeoutError):
                raise RequestRefused(408, "The request took too long to arrive.") from None
            raise
        if not size:
            self._check_upgrade(headers)
        return b"".join(pieces)

    def release(self, body: bytes) -> None:
        """A body that `read` returned is needed no more."""
        if len(body) > FREE:
            self.counted -= len(body) - FREE

    def _check(self, size: int, counted: int = 0) -> None:
        if size > self.max_bytes:
            raise RequestRefused(413, f"The message is longer than {self.max_bytes} bytes.")
        if size > FREE and self.counted - counted + size - FREE > self.max_in_all:
            raise RequestRefused(503, "Too many large messages at once; send it again later.", busy=True)

    def _check_upgrade(self, headers: Mapping[str, str]) -> None:
        """Some HTTP servers lose the body of a request that offers an upgrade.

        :raises RequestRefused: this one did.
        """
        has_body = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
        if "upgrade" not in headers or not has_body:
            return
        if not self._told:
            self._told = True
            log.error(
                "the HTTP server lost the body of a request that offers an upgrade (Upgrade: %s), as uvicorn with "
                "httptools does; start it with: uvicorn --http mercury.service.http11:Http11Protocol, or: mercury "
                "serve. Further ones are not logged",
                headers["upgrade"][:100].encode("unicode_escape").decode(),
            )
        raise RequestRefused(500, "The HTTP server in front of this endpoint lost the message.", busy=True)
