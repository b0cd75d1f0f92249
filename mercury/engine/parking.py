"""Exchanges that are held open because their response may come any moment (HTTP-05)."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable

from mercury.engine.core import Engine
from mercury.engine.exchange import Waiting
from mercury.errors import StorageError
from mercury.wire.envelope import HttpMessage

log = logging.getLogger("mercury.runtime")

#: Called once with the response; ``None`` = it does not come here any more.
OnResponse = Callable[[HttpMessage | None], None]


class Parking:
    """Exchanges by the MessageID of their request. Safe to be used by many threads."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._mutex = threading.Lock()
        self._parked: dict[str, list[tuple[Waiting, OnResponse]]] = {}

    def park(self, waiting: Waiting, on_response: OnResponse) -> Callable[[], None]:
        """Hold an exchange; returns what cancels it. If the response is there already it is called at once."""
        place = (waiting, on_response)
        with self._mutex:
            self._parked.setdefault(waiting.message_id, []).append(place)
        self.arrived([waiting.message_id])

        def cancel() -> None:
            with self._mutex:
                held = self._parked.get(waiting.message_id, [])
                if place in held:
                    held.remove(place)
                if not held:
                    self._parked.pop(waiting.message_id, None)

        return cancel

    def arrived(self, message_ids: Iterable[str]) -> None:
        """Responses to these requests may be there now."""
        for message_id in message_ids:
            with self._mutex:
                held = self._parked.get(message_id, [])
                waiting = held[0][0] if held else None
            response = self._look(waiting) if waiting is not None else None
            if response is None:
                continue
            with self._mutex:
                released = self._parked.pop(message_id, [])
            for _, on_response in released:
                on_response(response)

    def release_all(self) -> None:
        """Let every exchange go with what it has."""
        with self._mutex:
            parked, self._parked = self._parked, {}
        for held in parked.values():
            for _, on_response in held:
                on_response(None)

    def _look(self, waiting: Waiting) -> HttpMessage | None:
        try:
            return self._engine.respond(waiting)
        except StorageError as error:
            log.warning("a response can not be read now: %s", error, extra={"message_id": waiting.message_id})
            return None
