"""Reads the bodies of requests, within a limit for each body and a limit for all of them together."""

from __future__ import annotations

import asyncio
import io
import logging
import tempfile
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

from mercury.engine.log_limiter import LOG_INTERVAL, LogLimiter
from mercury.service.shares import FREE, Share, Shares
from mercury.service.turns import Turns, half_of_the_threads
from mercury.settings import HttpSettings
from mercury.statemachine.faults import Fault, FaultCode
from mercury.storage.callers import network_of
from mercury.wire.spool import Spool
from mercury.wire.values import whole_number

log = logging.getLogger("mercury.endpoint")

#: The bytes of a body that are written to its file at once, in a thread.
WRITTEN_AT_ONCE = 256 * 1024


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

    :param max_bytes: the largest body of one request in memory, in bytes.
    :param largest: the largest body of one request in a file, in bytes; ``None`` = no body is in a file.
    """

    def __init__(self, max_bytes: int, settings: HttpSettings, largest: int | None = None) -> None:
        #: The largest body of one request in memory, in bytes.
        self.max_bytes = max_bytes
        self._largest = max(max_bytes, largest or 0)
        #: Seconds in which a whole body must arrive.
        self._timeout = settings.receive_timeout
        #: Bytes of the request bodies, without the first `FREE` bytes of each.
        self._received = Shares(settings.max_receiving_bytes)
        #: Bytes of the answers larger than `FREE`, until the peer has read them.
        self.answers = Shares(settings.max_sending_bytes)
        #: Whose bodies are decoded, and whose answers are signed, beside the event loop.
        self.turns = Turns(half_of_the_threads())
        self._lost_body_logged = False
        self._no_file = LogLimiter(1, LOG_INTERVAL)

    async def read(
        self,
        headers: Mapping[str, str],
        receive: Callable[[], Awaitable[MutableMapping[str, Any]]],
        host: str,
        *,
        in_file: bool = False,
    ) -> tuple[bytes | Spool, Share | None]:
        """Read one body.

        :param host: the peer's IP address.
        :param in_file: a body that is too large for the memory is written to a file, and counts as if it were in
            memory.
        :returns: the body and its share of the limit. The caller passes the share to `release` after the engine has
            handled the body, and closes the file. ``None`` = the body is small and counts for nothing.
        :raises RequestRefused: the body, or its Content-Length, is above a limit (413, 503); it did not arrive in time
            (408); the peer disconnected (400); or it was cut so that another network's body fits (503). Its bytes
            are no longer counted then.
        """
        announced, most = whole_number(headers.get("content-length")), self._largest if in_file else self.max_bytes
        if announced is not None:
            self._check(announced, most, host)
        received = _Received(self.max_bytes)
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
                    if size > most:
                        raise _too_long(most)
                    if size > FREE:
                        share = share or _share(host, timeout)
                        self._count(share, size)
                    await received.add(piece)
                    if not event.get("more_body", False):
                        break
                body = await received.end()
        except BaseException as error:
            if share is not None:
                self._received.drop(share)
            received.close()
            if isinstance(error, OSError) and not isinstance(error, TimeoutError):
                self._log_no_file(error)
                raise RequestRefused(
                    503, "The request cannot be received now; send it again later.", busy=True
                ) from None
            if isinstance(error, TimeoutError):
                if share is not None and share.lost:
                    raise _too_many() from None
                raise RequestRefused(408, "The request took too long to arrive.") from None
            raise
        if not size:
            self._check_upgrade(headers)
        if share is not None:
            share.cut = None  # a body that has arrived is not cut any more
        return body, share

    def release(self, share: Share | None) -> None:
        """Stop counting a body that `read` returned."""
        if share is not None:
            self._received.drop(share)

    def _count(self, share: Share, size: int) -> None:
        if share.lost or not self._received.grow(share, size - FREE, asyncio.get_running_loop().time()):
            raise _too_many()

    def _check(self, size: int, most: int, host: str) -> None:
        if size > most:
            raise _too_long(most)
        if size > FREE and not self._received.may_have(network_of(host), size - FREE):
            raise _too_many()

    def _log_no_file(self, error: OSError) -> None:
        if self._no_file.allow("", asyncio.get_running_loop().time()):
            text = (
                "a large request cannot be received: %s (the file is in %s); further ones within %.0f s are not logged"
            )
            log.warning(text, error, tempfile.gettempdir(), LOG_INTERVAL)

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


class _Received:
    """The bytes of one body: in memory, and if they are more than ``most`` bytes, in a file.

    Nothing is in the store before the engine has accepted the message. The file is opened when more than ``most`` bytes
    have come, not when they are announced: an announcement costs a peer nothing, and a file costs a descriptor.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        #: In contrast to a bytearray, it becomes `bytes` without a copy.
        self._bytes = io.BytesIO()
        self._spool: Spool | None = None

    async def add(self, piece: bytes) -> None:
        """Add bytes.

        :raises OSError: the file cannot be opened or written.
        """
        self._bytes.write(piece)
        if self._spool is None and self._bytes.tell() > self._most:
            self._spool = Spool()
        if self._spool is not None and self._bytes.tell() >= WRITTEN_AT_ONCE:
            await self._write(self._spool)

    async def end(self) -> bytes | Spool:
        """The whole body.

        :raises OSError: the file cannot be written.
        """
        if self._spool is None:
            return self._bytes.getvalue()
        await self._write(self._spool)
        return self._spool

    async def _write(self, spool: Spool) -> None:
        received, self._bytes = self._bytes.getvalue(), io.BytesIO()
        await asyncio.to_thread(spool.write, received)

    def close(self) -> None:
        """Remove the file."""
        if self._spool is not None:
            self._spool.close()


def _too_long(most: int) -> RequestRefused:
    return RequestRefused(413, f"The message is longer than {most} bytes.")


def _too_many() -> RequestRefused:
    return RequestRefused(503, "Too many large messages at once; send it again later.", busy=True)


def _share(host: str, timeout: asyncio.Timeout) -> Share:
    loop = asyncio.get_running_loop()

    def cut() -> None:
        if not timeout.expired():
            timeout.reschedule(loop.time())

    return Share(network_of(host), loop.time(), cut)
