"""What the application is told of: failed sequences, refused messages, dead letters."""

from __future__ import annotations

import logging
from collections.abc import Callable

from mercury.client.futures import Futures

log = logging.getLogger("mercury")

#: Is told what happened to sequences and messages; see `Mercury.on_error`.
ErrorCallback = Callable[[str, dict[str, str]], None]


class ErrorListener:
    """Tells the futures and the application's error callbacks."""

    def __init__(self, futures: Futures, callbacks: list[ErrorCallback]) -> None:
        self._futures = futures
        self._callbacks = callbacks

    def sequence_failed(self, endpoint: str, key: str, reason: str, dead_letters: int) -> None:
        details = {"endpoint": endpoint, "key": key, "reason": reason, "dead_letters": str(dead_letters)}
        self._tell("sequence_failed", details)

    def peer_fault(self, endpoint: str, key: str, message_id: str | None, reason: str) -> None:
        details = {"endpoint": endpoint, "key": key, "message_id": message_id or "", "reason": reason}
        self._tell("peer_fault", details)

    def message_died(self, message_id: str | None, reason: str) -> None:
        self._futures.died(message_id, reason)
        self._tell("dead_letter", {"message_id": message_id or "", "reason": reason})

    def response_died(self, request: str, reason: str) -> None:
        self._futures.died(request, reason)

    def _tell(self, kind: str, details: dict[str, str]) -> None:
        for callback in self._callbacks:
            try:
                callback(kind, details)
            except Exception:
                log.exception("an error callback failed")
