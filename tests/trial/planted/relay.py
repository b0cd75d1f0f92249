"""A relay that sends in a transaction of its own: ``mercury serve tests.trial.planted.relay:app``.

One that is killed between that commit and the one that consumes the message sends it again.
"""

from __future__ import annotations

import os
import threading
from typing import Any

from fastapi import FastAPI

from mercury import Mercury
from mercury.client.sender import Sender
from mercury.engine.delivery.call_times import SLOW
from mercury.relaying import relay_service

#: The URL of the next endpoint.
TO = "TRIAL_ONWARD"


class Apart:
    """A sender whose messages are committed before `send` returns."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def send(self, body: bytes, *, tx: object, **options: Any) -> None:
        # In another thread no transaction is the current one.
        sending = threading.Thread(target=self._sender.send, args=(body,), kwargs=options)
        sending.start()
        sending.join()
        # A quick call would be made when the message arrives, before it is in the database that this relay reads from.
        threading.Event().wait(2 * SLOW)


class Relay(Mercury):
    def to(self, *args: Any, **options: Any) -> Any:
        return Apart(super().to(*args, **options))


def app() -> FastAPI:
    mercury = Relay()
    return mercury.app(relay_service(mercury, os.environ[TO], "trial"))
