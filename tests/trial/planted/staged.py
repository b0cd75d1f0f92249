"""A server whose stage acknowledges what it has not committed to the disk: ``mercury serve
tests.trial.planted.staged:app``.
"""

from __future__ import annotations

import os

from fastapi import FastAPI

from mercury import Mercury
from mercury.settings import load
from mercury.storage.memory import MemoryStore
from mercury.storage.opening import open_sql_store
from mercury.trial.programs import common, server


def app() -> FastAPI:
    settings = load()
    store = open_sql_store(settings.store, idle_timeout=float(os.environ[common.IDLE]))
    mercury = Mercury(store, stage=MemoryStore(), settings=settings)
    return mercury.app(server.make_service(staged=True))
