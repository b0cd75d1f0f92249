"""A client in a process of its own: sends one note to each destination that it is given, until it is ended."""

from __future__ import annotations

import sys
import threading

from mercury import Mercury
from mercury.engine.addresses import AddressPolicy
from mercury.engine.settings import EngineSettings
from mercury.settings import Settings
from tests.acceptance.app import Note

if __name__ == "__main__":
    allowed = AddressPolicy(("http://127.0.0.1:*", "http://localhost:*"))
    with Mercury("memory:", settings=Settings(engine=EngineSettings(addresses=allowed))) as client:
        for uri in sys.argv[1:]:
            client.to(uri).send(Note(uri))
        threading.Event().wait()
