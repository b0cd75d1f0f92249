"""A server whose handler commits its row apart from the message: ``mercury serve tests.trial.planted.apart:app``.

A process that is killed between the two commits handles the message again.
"""

from __future__ import annotations

import os
from typing import Any

from fastapi import FastAPI
from sqlalchemy import Connection, Table, create_engine

from mercury.trial.programs import server, tables

#: The URL of the database, again.
DATABASE = "TRIAL_APART"


def app() -> FastAPI:
    engine, add = create_engine(os.environ[DATABASE]), tables.add

    def add_apart(connection: Connection, table: Table, *values: Any) -> None:
        with engine.begin() as own:
            add(own, table, *values)

    setattr(tables, "add", add_apart)  # noqa: B010
    return server.app()
