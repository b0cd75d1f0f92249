"""Pages that stay current: the address of a page, requested as server-sent events, sends its changing part anew."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from mercury.service.held import hold_of

log = logging.getLogger("mercury.console")

#: Streams that are open at once; seconds after which one ends, so that the browser asks again with its cookie.
MOST, LONGEST = 64, 600.0

TYPE = "text/event-stream"


def wants_stream(request: Request) -> bool:
    """Whether the page is requested as a stream."""
    return request.headers.get("accept", "").startswith(TYPE)


class Streams:
    """The open streams of a console.

    :param interval: seconds between two readings of the store for one stream.
    """

    def __init__(self, interval: float) -> None:
        self._interval = interval
        self._open = 0

    def response(self, request: Request, read: Callable[[], Awaitable[str | None]]) -> Response:
        """A stream of a page. It ends when the browser leaves or the server stops.

        :param read: the changing part of the page as HTML; ``None`` = the user is not let in any more.
        """
        if self._open >= MOST:
            return Response(status_code=204)  # the browser does not ask again
        return StreamingResponse(self._events(request, read), media_type=TYPE)

    async def _events(self, request: Request, read: Callable[[], Awaitable[str | None]]) -> AsyncIterator[str]:
        loop, ending, hold = asyncio.get_running_loop(), asyncio.Event(), hold_of(request.scope)
        until, before = loop.time() + LONGEST, ""
        self._open += 1
        try:
            with hold.holding(ending.set, loop.time()):
                if not hold.prolong():
                    return
                yield f"retry: {int(self._interval * 1000)}\n\n"
                while loop.time() < until and not ending.is_set() and not await request.is_disconnected():
                    try:
                        part = await read()
                    except Exception as error:  # the store may answer again at the next reading
                        log.info("an open page cannot be read now: %s", error)
                        yield event("stale", "the store cannot be read now")
                    else:
                        if part is None:
                            yield event("ended", "logged out")
                            return
                        yield event("part", part) if part != before else ": nothing new\n\n"
                        before = part
                    try:
                        async with asyncio.timeout(self._interval):
                            await ending.wait()
                    except TimeoutError:
                        pass
        finally:
            self._open -= 1


def event(name: str, data: str) -> str:
    """A server-sent event."""
    lines = "".join(f"data: {line}\n" for line in data.splitlines())
    return f"event: {name}\n{lines}\n"
