"""What the client and the server of a trial have in common: their store and settings."""

from __future__ import annotations

import faulthandler
import os
import signal

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
    SIGUSR1 writes the stacks of all threads to the log.
    """
    faulthandler.register(signal.SIGUSR1)
    settings = load()
    store = open_sql_store(settings.store, wait=settings.store_wait, idle_timeout=float(os.environ[IDLE]))
    return Mercury(store, address=address, settings=settings)
