"""What the client and the server of a trial have in common: their store and settings."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import AsyncIterator, Callable
from typing import TypeAlias

from fastapi import FastAPI

from mercury.facade import Mercury
from mercury.settings import load
from mercury.storage.opening import open_sql_store

#: The URLs of the server's service and of the client, both through links of the trial.
TARGET, ADDRESS = "TRIAL_TARGET", "TRIAL_ADDRESS"
#: Seconds after which the database ends the transaction of a process that does nothing in it.
IDLE = "TRIAL_IDLE_TIMEOUT"


def mercury(address: str | None = None) -> Mercury:
    """A Mercury with the store of the settings.

    The store ends transactions of a paused process within a lease: its locks would keep another member waiting.
    """
    settings = load()
    store = open_sql_store(settings.store, wait=settings.store_wait, idle_timeout=float(os.environ[IDLE]))
    return Mercury(store, address=address, settings=settings)


#: Runs in a thread of its own until the event is set.
Beside: TypeAlias = Callable[[Mercury, threading.Event], None]


def app_of(mercury: Mercury, beside: Beside | None) -> FastAPI:
    """The application of a program.

    :param beside: what runs beside it.
    """

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        ended = threading.Event()
        async with mercury.lifespan(app):
            thread = threading.Thread(target=beside or _nothing, args=(mercury, ended), name="trial")
            thread.start()
            try:
                yield
            finally:
                ended.set()
                thread.join()

    made = FastAPI(lifespan=lifespan)
    made.include_router(mercury.router())
    made.include_router(mercury.status_router())
    return made


def _nothing(mercury: Mercury, ended: threading.Event) -> None:
    """Nothing runs beside."""
