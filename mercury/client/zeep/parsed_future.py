"""A future for a response that zeep has yet to parse."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from mercury.client.futures import RawResponse


class ParsedFuture(Future[Any]):
    """Its result is zeep's object for a response; its exception is zeep's ``Fault``, or that of ``raw``.

    :param raw: a future from `Sender.request`. The text of its `TimeoutError` has the state of the request.
    :param parse: parses the outcome of ``raw``, in the first thread that needs it.
    """

    def __init__(self, raw: Future[RawResponse], parse: Callable[[Future[RawResponse]], Any]) -> None:
        super().__init__()
        self._raw = raw
        self._parse = parse
        raw.add_done_callback(self._take)

    def result(self, timeout: float | None = None) -> Any:
        self._wait(timeout)
        return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        self._wait(timeout)
        return super().exception(timeout)

    def _wait(self, timeout: float | None) -> None:
        """:raises TimeoutError: ``raw`` is not done in time; the text has the state of the request."""
        if not self.done():
            self._raw.exception(timeout)

    def _take(self, raw: Future[RawResponse]) -> None:
        if raw.cancelled() or not self.set_running_or_notify_cancel():
            self.cancel()
            return
        try:
            self.set_result(self._parse(raw))
        except BaseException as error:
            self.set_exception(error)
